"""The baseline of `perfkit check`: recorded values of launches, its file, and which launch is which again.

The file is for review in a repository: a block a launch, sorted, a line a value.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from perfkit.analysis.identity import Identity, identities, shape
from perfkit.errors import ConfigError
from perfkit.model import Dim3, Launch, Status, WorkloadKind
from perfkit.user_file import read_text

VERSION = 2
_AGAIN = "Record it anew with --update-baseline."


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded value, or why there was none. `unit` is None in version 1, which did not say."""

    value: float | str | None
    unit: str | None = ""
    status: Status = Status.OK


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """A launch of the baseline. Of version 1 `identity.kernel` holds "label problem", and nothing else is
    known.
    """

    identity: Identity
    values: Mapping[str, Recorded]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Recorded launches of one model of GPU; `provenance` is what else the file says, for people."""

    path: Path
    gpu: str = ""
    launches: tuple[RecordedLaunch, ...] = ()
    version: int = VERSION
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Matches:
    """Which recorded launch each of today's launches is.

    `recorded`: index of a launch -> the recorded one; `changed`: what became of its shape, function or
    device; `why_not`: index -> why a launch has no match; `absent`: recorded launches without a match.
    """

    recorded: Mapping[int, RecordedLaunch]
    changed: Mapping[int, str]
    why_not: Mapping[int, str]
    absent: tuple[RecordedLaunch, ...]


# What may differ between a launch and its record where only one choice is left, and how to say it.
_FUNCTION: tuple[str, ...] = ("function",)
_PLACE: tuple[str, ...] = ("device", "process")
_SHAPE: tuple[str, ...] = ("grid", "block")
_RELAXED = tuple(
    sum(chosen, ()) for count in range(1, 4) for chosen in combinations((_FUNCTION, _PLACE, _SHAPE), count)
)


def match(baseline: Baseline, launches: Sequence[Launch]) -> Matches:
    """Pair recorded launches with today's: those that are alike in everything first; then those of which
    only one shape (function, device) is left on either side, in order. What stays ambiguous has no match.
    """
    if baseline.version == 1:
        return _match_by_name(baseline, launches)
    known = identities(launches)
    by_identity = {recorded.identity: recorded for recorded in baseline.launches}
    pairs: dict[int, RecordedLaunch] = {}
    for index, one in enumerate(known):
        if one in by_identity:
            pairs[index] = by_identity.pop(one)
    functions_now, functions_then = _functions(known), _functions(r.identity for r in baseline.launches)

    def one_function(identity: Identity) -> bool:
        return all(len(held.get(identity.kernel, ())) < 2 for held in (functions_now, functions_then))

    for fields in _RELAXED:
        groups: dict[Identity, tuple[list[int], list[RecordedLaunch]]] = defaultdict(lambda: ([], []))
        for index, one in enumerate(known):
            if index not in pairs:
                groups[_without(one, fields)][0].append(index)
        for recorded in by_identity.values():
            groups[_without(recorded.identity, fields)][1].append(recorded)
        for now, then in groups.values():
            told = _single(known[index] for index in now) and _single(one.identity for one in then)
            if not (now and then and told):
                continue
            if "function" in fields and not one_function(known[now[0]]):
                continue
            then.sort(key=lambda one: one.identity.occurrence)
            for index, recorded in zip(now, then, strict=False):
                pairs[index] = by_identity.pop(recorded.identity)
    return Matches(
        pairs,
        {index: _changes(recorded.identity, known[index]) for index, recorded in pairs.items()},
        {i: _why_not(one, by_identity.values()) for i, one in enumerate(known) if i not in pairs},
        tuple(by_identity.values()),
    )


def _functions(known: Iterable[Identity]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for one in known:
        found[one.kernel].add(one.function)
    return found


def _without(one: Identity, fields: Sequence[str]) -> Identity:
    """The identity without these fields and the occurrence, which counts launches alike in them."""
    blank = Identity("", "")
    return replace(one, occurrence=0, **{name: getattr(blank, name) for name in fields})


def _single(known: Iterable[Identity]) -> bool:
    """Whether all are one and the same, but for the occurrence."""
    return len({replace(one, occurrence=0) for one in known}) == 1


def _changes(then: Identity, now: Identity) -> str:
    """What differs between a launch and its record; "" where nothing does or the reports do not tell."""
    said = []
    for name in ("grid", "block"):
        before, after = getattr(then, name), getattr(now, name)
        if before != after:
            said.append(f"the {name} was {shape(before)} and is {shape(after)}")
    if then.device != now.device and None not in (then.device, now.device):
        said.append(f"it ran on device {then.device} and now on {now.device}")
    if then.function != now.function and then.kernel == then.function.split("(")[0]:
        said.append("its arguments changed")
    elif then.function != now.function:
        said.append("its full name changed")
    return "; ".join(said)


def _why_not(one: Identity, left: Iterable[RecordedLaunch]) -> str:
    """Why a launch has no recorded one."""
    alike = [r.identity for r in left if (r.identity.kernel, r.identity.problem) == (one.kernel, one.problem)]
    if not alike:
        return "the baseline holds no such launch"
    rest = f" and {len(alike) - 3} more" if len(alike) > 3 else ""
    return (
        "the baseline does not tell which launch this was; left in it are "
        + "; ".join(map(str, alike[:3]))
        + rest
    )


def _match_by_name(baseline: Baseline, launches: Sequence[Launch]) -> Matches:
    """Version 1 knows "label problem" only, and later launches of a name overwrote earlier ones."""
    names: dict[str, list[int]] = defaultdict(list)
    for index, one in enumerate(launches):
        names[f"{one.label} {one.problem}".rstrip()].append(index)
    pairs: dict[int, RecordedLaunch] = {}
    why_not: dict[int, str] = {}
    absent: list[RecordedLaunch] = []
    held = {recorded.identity.kernel: recorded for recorded in baseline.launches}
    for name, recorded in held.items():
        found = names.get(name, ())
        if len(found) > 1:
            raise ConfigError(
                f"baseline {baseline.path} is of schema version 1, which knows launches by name alone, and "
                f"{len(found)} launches are called {name} ({launches[found[0]].id} and others): it cannot "
                "say which of them it recorded",
                _AGAIN,
            )
        if found:
            pairs[found[0]] = recorded
        else:
            absent.append(recorded)
    for name, members in names.items():
        why_not |= {index: "the baseline holds no such launch" for index in members if name not in held}
    return Matches(pairs, dict.fromkeys(pairs, ""), why_not, tuple(absent))


def dump(launches: Sequence[RecordedLaunch], gpu: str, provenance: Mapping[str, Any]) -> str:
    """The baseline file's text."""
    document = {
        "schema_version": VERSION,
        **provenance,
        "gpu": gpu,
        "launches": [_block(one) for one in sorted(launches, key=lambda one: _order(one.identity))],
    }
    return _text(document) + "\n"


