"""Aggregates over repeated launches, made only when asked.

`median`, `min` and `max` take each metric's values as they are. `total` adds up the counters of the
launches and evaluates the formulas on the sums, so that a ratio is a ratio of sums and never a mean of
ratios; a metric whose counters cannot be added (percentages, averages) has no total and says so. Launches
that were not collected are left out of every aggregate. Ranges, graphs and command lists are never joined:
the report does not tell what ran within them, so that two may have nothing in common but the kind.
"""

from __future__ import annotations

import statistics
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfkit.analysis.identity import device_text, process_text
from perfkit.analysis.metrics import MetricSets
from perfkit.errors import UsageError
from perfkit.model import Counter, Device, Evaluated, Launch, MetricValue, Status, WorkloadKind

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
    "device": lambda one: " ".join(
        filter(None, (device_text(one.device), one.device.pci or one.device.uuid))
    ),
    "process": lambda one: process_text(one.process, host=True),
    "kind": lambda one: one.kind.value.replace("_", " "),
    "problem": lambda one: one.problem,
    "grid": lambda one: " x ".join(map(str, one.grid or ())),
    "block": lambda one: " x ".join(map(str, one.block or ())),
    "nvtx": lambda one: " > ".join(one.nvtx),
}
KEYS = tuple(_KEYS)
_UNTOLD = {"device": "", "process": ""}  # an unknown one is no difference
DEFAULT_KEYS = ("kernel", "problem", "gpu", "device")


@dataclass(frozen=True, slots=True)
class Group:
    """Launches that share the values `key` of the grouping, and the aggregate over the collected ones.

    `differ` are keys that were not grouped by although the launches have several values of them, and
    `contradicting` those launches whose counters contradict one another.
    """

    key: tuple[str, ...]
    aggregate: Evaluated
    used: int
    left_out: tuple[Launch, ...]
    differ: tuple[str, ...] = ()
    contradicting: tuple[Evaluated, ...] = ()


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
    several_reports = len({one.launch.id.report for one in evaluated}) > 1
    only = _only_devices(one.launch for one in evaluated)
    for one in evaluated:
        full_name = one.launch.name if "kernel" in by else ""
        if one.launch.kind is not WorkloadKind.KERNEL:
            where = f" of {one.launch.id.report}" if several_reports else ""
            full_name = f"{one.launch.label} #{one.launch.id.number}{where}"
        placed = only.get(one.launch.gpu) if one.launch.device == Device() else None
        launch = replace(one.launch, device=placed) if placed is not None else one.launch
        groups.setdefault((tuple(_KEYS[name](launch) for name in by), full_name), []).append(one)
    several = Counts(key for key, _ in groups)
    # The full name stands in the kernel's place, and beside the first key where the kernel is none of them.
    place = by.index("kernel") if "kernel" in by else 0
    shown = {
        (key, name): tuple(
            text
            if index != place or several[key] < 2 or not name
            else name
            if "kernel" in by
            else f"{text} ({name})".strip()
            for index, text in enumerate(key)
        )
        for key, name in groups
    }
    others = [key for key in ("gpu", "device", "process", "problem", "grid", "block") if key not in by]
    return [
        replace(
            _group(shown[group], members, sets, function, names),
            differ=tuple(
                key
                for key in others
                if len({_KEYS[key](one.launch) for one in members} - {_UNTOLD.get(key)}) > 1
            ),
        )
        for group, members in groups.items()
    ]


def _only_devices(launches: Iterable[Launch]) -> dict[str, Device]:
    """GPU -> its device, where the launches whose device is known ran on one: those that ncu did not collect,
    and tells no device of, belong to it.
    """
    known: dict[str, set[Device]] = {}
    for one in launches:
        if one.device != Device():
            known.setdefault(one.gpu, set()).add(one.device)
    return {gpu: next(iter(held)) for gpu, held in known.items() if len(held) == 1}


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
    contradicting = tuple(one for one in used if one.contradictions)
    contradictions = tuple(found for one in contradicting for found in one.contradictions)
    aggregate = Evaluated(first, values, contradictions)
    return Group(key, aggregate, len(used), left_out, contradicting=contradicting)


def _reduced(name: str, values: list[MetricValue], function: str) -> MetricValue:
    """The aggregate of one metric; text is kept where all launches agree."""
    good = [value for value in values if value.value is not None]
    if not good:
        return values[0]
    missing = len(values) - len(good)
    gaps = f"{missing} of {len(values)} launches have no value" if missing else ""
    note = "; ".join(filter(None, (gaps, _reasons(good))))
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


def _reasons(values: list[MetricValue]) -> str:
    """What the launches' values say of themselves, each once, with how many say so where not all do.

    An aggregate rests on these values, so that their caveats are its own.
    """
    said = Counts(value.reason for value in values if value.reason)
    return "; ".join(
        reason if count == len(values) else f"{count} of {len(values)} values: {reason}"
        for reason, count in said.items()
    )


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
