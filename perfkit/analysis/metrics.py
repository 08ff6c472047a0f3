"""Metrics of a launch: evaluated from its counters by the definitions in metric_sets/."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path

from perfkit.analysis import consistency
from perfkit.analysis.definitions import (
    Alternative,
    Bound,
    ChipOverride,
    Definitions,
    Metric,
    MetricSet,
    load_definitions,
    near,
)
from perfkit.analysis.expression import Expression, Missing, Undefined
from perfkit.errors import UsageError
from perfkit.model import Counter, Evaluated, Launch, MetricValue, Status, WorkloadKind

__all__ = ["MetricSets", "load_metric_sets"]

# Read along with every set: what the chip is and how many passes it took.
_ALWAYS = (
    "device__attribute_multiprocessor_count",
    "device__attribute_num_schedulers_per_multiprocessor",
    "device__attribute_max_warps_per_multiprocessor",
    "device__attribute_max_warps_per_scheduler",
    "profiler__replayer_passes",
)
# Passes of one launch differ by up to 8 % in the field reports; what is further outside is not their doing.
_BY_PASSES = 0.1
_LISTED = 3  # of more missing counters only so many are named, where a section holds them


def load_metric_sets(extra: Iterable[str | Path] = ()) -> MetricSets:
    """The built-in metric sets and those in `extra` (TOML files, or folders of them).

    Raises ConfigError for a file that is wrong.
    """
    extra = tuple(extra)
    return MetricSets(load_definitions(extra)) if extra else _built_in()


@cache
def _built_in() -> MetricSets:
    return MetricSets(load_definitions())


class MetricSets:
    """The metric definitions of one session: what to collect, what to read, and how to evaluate a launch."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._by_chip: dict[tuple[int, int], _Chip] = {}

    @property
    def sets(self) -> Mapping[str, MetricSet]:
        """The sets by name, built-in ones first."""
        return self._definitions.sets

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Every metric by name, hidden ones included, as defined before any chip's differences."""
        return self._definitions.metrics

    def names(self, sets: Iterable[str] | None = None) -> tuple[str, ...]:
        """The metrics of these sets (all sets if None) in order; a metric's own name stands for itself.

        Raises UsageError with near matches for a name that is neither.
        """
        chosen: dict[str, None] = {}
        for name in self.sets if sets is None else sets:
            if name in self.sets:
                chosen.update(dict.fromkeys(self.sets[name].metrics))
            elif name in self.metrics:
                chosen[name] = None
            else:
                known = [*self.sets, *(one.name for one in self.metrics.values() if not one.hidden)]
                raise UsageError(
                    f"no metric set or metric {name!r}{near(name, known)}", f"Sets: {', '.join(self.sets)}."
                )
        return tuple(chosen)

    def counters(
        self, names: Iterable[str] | None = None, compute_capability: tuple[int, int] | None = None
    ) -> tuple[str, ...]:
        """What ncu must collect (`--metrics`) for these sets or metrics on this chip: each metric's first
        choice.
        """
        names = None if names is None else tuple(names)
        chip = self._chip(compute_capability or (0, 0))
        chosen: dict[str, None] = {}
        for name in self._closure(self.names(names), chip):
            metric = chip.metrics[name]
            if name not in chip.absent and metric.collect is not None:
                chosen.update(dict.fromkeys(metric.collect))
            elif name not in chip.absent and metric.alternatives:
                chosen.update(dict.fromkeys(metric.alternatives[0].expression.counters))
        for set_name in self.sets if names is None else names:
            if set_name in self.sets:
                chosen.update(dict.fromkeys(self.sets[set_name].also))
        return tuple(name for name in chosen if not name.startswith(("device__", "profiler__")))

    def reading(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """What to read from a report to answer these sets or metrics on any chip, by any alternative."""
        names = None if names is None else tuple(names)
        chosen: dict[str, None] = dict.fromkeys(_ALWAYS)
        for chip in (self._chip((0, 0)), *map(self._override_only, range(len(self._definitions.chips)))):
            for name in self._closure(self.names(names), chip, first_only=False):
                metric = chip.metrics[name]
                chosen.update(dict.fromkeys((*metric.counters, *(metric.collect or ()))))
        for set_name in self.sets if names is None else names:
            if set_name in self.sets:
                chosen.update(dict.fromkeys(self.sets[set_name].also))
        chosen.update(dict.fromkeys(consistency.counters()))
        return tuple(chosen)

    def evaluate(self, launch: Launch, names: Iterable[str] | None = None) -> Evaluated:
        """The metrics of these sets (all if None), or single metrics, on one launch.

        Every metric gets a value or a status with a reason; nothing is left out. Where counters contradict
        one another, what rests on the doubtful ones is invalid (consistency.py).
        """
        chip, wanted = self._chip(launch.compute_capability), self.names(names)
        evaluation = _Evaluation(launch, chip)
        read = {name: evaluation.value(name) for name in wanted}
        broken = consistency.broken(launch, evaluation)
        if not broken:
            return Evaluated(launch, read)
        other = _Evaluation(consistency.trusted(launch, broken), chip)
        return consistency.settled(launch, broken, read, {name: other.value(name) for name in wanted})

    def chip_metrics(self, compute_capability: tuple[int, int]) -> Mapping[str, Metric]:
        """Every metric by name, as this chip defines it."""
        return self._chip(compute_capability).metrics

    def readings(self, launch: Launch, name: str) -> tuple[tuple[Alternative, float], ...]:
        """Every way in which the launch's counters give this metric, with its value.

        `evaluate` takes the first. Refusals are left aside. Alternatives without `differs` must agree.
        """
        chip = self._chip(launch.compute_capability)
        return _Evaluation(launch, chip).readings(chip.metrics[name])

    def both_readings(self, launch: Launch, relation: consistency.Relation) -> tuple[float, float]:
        """Both readings of a fact on one launch, NaN where it lacks the counters."""
        scope = _Evaluation(launch, self._chip(launch.compute_capability))
        return relation.one.value(scope), relation.other.value(scope)

    def _closure(self, names: Iterable[str], chip: _Chip, *, first_only: bool = True) -> tuple[str, ...]:
        """These metrics and those that they need: by their first alternatives only, or by any."""
        seen: dict[str, None] = {}
        waiting = list(names)[::-1]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen[name] = None
            metric = chip.metrics[name]
            used = metric.uses
            if first_only:
                later = {one for alternative in metric.alternatives[1:] for one in alternative.metrics}
                later.update(one for bound in metric.bounds for one in bound.metrics)
                first = metric.alternatives[0].metrics if metric.alternatives else ()
                used = tuple(one for one in used if one in first or one not in later)
            waiting += used[::-1]
        return tuple(seen)

    def _chip(self, compute_capability: tuple[int, int]) -> _Chip:
        chip = self._by_chip.get(compute_capability)
        if chip is None:
            matching = [c for c in self._definitions.chips if c.applies_to(compute_capability)]
            chip = self._by_chip[compute_capability] = _Chip(self._definitions, compute_capability, matching)
        return chip

    def _override_only(self, index: int) -> _Chip:
        return _Chip(self._definitions, (0, 0), [self._definitions.chips[index]])


class _Chip:
    """The definitions with one chip's differences applied."""

    def __init__(
        self, definitions: Definitions, compute_capability: tuple[int, int], matching: list[ChipOverride]
    ) -> None:
        self.metrics: dict[str, Metric] = dict(definitions.metrics)
        self.absent: dict[str, str] = {}
        for override in matching:
            self.metrics.update(override.metrics)
            for pattern, reason in override.absent.items():
                self.absent.update({name: reason for name in self.metrics if fnmatchcase(name, pattern)})
        self.name = f"{compute_capability[0]}.{compute_capability[1]}"
        self.figures = definitions.devices.get(self.name, {})


class _Evaluation:
    """One launch being evaluated: the scope its formulas read from, each metric computed once."""

    def __init__(self, launch: Launch, chip: _Chip) -> None:
        self._launch = launch
        self._chip = chip
        self._counters: dict[str, Counter | None] = {}
        self._values: dict[str, MetricValue] = {}

    def counter(self, name: str) -> Counter:
        if name not in self._counters:
            self._counters[name] = self._launch.counters.get(name)
        found = self._counters[name]
        if found is None:
            raise Missing(name)
        return found

    def metric(self, name: str) -> float:
        value = self.value(name)
        if value.status is Status.UNDEFINED:
            raise Undefined(
                f"{name} is undefined: {value.reason}" if value.reason else f"{name} is undefined"
            )
        if not isinstance(value.value, (int, float)):
            raise Missing(name, "metric", value.status)
        return float(value.value)

    def device(self, name: str) -> float:
        value = self._chip.figures.get(name)
        if not isinstance(value, (int, float)):
            raise Missing(name, "device")
        return float(value)

    def value(self, name: str) -> MetricValue:
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = self._compute(self._chip.metrics[name])
        return found

    def _compute(self, metric: Metric) -> MetricValue:
        if metric.pick:
            return self._pick(metric)
        if metric.total:
            return self._total(metric)
        if refusal := self._refusal(metric):
            return self._without(metric, Status.UNDEFINED, refusal, metric.alternatives[0])
        for alternative in metric.alternatives:
            if not self._applies(alternative):
                continue
            try:
                number = alternative.expression.compute(self)
            except Missing:
                continue
            except Undefined as undefined:
                return self._without(metric, Status.UNDEFINED, str(undefined), alternative)
            if alternative.zero_undefined and number == 0:
                return self._without(metric, Status.UNDEFINED, "there were no requests", alternative)
            return self._checked(metric, number, alternative)
        return self._missing(metric)

    def readings(self, metric: Metric) -> tuple[tuple[Alternative, float], ...]:
        found = []
        for alternative in metric.alternatives:
            with suppress(Missing, Undefined):
                if self._applies(alternative):
                    found.append((alternative, alternative.expression.compute(self)))
        return tuple(found)

    def _refusal(self, metric: Metric) -> str:
        """Why the metric has no meaning for this launch; "" where it has one."""
        for refusal in metric.refusals:
            try:
                if refusal.unless and self.value(refusal.unless).value is not None:
                    continue
                if self.metric(refusal.when) > refusal.above.compute(self):
                    return refusal.reason
            except (Missing, Undefined):
                continue  # without opcode counts the kind of work is unknown: no refusal on suspicion
        return ""

    def _applies(self, alternative: Alternative) -> bool:
        if alternative.above is None:
            return True
        try:
            return self.metric(alternative.where) > alternative.above.compute(self)
        except (Missing, Undefined):
            return False

    def _checked(self, metric: Metric, number: float, alternative: Alternative) -> MetricValue:
        notes = [alternative.notes] if alternative.notes else []
        doubts = [self._outside(metric, number), self._rests_on_invalid(alternative.expression.metrics)]
        notes += [doubt for doubt in doubts if doubt]
        if metric.note_ideal:
            notes.append(self._ideal(metric.note_ideal))
        return MetricValue(
            metric.name, number, metric.unit, Status.INVALID if any(doubts) else Status.OK,
            "; ".join(notes), alternative.expression.text, self._traced(alternative),
        )  # fmt: skip

    def _outside(self, metric: Metric, number: float) -> str:
        """What is wrong with a value outside its metric's possible range; "" where it is inside."""
        low, high = (self._bound(one) for one in metric.range or (-math.inf, math.inf))
        if math.isfinite(number) and not number < low and not number > high:
            return ""
        over = number - high if number > high else low - number
        by_passes = over <= _BY_PASSES * max(abs(number), abs(high if number > high else low))
        why = (
            "the counters come from different passes"
            if by_passes
            else "more than different replay passes explain"
        )
        return f"outside its possible range {low:g} to {high:g}: {why}"

    def _bound(self, bound: Bound) -> float:
        """An end of a range, NaN where the report and devices.toml do not tell it."""
        if not isinstance(bound, Expression):
            return bound
        try:
            return bound.compute(self)
        except (Missing, Undefined):
            return math.nan

    def _rests_on_invalid(self, names: Iterable[str]) -> str:
        invalid = [name for name in names if self.value(name).status is Status.INVALID]
        return f"rests on {', '.join(invalid)}, which cannot be right" if invalid else ""

    def _traced(self, alternative: Alternative) -> tuple[str, ...]:
        """The counters the value came from, through other metrics too."""
        if not alternative.expression.metrics:
            return alternative.expression.counters
        names = dict.fromkeys(alternative.expression.counters)
        for used in alternative.expression.metrics:
            names.update(dict.fromkeys(self.value(used).counters))
        return tuple(names)

    def _ideal(self, name: str) -> str:
        ideal = self.value(name)
        if isinstance(ideal.value, (int, float)):
            return f"ideal for the access widths: {ideal.value:.4g}"
        return "ideal unknown: the report does not tell the access width"

    def _pick(self, metric: Metric) -> MetricValue:
        found = {label: self.value(name) for label, name in metric.among.items()}
        numbers = {label: float(v.value) for label, v in found.items() if isinstance(v.value, (int, float))}
        if not numbers:
            return self._missing(metric)
        best = (max if metric.pick == "largest" else min)(numbers.values())
        label = ", ".join(label for label, number in numbers.items() if number == best)
        unknown = [
            label for label, v in found.items() if label not in numbers and v.status is not Status.NOT_ON_CHIP
        ]
        doubt = self._rests_on_invalid(metric.among[label] for label in numbers)
        notes = [f"not known: {', '.join(unknown)}" if unknown else "", doubt]
        counters = tuple(counter for label in numbers for counter in found[label].counters)
        formula = f"the {metric.pick} of {', '.join(metric.among[label] for label in numbers)}"
        status = Status.INVALID if doubt else Status.OK
        note = "; ".join(one for one in notes if one)
        return MetricValue(metric.name, label, metric.unit, status, note, formula, counters)

    def _total(self, metric: Metric) -> MetricValue:
        found = [self.value(name) for name in metric.among.values()]
        numbers = [float(v.value) for v in found if isinstance(v.value, (int, float))]
        without = [v.name for v in found if v.status is Status.NOT_COLLECTED]
        if not numbers or (without and not self._is_whole(metric, sum(numbers))):
            return self._missing(metric)  # a sum of some of them would pass for the whole
        held = [v for v in found if v.value is not None]
        doubts = [self._outside(metric, sum(numbers)), self._rests_on_invalid(v.name for v in held)]
        part = f"without {', '.join(without)} (not collected), and it meets {metric.whole}" if without else ""
        note = "; ".join(one for one in (part, *doubts) if one)
        counters = tuple(counter for v in held for counter in v.counters)
        formula = " + ".join(v.name for v in held)
        status = Status.INVALID if any(doubts) else Status.OK
        return MetricValue(metric.name, sum(numbers), metric.unit, status, note, formula, counters)

    def _is_whole(self, metric: Metric, number: float) -> bool:
        """Whether a sum that lacks some of its parts meets the measured whole within 5 %."""
        whole = self.value(metric.whole).value if metric.whole else None
        return isinstance(whole, (int, float)) and abs(number - whole) <= 0.05 * whole

    def _missing(self, metric: Metric) -> MetricValue:
        if metric.name in self._chip.absent:
            return self._without(metric, Status.NOT_ON_CHIP, self._chip.absent[metric.name])
        first = metric.alternatives[0].expression.metrics if metric.alternatives else ()
        absent = [one for one in map(self.value, first) if one.status is Status.NOT_ON_CHIP]
        among = [self.value(name) for name in metric.among.values()]
        if among and all(one.status is Status.NOT_ON_CHIP for one in among):
            absent = among
        if absent:
            return self._without(metric, Status.NOT_ON_CHIP, absent[0].reason)
        if not self._launch.collected:
            return self._without(metric, Status.NOT_COLLECTED, "the launch was not collected")
        sections: dict[str, None] = {}
        needed = tuple(self._needed(metric, sections))
        without = bool(among) and all(one.status is Status.UNDEFINED for one in among)
        without = without or any(one.startswith("launch__") for one in needed)
        if self._launch.kind is not WorkloadKind.KERNEL and without:
            # Attributes of a kernel's launch: no option of ncu gives a range or graph one.
            kind = self._launch.kind.value.replace("_", " ")
            return self._without(
                metric,
                Status.UNDEFINED,
                f"a {kind} has no such value: only a kernel has registers, a grid and occupancy limits",
            )
        return self._without(metric, Status.NOT_COLLECTED, _how_to_collect(tuple(sections), needed))

    def _needed(self, metric: Metric, sections: dict[str, None]) -> dict[str, None]:
        """The counters that are missing from the metric's first choice, those of metrics it uses included.

        The ncu sections that hold them go into `sections`, "" where there is none that does in every release.
        """
        wanted: tuple[str, ...] = metric.collect or ()
        if not wanted and metric.alternatives:
            wanted = metric.alternatives[0].expression.counters
        used = metric.alternatives[0].expression.metrics if metric.alternatives else metric.among.values()
        names = dict.fromkeys(name for name in wanted if not self._has(name))
        if names:
            sections.update(dict.fromkeys(metric.section.split() or [""]))
        for name in used:
            if self.value(name).status is Status.NOT_COLLECTED:
                names.update(self._needed(self._chip.metrics[name], sections))
        return names

    def _has(self, name: str) -> bool:
        found = self._launch.counters.get(name)
        return found is not None and found.status is not Status.NOT_COLLECTED

    def _without(
        self, metric: Metric, status: Status, reason: str, alternative: Alternative | None = None
    ) -> MetricValue:
        formula = alternative.expression.text if alternative else ""
        counters = alternative.expression.counters if alternative else ()
        return MetricValue(metric.name, None, metric.unit, status, reason, formula, counters)


@lru_cache(maxsize=4096)
def _how_to_collect(sections: tuple[str, ...], needed: tuple[str, ...]) -> str:
    """Why a metric has no value, and the ncu option that would give it one."""
    if not needed:
        return "not in the report"
    by_section = "" if "" in sections else " ".join(f"--section {section}" for section in sections)
    if len(needed) > _LISTED and by_section:
        few = f"{', '.join(needed[:_LISTED])} and {len(needed) - _LISTED} more"
        return f"not in the report: {few}; collect with `ncu {by_section}`"
    other = f" or `{by_section}`" if by_section else ""
    return f"not in the report: {', '.join(needed)}; collect with `ncu --metrics {','.join(needed)}`{other}"
