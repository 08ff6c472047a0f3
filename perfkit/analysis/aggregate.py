"""Aggregates over repeated launches, made only when asked.

`median`, `min` and `max` take each metric's values as they are. `total` adds up the counters of the
launches and evaluates the formulas on the sums, so that a ratio is a ratio of sums and never a mean of
ratios; a metric whose counters cannot be added (percentages, averages) has no total and says so. Launches
that were not collected are left out of every aggregate.
"""

from __future__ import annotations

import statistics
from collections import Counter as Counts
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfkit.analysis.metrics import MetricSets
from perfkit.errors import UsageError
from perfkit.model import Counter, Evaluated, Launch, MetricValue, Status

_FUNCTIONS: Mapping[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "min": min,
    "max": max,
}
FUNCTIONS = (*_FUNCTIONS, "total")
_KEYS: Mapping[str, Callable[[Launch], str]] = {
    "kernel": lambda one: one.label,
    "name": lambda one: one.name,
    "report": lambda one: one.id.report,
    "gpu": lambda one: one.gpu,
    "problem": lambda one: one.problem,
    "grid": lambda one: " x ".join(map(str, one.grid or ())),
    "block": lambda one: " x ".join(map(str, one.block or ())),
    "nvtx": lambda one: " > ".join(one.nvtx),
}
KEYS = tuple(_KEYS)
DEFAULT_KEYS = ("kernel", "problem", "gpu")


@dataclass(frozen=True, slots=True)
class Group:
    """Launches that share the values `key` of the grouping, and the aggregate over the collected ones.

    `differ` are keys that were not grouped by although the launches have several values of them.
    """

    key: tuple[str, ...]
    aggregate: Evaluated
    used: int
    left_out: tuple[Launch, ...]
    differ: tuple[str, ...] = ()


def aggregate(
    evaluated: Sequence[Evaluated], sets: MetricSets, function: str, by: Sequence[str], names: Sequence[str]
) -> list[Group]:
    """One Group for each combination of the keys `by`, in order of first appearance.

    Kernels that share a function name but not the full one (CUTLASS's `Kernel`) are never joined by `kernel`.
    Raises UsageError for a function or key that does not exist.
    """
    if function not in FUNCTIONS:
        raise UsageError(f"unknown aggregate {function!r}", f"Aggregates: {', '.join(FUNCTIONS)}.")
    for key in by:
        if key not in _KEYS:
            raise UsageError(f"cannot group by {key!r}", f"Group by: {', '.join(KEYS)}.")
    groups: dict[tuple[tuple[str, ...], str], list[Evaluated]] = {}
    for one in evaluated:
        full_name = one.launch.name if "kernel" in by else ""
        groups.setdefault((tuple(_KEYS[name](one.launch) for name in by), full_name), []).append(one)
    several = Counts(key for key, _ in groups)
    shown = {
        (key, name): tuple(
            name if by_what == "kernel" and several[key] > 1 else text
            for by_what, text in zip(by, key, strict=True)
        )
        for key, name in groups
    }
    others = [key for key in ("gpu", "problem", "grid", "block") if key not in by]
    return [
        replace(
            _group(shown[group], members, sets, function, names),
            differ=tuple(key for key in others if len({_KEYS[key](one.launch) for one in members}) > 1),
        )
        for group, members in groups.items()
    ]


def _group(
    key: tuple[str, ...], members: list[Evaluated], sets: MetricSets, function: str, names: Sequence[str]
) -> Group:
    used = [one for one in members if one.launch.collected]
    left_out = tuple(one.launch for one in members if not one.launch.collected)
    first = (used or members)[0].launch
    if not used:
        return Group(key, members[0], 0, left_out)
    if function == "total":
        result = sets.evaluate(_summed([one.launch for one in used]), names)
        values = {name: _only_sums(value) for name, value in result.metrics.items()}
    else:
        values = {name: _reduced(name, [one.metrics[name] for one in used], function) for name in names}
    contradictions = tuple(found for one in used for found in one.contradictions)
    return Group(key, Evaluated(first, values, contradictions), len(used), left_out)


def _reduced(name: str, values: list[MetricValue], function: str) -> MetricValue:
    """The aggregate of one metric; text is kept where all launches agree."""
    good = [value for value in values if value.value is not None]
    if not good:
        return values[0]
    missing = len(values) - len(good)
    note = f"{missing} of {len(values)} launches have no value" if missing else ""
    status = Status.INVALID if any(value.status is Status.INVALID for value in good) else Status.OK
    counters, formula = good[0].counters, f"{function} over {len(good)} launches of {good[0].formula}"
    numbers = [float(value.value) for value in good if isinstance(value.value, (int, float))]
    if numbers:
        return replace(
            good[0], value=_FUNCTIONS[function](numbers), status=status, reason=note, formula=formula
        )
    texts = list(dict.fromkeys(str(value.value) for value in good))
    if len(texts) == 1:
        return replace(good[0], reason=note, formula=formula)
    reason = f"differs between the launches: {', '.join(texts)}"
    return MetricValue(name, None, good[0].unit, Status.UNDEFINED, reason, formula, counters)


def _summed(launches: list[Launch]) -> Launch:
    """A launch whose counters are the sums (or, of what is the same everywhere, the value) of those of
    `launches`.
    """
    counters: dict[str, Counter] = {}
    for name in launches[0].counters:
        found = [one.counters.get(name) for one in launches]
        present = [one for one in found if one is not None and one.status is Status.OK]
        if len(present) != len(launches):
            continue
        combined = _combined(name, present)
        if combined is not None:
            counters[name] = combined
    return replace(launches[0], counters=counters)


def _combined(name: str, found: list[Counter]) -> Counter | None:
    values = [one.value for one in found]
    if _is_additive(name):
        numbers = [value for value in values if isinstance(value, (int, float))]
        instances: dict[str | int, float] = {}
        for one in found:
            for key, value in one.instances:
                instances[key] = instances.get(key, 0.0) + value
        return replace(found[0], value=sum(numbers), instances=tuple(instances.items()))
    return found[0] if all(value == values[0] for value in values) else None


def _is_additive(name: str) -> bool:
    return name.endswith(".sum") or name.startswith("sass__") or name == "gpu__time_duration"


def _only_sums(value: MetricValue) -> MetricValue:
    if value.status is not Status.NOT_COLLECTED:
        return replace(value, formula=f"on sums: {value.formula}")
    return replace(
        value, status=Status.UNDEFINED, reason="its counters cannot be added over launches; use median"
    )