def _order(one: Identity) -> tuple[Any, ...]:
    device = -1 if one.device is None else one.device
    shapes = (one.grid or (), one.block or ())
    return (
        one.kernel,
        one.problem,
        one.kind.value,
        one.function,
        *shapes,
        device,
        one.process,
        one.occurrence,
    )


def _block(one: RecordedLaunch) -> dict[str, Any]:
    known = one.identity
    return {
        "kernel": known.kernel,
        "function": known.function,
        "kind": known.kind.value,
        "problem": known.problem,
        "grid": list(known.grid) if known.grid else None,
        "block": list(known.block) if known.block else None,
        "device": known.device,
        "process": known.process,
        "occurrence": known.occurrence,
        "values": {
            name: {
                "value": value.value,
                "unit": value.unit,
                **({} if value.status is Status.OK else {"status": value.status.value}),
            }
            for name, value in sorted(one.values.items())
        },
    }


def _text(value: Any, indent: str = "") -> str:
    """JSON in which what holds no further object stands in one line."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    leaf = not any(isinstance(one, (dict, list)) for one in inner)
    if leaf:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f"{json.dumps(k, ensure_ascii=False)}: {_text(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(deeper + line for line in lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + _text(one, deeper) for one in value) + f"\n{indent}]"


def load_baseline(path: Path) -> Baseline | None:
    """The recorded launches, None where the file is not there yet. Raises ConfigError for a file that is
    wrong.
    """
    try:
        raw = json.loads(read_text(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"baseline {path} cannot be read: {error.strerror or error}", _AGAIN) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"baseline {path} cannot be read: {error}", _AGAIN) from error
    try:
        return parse(path, raw)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigError(f"baseline {path} is damaged: {what}", _AGAIN) from error


def parse(path: Path, raw: Any) -> Baseline:
    """A baseline from its JSON. Raises ConfigError for another version; KeyError, TypeError or ValueError
    for one that is damaged.
    """
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version == 1:
        values = raw["values"]
        launches = [
            RecordedLaunch(
                Identity(name, ""), {metric: Recorded(_value(v), None) for metric, v in held.items()}
            )
            for name, held in values.items()
        ]
        return Baseline(path, str(raw.get("gpu", "")), tuple(launches), 1)
    if version != VERSION:
        raise ConfigError(
            f"{path} is not a baseline of schema version 1 or {VERSION}"
            + (f" but of {version}: a newer perfkit made it" if isinstance(version, int) else ""),
            _AGAIN,
        )
    found = tuple(_launch(one, str(raw["gpu"])) for one in raw["launches"])
    twice = len(found) - len({one.identity for one in found})
    if twice:
        raise ValueError(f"{twice} of its launches stand there twice")
    more = {name: value for name, value in raw.items() if name not in ("gpu", "launches")}
    return Baseline(path, str(raw["gpu"]), found, VERSION, more)


def _launch(raw: Mapping[str, Any], gpu: str) -> RecordedLaunch:
    device = raw["device"]
    identity = Identity(
        str(raw["kernel"]), str(raw["function"]), WorkloadKind(raw["kind"]), str(raw["problem"]),
        _dim3(raw["grid"]), _dim3(raw["block"]), gpu, None if device is None else int(device),
        int(raw["process"]), int(raw["occurrence"]),
    )  # fmt: skip
    values = {
        str(name): Recorded(_value(one["value"]), str(one["unit"]), Status(one.get("status", "ok")))
        for name, one in raw["values"].items()
    }
    return RecordedLaunch(identity, values)


def _dim3(raw: Any) -> Dim3 | None:
    if raw is None:
        return None
    x, y, z = map(int, raw)
    return x, y, z


def _value(raw: Any) -> float | str | None:
    if raw is None or isinstance(raw, str):
        return raw
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not math.isfinite(raw):
        raise ValueError(f"the value {raw!r} is neither a number nor a text")
    return float(raw)
