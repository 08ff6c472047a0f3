"""Several kernels of one call taken together: a library call may launch more than one (split-K and its
reduction).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from perfkit.analysis.facts import ADDITIVE, CLOCK, Facts, facts_of, opcode_counts
from perfkit.analysis.opcode_counts import PER_OPCODE
from perfkit.model import Counter, Evaluated, MetricValue, Status

_ADDED = (
    "duration",
    "instructions",
    "l2_read_bytes",
    "l2_write_bytes",
    "dram_read_bytes",
    "dram_write_bytes",
)
Weight = Callable[[Facts], float]


def together(launches: Sequence[Evaluated]) -> Evaluated:
    """One launch that stands for all: counts and times added, rates weighted by what they are rates of.

    It keeps the identity of the longest. What has no meaning over several kernels (registers, occupancy
    limits, sectors per request) is left out, so that nothing is shown of one kernel as if it were of all.
    """
    longest = max(launches, key=lambda one: one.number("duration"))
    facts = [facts_of(one) for one in launches]
    metrics: dict[str, MetricValue] = {}

    def put(name: str, value: float) -> None:
        held = longest.metrics.get(name)
        if math.isnan(value):
            return
        doubts = [
            f"{one.launch.id}: {part.reason}"
            for one in launches
            if (part := one.metrics.get(name)) is not None and part.status is Status.INVALID
        ]
        status = Status.INVALID if doubts else Status.OK
        unit = held.unit if held is not None else ""
        metrics[name] = MetricValue(name, value, unit, status, "; ".join(doubts))

    def weighted(name: str, weight: Weight) -> None:
        weights = [weight(one) for one in facts]
        total = sum(weights)
        values = [one.number(name) for one in launches]
        put(name, sum(v * w for v, w in zip(values, weights, strict=True)) / total if total > 0 else math.nan)

    for name in _ADDED:
        put(name, sum(one.number(name) for one in launches))
    weighted("issue_rate", _active_cycles)
    weighted("active_warps_per_scheduler", _active_cycles)
    weighted("eligible_warps_per_scheduler", _active_cycles)
    weighted("active_fraction", lambda one: one.cycles * one.smsps)
    weighted("share_of_peak", lambda one: one.cycles * one.smsps)
    weighted("sm_clock", lambda one: one.duration)
    weighted("fma_share", lambda one: one.instructions)
    for name in longest.metrics:
        if name.startswith("stall_"):
            weighted(name, lambda one: one.issued)
    launch = dataclasses.replace(
        longest.launch,
        kernel=" + ".join(one.launch.kernel for one in launches),
        name=" + ".join(one.launch.name for one in launches),
        grid=None,
        block=None,
        counters=_counters(launches, facts),
    )
    return Evaluated(launch, metrics, tuple(found for one in launches for found in one.contradictions))


def by_call(launches: Sequence[Evaluated]) -> list[Evaluated]:
    """One entry for each kernel that perfkit's runner called (it calls each once), its launches taken
    together.

    Launches of other programs stay as they are: the same name again is a repetition there.
    """
    groups: dict[tuple[object, ...], list[Evaluated]] = {}
    for one in launches:
        launch = one.launch
        own: tuple[object, ...] = (str(launch.id),)
        if launch.key is not None:
            own = (launch.id.report, launch.key, launch.problem, launch.kind, launch.device, launch.process)
        groups.setdefault(own, []).append(one)
    return [group[0] if len(group) == 1 else together(group) for group in groups.values()]


def _active_cycles(one: Facts) -> float:
    return one.active * one.cycles * one.smsps


def _counters(launches: Sequence[Evaluated], facts: Sequence[Facts]) -> dict[str, Counter]:
    found: dict[str, Counter] = {}
    for name in ADDITIVE:
        held = [one.launch.counters.get(name) for one in launches]
        values = [c.value for c in held if c is not None and isinstance(c.value, (int, float))]
        if len(values) == len(launches):
            doubted = any(c is not None and c.status is Status.INVALID for c in held)
            found[name] = Counter(name, sum(values), "", Status.INVALID if doubted else Status.OK)
    cycles, seconds = sum(one.cycles for one in facts), sum(one.duration for one in facts)
    if cycles > 0 and seconds > 0:
        found[CLOCK] = Counter(CLOCK, cycles / seconds, "hz")
    counts = [opcode_counts(one.launch) for one in launches]
    if all(counts):
        names = dict.fromkeys(name for one in counts for name in one)
        instances = tuple((name, sum(one.get(name, 0.0) for one in counts)) for name in names)
        found[PER_OPCODE] = Counter(
            PER_OPCODE, sum(count for _, count in instances), "inst", instances=instances
        )
    return found
