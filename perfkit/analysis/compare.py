"""May two launches be compared, and is B faster or slower than A?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType
from typing import Any

from perfkit.analysis import opcode_classes as opcodes
from perfkit.analysis.consistency import describe
from perfkit.analysis.facts import counter, facts_of, opcode_counts
from perfkit.analysis.identity import device_text, same_device, shape
from perfkit.analysis.least_work import moved_too_little
from perfkit.errors import NotComparableError
from perfkit.model import Evaluated, Status, Verdict, VerdictKind, WallClock, WorkloadKind

# A difference below this is no difference to anyone, however sure (the floor of `perfkit bench` as well).
FLOOR = 0.005
# One launch a side: the scatter between launches is not known, so this much is asked for. docs/explain.md has
# the spread over repeated launches of one kernel in reports from the field.
SINGLE = 0.03
# Repeated launches: the groups must not overlap, and chance must do that less often (exact rank-sum test).
CHANCE = 0.05
CLOCK_WARNING = 0.01
# Nsight Compute's own two ways to the warp latency meet within this on nearly all launches from the field.
PASSES = 0.05


@dataclass(frozen=True, slots=True)
class Origin:
    """What a run says of a launch and the report does not: profiling options, its work in FLOPs and the bytes
    that it must move at least, or NaN. `called` is what the user calls it, for two launches of one name.
    """

    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    work: float = float("nan")
    called: str = ""
    least_bytes: float = float("nan")


def check_comparable(
    a: Evaluated, b: Evaluated, origin_a: Origin | None = None, origin_b: Origin | None = None
) -> tuple[tuple[str, ...], float]:
    """Warnings, and B's work over A's (1 for the same problem or where it is not known).

    Raises NotComparableError with the reason and the remedy: a launch that was not collected, a range, graph
    or command list, different chips, cache control or problems (unless a run tells the work of both),
    tensor-core work.
    """
    from_a, from_b = origin_a or Origin(), origin_b or Origin()
    refuse_workloads(a, b)
    for side in (a, b):
        _refuse_uncollected(side)
    _refuse_other_chip(a, b)
    for side in (a, b):
        _refuse_tensor(side)
    _refuse_other_cache_control(a, b, from_a, from_b)
    ratio, warnings = _work(a, b, from_a, from_b)
    little = [
        f"{_name(side)}: {said}"
        for side, origin in ((a, from_a), (b, from_b))
        if (said := moved_too_little(side, origin.least_bytes))
    ]
    return (*warnings, *little, *_warnings(a, b)), ratio


def _name(side: Evaluated) -> str:
    return f"{side.launch.label} ({side.launch.id})"


def refuse_workloads(*sides: Evaluated) -> None:
    """Refuse what is not a kernel. The counters of a range or graph are sums over all its kernels, and its
    time holds the gaps between them: no change of theirs can be laid to one kernel's stalls or instructions.
    """
    for side in sides:
        kind = side.launch.kind
        if kind is WorkloadKind.KERNEL:
            continue
        word = kind.value.replace("_", " ")
        other = next((one for one in sides if one.launch.kind is WorkloadKind.KERNEL), None)
        against = f" and {_name(other)} a kernel" if other is not None else ""
        how = "`--graph-profiling node`" if kind is WorkloadKind.GRAPH else "`--replay-mode kernel`"
        raise NotComparableError(
            f"{_name(side)} is a {word}{against}: its counters are sums over all kernels of the {word} and "
            "its time includes the gaps between them, so that they have no explanation in common",
            f"Profile the kernels of the {word} one by one (ncu {how}) and explain those. `perfkit show` "
            f"puts the counters and times of whole {word}s side by side.",
        )


def _refuse_uncollected(side: Evaluated) -> None:
    if side.launch.collected and side.number("duration") > 0:
        return
    raise NotComparableError(
        f"{_name(side)} was not collected: the report holds no duration for this launch",
        "Profile it again, or name another launch of the report (`perfkit show REPORT` lists them).",
    )


def _refuse_other_chip(a: Evaluated, b: Evaluated) -> None:
    one, other = a.launch, b.launch
    if (one.gpu, one.compute_capability) == (other.gpu, other.compute_capability):
        return
    raise NotComparableError(
        f"{_name(a)} ran on {_chip(a)} and {_name(b)} on {_chip(b)}: "
        "counters of different chips do not add up to one explanation",
        "Profile both on the same GPU. `perfkit show A B` puts their counters side by side.",
    )


def _chip(side: Evaluated) -> str:
    major, minor = side.launch.compute_capability
    return f"{side.launch.gpu} (compute capability {major}.{minor})"


def tensor_instructions(side: Evaluated) -> float:
    """Warp instructions that use tensor cores; 0 where the report shows none.

    By opcode where the report holds opcodes. The tensor pipe of 8.0 and 9.0 also executes HFMA2.MMA, which
    compilers use to load constants (1 to 4 a warp): those are taken off where they were counted, else the
    pipe's count must exceed 1 % of all instructions.
    """
    by_opcode = opcode_counts(side.launch)
    if by_opcode:
        return opcodes.by_class(by_opcode).get(opcodes.TENSOR, 0.0)
    pipe = counter(side.launch, "sm__inst_executed_pipe_tensor.sum")
    constants = counter(side.launch, "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum")
    if not math.isnan(constants):
        return pipe - constants
    return pipe if pipe > 0.01 * side.number("instructions") else 0.0


def _refuse_tensor(side: Evaluated) -> None:
    used = tensor_instructions(side)
    if used <= 0:
        return
    raise NotComparableError(
        f"{_name(side)} does tensor-core work ({used:,.0f} warp instructions): "
        "its time is that of a pipe which works behind the issue slots, so that splitting the issue "
        "rate would mislead",
        "`perfkit show` gives its counters; compare tensor-core kernels by time and by pipe utilisation.",
    )


def _refuse_other_cache_control(a: Evaluated, b: Evaluated, from_a: Origin, from_b: Origin) -> None:
    one, other = from_a.options.get("cache_control"), from_b.options.get("cache_control")
    if one is None or other is None or one == other:
        return
    raise NotComparableError(
        f"{_name(a)} was profiled with --cache-control {one} and {_name(b)} with {other}: one of them "
        "started with warm caches",
        "Profile both with the same --cache-control.",
    )


def _work(a: Evaluated, b: Evaluated, from_a: Origin, from_b: Origin) -> tuple[float, list[str]]:
    one, other = a.launch.problem, b.launch.problem
    if one and other and one != other:
        if from_a.work > 0 and from_b.work > 0:
            ratio = from_b.work / from_a.work
            return ratio, [
                f"different problems ({one}, {other}): compared per unit of work, B does {ratio:.4g} times "
                "that of A"
            ]
        raise NotComparableError(
            f"{_name(a)} solved {one} and {_name(b)} {other}, and the work of both is not known",
            "Give both the same problem (-n), or profile them in runs, whose kernels state their work.",
        )
    if one and other:
        return 1.0, []
    return 1.0, _unknown_problem(a, b)


def _unknown_problem(a: Evaluated, b: Evaluated) -> list[str]:
    """The reports do not name the problem; the FMA counts speak for or against it being the same."""
    one, other = facts_of(a).classes.get(opcodes.FMA, 0.0), facts_of(b).classes.get(opcodes.FMA, 0.0)
    if one > 0 and other > 0:
        if abs(math.log(other / one)) < FLOOR:
            return []
        return [
            f"the reports do not name the problem, and B executes {other / one:.3g} times A's FMAs: "
            "is it the same problem?"
        ]
    return ["the reports do not name the problem: that both solve the same is taken on trust"]


def _warnings(a: Evaluated, b: Evaluated) -> list[str]:
    found = []
    one, other = a.launch.ncu_version, b.launch.ncu_version
    if one and other and _release(one) != _release(other):
        found.append(
            f"reports of different ncu versions ({one}, {other}): some counters may count differently"
        )
    found += [text for text in (_devices(a, b), _shapes(a, b)) if text]
    before, after = facts_of(a).clock, facts_of(b).clock
    if before > 0 and after > 0 and abs(math.log(after / before)) > CLOCK_WARNING:
        found.append(
            f"the SM clocks differ ({before / 1e6:,.0f} and {after / 1e6:,.0f} MHz): "
            "the clock is a factor of its own, and what depends on memory clocks does not scale with it"
        )
    found += [text for side in (a, b) for text in _passes_apart(side)]
    for side in (a, b):
        found += contradicted(side)
        found += [
            f"{_name(side)}: {name} is outside its possible range ({metric.number:.4g})"
            for name, metric in side.metrics.items()
            if metric.status is Status.INVALID
            and name in ("issue_rate", "active_fraction", "achieved_occupancy")
            and not any(name in one.metrics for one in side.contradictions)
        ]
    return found


def _devices(a: Evaluated, b: Evaluated) -> str:
    if same_device(a.launch, b.launch) is not False:
        return ""
    one, other = (device_text(side.launch.device) for side in (a, b))
    for told in ("pci", "uuid"):  # of two machines, index and bus address may be the same
        if one == other:
            one, other = (str(getattr(side.launch.device, told)) for side in (a, b))
    return (
        f"A ran on device {one} and B on device {other}, two cards of one model: such cards differ in "
        "clocks, memory and neighbours, so that a small difference may be the card's and not the kernel's"
    )


def _shapes(a: Evaluated, b: Evaluated) -> str:
    """One function at other grids may have had other work to do; where the problem is known, that tells."""
    one, other = a.launch, b.launch
    if one.name != other.name or (one.problem and other.problem) or not (one.grid and other.grid):
        return ""
    if not (one.block and other.block) or (one.grid, one.block) == (other.grid, other.block):
        return ""
    threads = [math.prod(side.grid or ()) * math.prod(side.block or ()) for side in (one, other)]
    said = [
        f"grid {shape(side.grid)} of blocks {shape(side.block)} ({count:,} threads)"
        for side, count in zip((one, other), threads, strict=True)
    ]
    meaning = "as many threads, otherwise divided"
    if threads[0] != threads[1]:
        meaning = (
            f"x{threads[1] / threads[0]:.3g} threads in B: unless each does as much more or less, the work "
            "is another, and with it the time, whatever the code"
        )
    return f"one function launched in two ways: A {said[0]}, B {said[1]}; {meaning}"


def contradicted(side: Evaluated) -> list[str]:
    """What the counters of a launch say in two ways, once each."""
    return [
        f"{_name(side)}: its counters contradict one another ({describe(one)}); "
        + (f"invalid: {_few(one.metrics)}" if one.metrics else "other counters answer instead")
        for one in side.contradictions
    ]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def undecided(sides: Sequence[Evaluated]) -> str:
    """Why neither time nor cycles of these launches can be trusted, "" where both can: no verdict comes from
    what contradicts itself.
    """
    for side in sides:
        for name in ("duration", "sm_clock"):
            held = side.metrics.get(name)
            if held is not None and held.status is Status.INVALID:
                return f"{_name(side)}, {name.replace('_', ' ')} {held.reason}"
    return ""


def _passes_apart(side: Evaluated) -> list[str]:
    """Warps active / issue rate are the cycles between two issues of a warp, and so is the sum of its
    states.
    """
    facts = facts_of(side)
    states, expected = facts.latency + facts.not_selected, facts.warps / facts.issue_rate
    if not (states > 0 and expected > 0) or abs(math.log(states / expected)) <= PASSES:
        return []
    return [
        f"{_name(side)}: its warp states add up to {states:.3g} cycles per issue, warps over issue rate give "
        f"{expected:.3g}: ncu's passes did not run alike, and the split of the issue rate is as uncertain"
    ]


def _release(version: str) -> str:
    return ".".join(version.split(".")[:2])


def judge(times_a: Sequence[float], times_b: Sequence[float], cycles_a: float, cycles_b: float) -> Verdict:
    """The verdict from durations in s and the cycles of the median launches.

    Several launches a side: faster or slower when the groups do not overlap, chance would separate them so
    less often than 5 % (exact rank-sum test), the medians are 0.5 % apart and the cycles agree. One launch:
    3 % apart.
    """
    median_a, median_b = median(times_a), median(times_b)
    change = math.log(median_b / median_a)
    in_cycles = math.log(cycles_b / cycles_a) if cycles_a > 0 and cycles_b > 0 else change
    said = f"{_percent(change)} in time, {_percent(in_cycles)} in cycles"
    kind = VerdictKind.SLOWER if change > 0 else VerdictKind.FASTER
    if max(abs(change), abs(in_cycles)) <= FLOOR:
        return Verdict(VerdictKind.SAME, f"{said}: both within the floor of {FLOOR:.1%}")
    if abs(change) > FLOOR and change * in_cycles <= 0:
        return Verdict(
            VerdictKind.AMBIGUOUS,
            f"{said}: time and cycles disagree, so the clock made the difference or the counters are wrong",
        )
    chance = 2 / math.comb(len(times_a) + len(times_b), len(times_a))
    overlap = max(times_a) >= min(times_b) and max(times_b) >= min(times_a)
    if not overlap and chance < CHANCE and min(abs(change), abs(in_cycles)) > FLOOR:
        return Verdict(
            kind,
            f"{said}: {len(times_a)} and {len(times_b)} launches do not overlap (chance {chance:.1%})",
        )
    if min(abs(change), abs(in_cycles)) >= SINGLE and not overlap:
        return Verdict(
            kind,
            f"{said}: more than the {SINGLE:.0%} asked of {_launches(times_a, times_b)} to exceed their "
            "scatter",
        )
    why = f"under the {SINGLE:.0%} asked of {_launches(times_a, times_b)}"
    if overlap:
        why = f"the times of {_launches(times_a, times_b)} overlap"
    return Verdict(
        VerdictKind.AMBIGUOUS,
        f"{said}: {why}; profile more launches, or time them with `perfkit bench A B --pairs 60`",
    )


def with_timings(verdict: Verdict, log_ratio: float, timed: WallClock) -> Verdict:
    """The verdict with event timings as further evidence; `log_ratio` is ncu's.

    Timings whose 95 % interval lies outside the floor settle what single launches cannot. Where they point
    in the other direction than ncu, which starts with cold caches, nothing is settled.
    """
    how = f"{timed.pairs} interleaved pairs" if timed.pairs else "event timings"
    said = f"{how} {_percent(timed.log_ratio)}"
    if math.isnan(timed.low) or math.isnan(timed.high):
        return Verdict(verdict.kind, f"{verdict.reason}; {said}")
    said += f" ({_percent(timed.low)} to {_percent(timed.high)})"
    if timed.low > FLOOR or timed.high < -FLOOR:
        kind = VerdictKind.SLOWER if timed.low > 0 else VerdictKind.FASTER
        if verdict.kind in (VerdictKind.SLOWER, VerdictKind.FASTER) and kind is not verdict.kind:
            return Verdict(VerdictKind.AMBIGUOUS, f"{said}, but under ncu {_percent(log_ratio)} in time")
        return Verdict(kind, f"{said}; under ncu {verdict.reason}")
    if (
        timed.low >= -FLOOR
        and timed.high <= FLOOR
        and verdict.kind in (VerdictKind.SAME, VerdictKind.AMBIGUOUS)
    ):
        return Verdict(
            VerdictKind.SAME, f"{said}: within the floor of {FLOOR:.1%}; under ncu {verdict.reason}"
        )
    return Verdict(verdict.kind, f"{verdict.reason}; {said}")


def _launches(a: Sequence[float], b: Sequence[float]) -> str:
    return "single launches" if len(a) == len(b) == 1 else f"{len(a)} and {len(b)} launches"


def _percent(change: float) -> str:
    return f"{math.expm1(change):+.1%}"


def median_launch(side: Sequence[Evaluated]) -> Evaluated:
    """The launch with the median duration (the shorter of the middle two): its counters stand for the
    side.
    """
    ranked = sorted(side, key=lambda evaluated: evaluated.number("duration"))
    return ranked[(len(ranked) - 1) // 2]
