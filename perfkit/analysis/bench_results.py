"""From raw timings and sensor readings to results. Pure functions; the numbers come from profiler/,
through a command.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from perfkit.analysis import statistics
from perfkit.analysis.peak_model import fp32_lanes_per_sm
from perfkit.model import (
    BenchResult,
    GpuInfo,
    PairComparison,
    PairSamples,
    SelfTest,
    SensorSample,
    SensorSummary,
    Timing,
    Verification,
)

# The two readings of the SM clock should agree; further apart than this, one of them does not mean this
# kernel.
_CLOCK_TOLERANCE = 0.02
# Between the quartiles, as a share of the median: a launch under ncu may be any of these.
_SCATTER = 0.01
# NVML's power is an average over up to a second: a measurement shorter than this holds mostly the time
# before it. s.
_POWER_WINDOW = 1.0


@dataclass(frozen=True, slots=True)
class Subject:
    """What was timed: one kernel at one size. `fp32`: its FLOPs are scalar FP32 as far as its arguments
    say.
    """

    key: str
    label: str
    title: str
    problem: str
    size: Mapping[str, int]
    flops: float
    fp32: bool = True
    blocks_per_sm: int | None = None
    verification: Verification | None = None


def summarize_sensors(rounds: Sequence[Sequence[SensorSample]]) -> SensorSummary:
    """Medians over the samples of all rounds; mean power by the energy counter, median over rounds."""
    samples = [sample for one in rounds for sample in one]
    clocks = [s.sm_clock for s in samples if s.sm_clock is not None]
    powers = [s.power for s in samples if s.power is not None]
    heat = [s.temperature for s in samples if s.temperature is not None]
    means = [mean for mean in map(_mean_power, rounds) if mean is not None]
    return SensorSummary(
        sm_clock=statistics.median(clocks) if clocks else None,
        power=statistics.median(powers) if powers else None,
        mean_power=statistics.median(means) if means else None,
        temperature=max(heat) if heat else None,
        throttle=tuple(sorted({reason for s in samples for reason in s.throttle})),
        samples=len(samples),
    )


def _mean_power(samples: Sequence[SensorSample]) -> float | None:
    """W between the first and the last step of the energy counter; None where it moved less than four
    times.

    The counter is refreshed less often than it is read, so only the readings right after a step say when it
    was.
    """
    known = [(s.time, s.energy) for s in samples if s.energy is not None]
    steps = [late for early, late in itertools.pairwise(known) if late[1] > early[1]]
    if len(steps) < 4:
        return None
    return (steps[-1][1] - steps[0][1]) / (steps[-1][0] - steps[0][0])


def device_clock(rounds: Sequence[Timing]) -> float | None:
    """Mean SM clock (Hz) by the device's own cycle counter, weighted by the time of each batch; None
    without readings.
    """
    weighted = [
        (batch.sm_clock, batch.ended - batch.started)
        for timing in rounds
        for batch in timing.batches
        if batch.sm_clock is not None
    ]
    total = sum(weight for _, weight in weighted)
    return sum(clock * weight for clock, weight in weighted) / total if total > 0 else None


def bench_result(
    subject: Subject,
    gpu: GpuInfo,
    rounds: Sequence[Timing],
    sensors: Sequence[Sequence[SensorSample]],
    *,
    protocol: str,
    cache: str,
    short_launch: float,
    samples: str = "",
) -> BenchResult:
    """The result of `rounds` (at least one). `sensors`: the samples taken while the batches of
    each round ran.

    Article protocol: median of the last three quarters of each round, then the median over rounds. Quick:
    median of all. share of peak = FLOPs / (time x SMs x FP32 lanes an SM x 2 x SM clock).
    """
    article = protocol == "article"
    kept = [statistics.last_three_quarters(r.times) if article else r.times for r in rounds]
    centres = tuple(statistics.median(times) for times in kept)
    everything = [time for times in kept for time in times]
    estimate = statistics.median_interval(everything)
    time = statistics.median(centres)
    low, quarter, three_quarters, high = statistics.percentiles(everything, 5, 25, 75, 95)
    summary = summarize_sensors(sensors)
    device = device_clock(rounds)
    clock = device or summary.sm_clock
    peak = _peak(gpu, clock)
    rate = subject.flops / time if subject.flops else None
    # The article logs power; quick is over before NVML's average of a second has settled, the energy
    # counter not.
    power = summary.power if article else summary.mean_power or summary.power
    return BenchResult(
        **_identity(subject, protocol, cache),
        time=time,
        time_low=_number(estimate.low),
        time_high=_number(estimate.high),
        launch_low=low,
        launch_high=high,
        round_times=centres,
        launches=sum(len(r.times) * r.inner for r in rounds),
        kept=len(everything),
        launches_per_sample=rounds[0].inner,
        stopped=rounds[-1].stopped,
        flop_rate=rate,
        sm_clock=clock,
        sm_clock_source="cycle counter" if device else "NVML" if clock else "",
        sm_clock_device=device,
        sm_clock_nvml=summary.sm_clock,
        peak_flop_rate=peak,
        share_of_peak=rate / peak if rate and peak and subject.fp32 else None,
        power=power,
        # Between cold launches the GPU flushes: its mean power is not the kernel's.
        energy_per_launch=_energy(summary, time) if cache == "hot" else None,
        temperature=summary.temperature,
        throttle_reasons=summary.throttle,
        samples=samples,
        notes=(
            *_scatter(quarter, time, three_quarters),
            *_notes(subject, time, rounds, summary, device, short_launch),
        ),
    )


def _scatter(quarter: float, time: float, three_quarters: float) -> list[str]:
    """A median says little of single launches where those scatter: say so from a spread of 1 % on."""
    if three_quarters - quarter <= _SCATTER * time:
        return []
    slow, fast = three_quarters / time - 1, 1 - quarter / time
    which = f"at least {slow:.1%} longer" if slow > fast else f"at least {fast:.1%} less"
    return [f"launches scatter: a quarter of them took {which} than the median"]


def _energy(summary: SensorSummary, time: float) -> float | None:
    """J a launch: mean power of back-to-back launches x time of one. Idle gaps between launches are in
    it.
    """
    power = summary.mean_power or summary.power
    return power * time if power is not None else None


def failed_result(subject: Subject, *, protocol: str, cache: str) -> BenchResult:
    """A kernel whose result is wrong: no speed."""
    return BenchResult(
        **_identity(subject, protocol, cache),
        time=None,
        stopped="not timed: verification failed",
    )


def _identity(subject: Subject, protocol: str, cache: str) -> dict[str, Any]:
    return {
        "key": subject.key,
        "label": subject.label,
        "title": subject.title,
        "problem": subject.problem,
        "size": dict(subject.size),
        "protocol": protocol,
        "cache": cache,
        "flops": subject.flops,
        "verification": subject.verification,
        "blocks_per_sm": subject.blocks_per_sm,
    }


def _peak(gpu: GpuInfo, clock: float | None) -> float | None:
    lanes = fp32_lanes_per_sm(gpu.compute_capability)
    return gpu.sm_count * lanes * 2 * clock if lanes and clock else None


def _notes(
    subject: Subject,
    time: float,
    rounds: Sequence[Timing],
    summary: SensorSummary,
    device: float | None,
    short_launch: float,
) -> list[str]:
    notes = []
    if statistics.ran_out_of_time(rounds[-1].stopped):
        notes.append(rounds[-1].stopped)
    if time < short_launch:
        inner = rounds[0].inner
        how = (
            f"in groups of {inner}, gaps between launches included"
            if inner > 1
            else "one by one, events included"
        )
        notes.append(f"launch-bound: {time * 1e6:.1f} us a launch; timed {how}")
    if not subject.fp32:
        notes.append("no share of FP32 peak: not every array is float32")
    if device and summary.sm_clock and abs(device / summary.sm_clock - 1) > _CLOCK_TOLERANCE:
        notes.append(
            f"SM clock: {device / 1e6:.0f} MHz by the cycle counter, {summary.sm_clock / 1e6:.0f} MHz by NVML"
        )
    window = sum(batch.ended - batch.started for r in rounds for batch in r.batches)
    if summary.power is not None and summary.mean_power is None and window < _POWER_WINDOW * len(rounds):
        notes.append(f"power: timed for {window:.1f} s, NVML averages over up to 1 s")
    if summary.throttle:
        notes.append(f"clock held down: {', '.join(summary.throttle)}")
    return notes


def comparison(
    names: tuple[str, str],
    problem: str,
    pairs: PairSamples,
    *,
    size: Mapping[str, int] = MappingProxyType({}),
    handicap: float = 0.0,
    samples: str = "",
) -> PairComparison:
    """The verdict on B against A. See statistics.compare_pairs."""
    found = statistics.compare_pairs(pairs.a, pairs.b, pairs.a_first, pairs.a_cycles, pairs.b_cycles)
    cycles = found.cycles
    return PairComparison(
        a=names[0],
        b=names[1],
        problem=problem,
        verdict=found.verdict,
        reason=found.reason,
        pairs=len(pairs.a),
        inner=pairs.inner,
        ratio=math.exp(found.time.value),
        low=math.exp(found.time.low),
        high=math.exp(found.time.high),
        cycle_ratio=math.exp(cycles.value) if cycles else None,
        cycle_low=math.exp(cycles.low) if cycles else None,
        cycle_high=math.exp(cycles.high) if cycles else None,
        floor=statistics.FLOOR,
        a_time=statistics.median(pairs.a) / pairs.inner,
        b_time=statistics.median(pairs.b) / pairs.inner,
        a_clock=pairs.a_clock,
        b_clock=pairs.b_clock,
        handicap=handicap,
        samples=samples,
        size=dict(size),
    )


def self_test(comparisons: Sequence[PairComparison]) -> SelfTest:
    """Verdicts over many comparisons of one kernel with itself (slowed by `handicap`) at one size."""
    first = comparisons[0]
    verdicts = dict.fromkeys(("faster", "slower", "same", "ambiguous"), 0)
    for one in comparisons:
        verdicts[one.verdict] += 1
    wrong = (
        len(comparisons) - verdicts["slower"] if first.handicap else verdicts["faster"] + verdicts["slower"]
    )
    widths = [math.log(one.high / one.low) / 2 for one in comparisons]
    target = 1 + first.handicap
    return SelfTest(
        label=first.a,
        problem=first.problem,
        comparisons=len(comparisons),
        pairs=first.pairs,
        handicap=first.handicap,
        verdicts=verdicts,
        wrong=wrong,
        median_half_width=statistics.median(widths),
        largest_ratio=max((one.ratio for one in comparisons), key=lambda ratio: abs(ratio / target - 1)),
        gpu_seconds=sum(one.pairs * one.inner * (one.a_time + one.b_time) for one in comparisons),
        samples=first.samples,
    )


def _number(value: float) -> float | None:
    return value if value == value else None
