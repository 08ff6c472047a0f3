"""What a rule of `perfkit check` reads from a launch: a metric, or a counter as the report stores it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from perfkit.analysis.counter_units import convert, scale
from perfkit.errors import ConfigError
from perfkit.model import Counter, Evaluated, Rule, Status, WorkloadKind

# Counters whose value is ncu's total of a curve or of samples over time, which measures nothing.
_CURVES = ("launch__occupancy_per_", "derived__pct_")


@dataclass(frozen=True, slots=True)
class Measured:
    """A value in `unit` (the rule's, else the one it is stored in), or why there is none.

    `as_stored` is the same in `stored`, the unit of the source: SI for a metric, the report's own for a
    counter. A value of status INVALID is there, with the reason.
    """

    value: float | str | None
    unit: str = ""
    status: Status = Status.OK
    reason: str = ""
    stored: str = ""
    as_stored: float | str | None = None


def is_counter(metric: str) -> bool:
    """Whether a rule's metric names a counter of Nsight Compute rather than a metric of perfkit's sets."""
    return "__" in metric


def measure(rule: Rule, one: Evaluated, rules: Path) -> Measured:
    """What the launch has for the rule's metric, in the rule's unit.

    Raises ConfigError for a unit that does not fit what is stored, and where a rule on a counter states
    none although a number could be taken for another one: 0.5 of 52.1 % passes `>= 0.5` and means nothing.
    """
    if not one.launch.collected:
        return Measured(None, rule.unit, Status.NOT_COLLECTED, "the launch was not collected")
    found = _counter(rule.metric, one) if is_counter(rule.metric) else _metric(rule.metric, one)
    if found.value is None:
        return found
    if isinstance(found.value, str):
        return replace(found, as_stored=found.value)
    if not math.isfinite(found.value):
        word = "not a number" if math.isnan(found.value) else "infinite"
        return Measured(None, found.stored, Status.NOT_COLLECTED, f"the value is {word}", found.stored)
    _require_unit(rule, one, found, rules)
    if not rule.unit:
        return replace(found, as_stored=found.value)
    value = convert(found.value, found.stored, rule.unit)
    if value is None:
        raise ConfigError(
            f"{rules}: rule {rule.name!r}: its unit is {rule.unit}, but {rule.metric} of {_said(one)} is in "
            f"{found.stored or 'no unit (a bare number)'}",
            f"Write unit = {_quoted(found.stored or '1')} and the rule's numbers in it.",
        )
    unit = "" if rule.unit == "1" else rule.unit
    return replace(found, value=value, unit=unit, as_stored=found.value)


def _require_unit(rule: Rule, one: Evaluated, found: Measured, rules: Path) -> None:
    numbers = isinstance(rule.value, (int, float)) or rule.margin > 0
    if rule.unit or not is_counter(rule.metric) or not numbers or not scale(found.stored).ambiguous:
        return
    raise ConfigError(
        f"{rules}: rule {rule.name!r} states no unit, and {rule.metric} of {_said(one)} is in "
        f"{found.stored}: there it is {found.value:g}",
        f"Write unit = {_quoted(found.stored)} and the rule's numbers in it, or in another unit of its kind.",
    )


def _said(one: Evaluated) -> str:
    return f"{one.launch.label} ({one.launch.id})"


def _quoted(unit: str) -> str:
    return f'"{unit}"'


def _metric(metric: str, one: Evaluated) -> Measured:
    held = one.metrics.get(metric)
    if held is None:
        return Measured(None, "", Status.NOT_COLLECTED, "it was not evaluated")
    if held.value is None or held.status not in (Status.OK, Status.INVALID):
        status = Status.NOT_COLLECTED if held.status in (Status.OK, Status.INVALID) else held.status
        return Measured(None, held.unit, status, held.reason or "it has no value", held.unit)
    # The reason of a good value is a remark on how it was read; only that of an invalid one matters here.
    reason = held.reason or "outside its possible range" if held.status is Status.INVALID else ""
    return Measured(held.value, held.unit, held.status, reason, held.unit)


def _counter(metric: str, one: Evaluated) -> Measured:
    held = one.launch.counters.get(metric)
    if held is None or held.value is None or held.status is Status.NOT_COLLECTED:
        if metric.startswith("launch__") and one.launch.kind is not WorkloadKind.KERNEL:
            kind = one.launch.kind.value.replace("_", " ")
            return Measured(None, "", Status.UNDEFINED, f"a {kind} has no {metric}: only a kernel has one")
        reason = f"the report does not hold {metric}; collect it with `ncu --metrics {metric}`"
        if held is not None and len(held.instances) > 1:
            reason = _list(held)
        return Measured(
            None, held.unit if held else "", Status.NOT_COLLECTED, reason, held.unit if held else ""
        )
    if held.status not in (Status.OK, Status.INVALID):
        return Measured(None, held.unit, held.status, f"the report gives {metric} no value", held.unit)
    if isinstance(held.value, str):
        return Measured(held.value, "", held.status, "", "")
    if _is_list(held):
        return Measured(None, held.unit, Status.UNDEFINED, _list(held), held.unit)
    reason = "the report's value is not possible" if held.status is Status.INVALID else ""
    return Measured(float(held.value), held.unit, held.status, reason, held.unit)


def _is_list(held: Counter) -> bool:
    """Whether a counter is a list of values of which its own value is not the total."""
    if len(held.instances) < 2:
        return False
    if held.name.startswith(_CURVES) or ":" in held.name or ".Triage" in held.name:
        return True
    total = math.fsum(value for _, value in held.instances)
    value = float(held.value) if isinstance(held.value, (int, float)) else math.nan
    return not math.isclose(value, total, rel_tol=1e-9, abs_tol=1e-9)


def _list(held: Counter) -> str:
    return (
        f"{held.name} is a list of {len(held.instances)} values, and a rule takes one: "
        "use a metric that `perfkit show` lists, or a counter with a rollup such as .sum"
    )
