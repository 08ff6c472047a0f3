"""Every figure and every remark of a timing, from samples whose answer is worked out by hand."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from perfkit.analysis import bench_results
from perfkit.analysis.bench_results import Subject
from perfkit.model import Batch, BenchResult, GpuInfo, PairComparison, PairSamples, SensorSample, Timing

GPU = GpuInfo("NVIDIA H200", "GPU-0", (9, 0), 132)
SUBJECT = Subject("k8", "k8", "t", "n=4096", {"n": 4096}, 2.0 * 4096**3)


def timing(times: list[float], clock: float | None = 1.98e9, *, inner: int = 1, took: float = 2.0) -> Timing:
    return Timing((Batch(tuple(times), inner, 0.0, took, clock),), inner, "stopped")


def sample(time: float = 0.0, **fields: Any) -> SensorSample:
    known = {"sm_clock": 1.98e9, "power": 500.0, "temperature": 60.0, "throttle": (), "energy": None}
    return SensorSample(time, **{**known, **fields})


def result(
    *rounds: Timing, sensors: tuple[SensorSample, ...] = (), subject: Subject = SUBJECT, **how: Any
) -> BenchResult:
    options = {"protocol": "quick", "cache": "hot", "short_launch": 20e-6, **how}
    return bench_results.bench_result(subject, GPU, rounds, [sensors] * len(rounds), **options)


def test_the_spread_of_single_launches() -> None:
    found = result(timing([float(i) for i in range(101)]))
    assert (found.launch_low, found.time, found.launch_high) == (5.0, 50.0, 95.0)


@pytest.mark.parametrize(
    ("times", "note"),
    [
        # Quarters 0.9 % and 1.1 % apart; the further one is named.
        ([0.9955] * 30 + [1.0] * 40 + [1.0045] * 30, ""),
        ([0.9955] * 30 + [1.0] * 40 + [1.0066] * 30, "at least 0.7% longer"),
        ([0.9934] * 30 + [1.0] * 40 + [1.0045] * 30, "at least 0.7% less"),
        ([1.0] * 70 + [1.02] * 30, "at least 2.0% longer"),
        ([0.97] * 30 + [1.0] * 70, "at least 3.0% less"),
    ],
)
def test_launches_that_scatter(times: list[float], note: str) -> None:
    said = [one for one in result(timing(times)).notes if "scatter" in one]
    wanted = f"launches scatter: a quarter of them took {note} than the median"
    assert said == ([wanted] if note else [])


@pytest.mark.parametrize(
    ("time", "inner", "note"),
    [
        (19e-6, 1, "launch-bound: 19.0 us a launch; timed one by one, events included"),
        (5e-6, 8, "launch-bound: 5.0 us a launch; timed in groups of 8, gaps between launches included"),
        (5e-6, 2, "launch-bound: 5.0 us a launch; timed in groups of 2, gaps between launches included"),
        (20e-6, 1, ""),
    ],
)
def test_short_launches_are_said_with_how_they_were_timed(time: float, inner: int, note: str) -> None:
    found = result(timing([time] * 20, inner=inner))
    assert [one for one in found.notes if "launch-bound" in one] == ([note] if note else [])
    assert (found.launches, found.kept, found.launches_per_sample) == (20 * inner, 20, inner)


@pytest.mark.parametrize(
    ("device", "nvml", "said"),
    [(1.95e9, 1.98e9, False), (1.93e9, 1.98e9, True), (2.03e9, 1.98e9, True), (2.01e9, 1.98e9, False)],
)
def test_clocks_two_percent_apart_are_said(device: float, nvml: float, said: bool) -> None:
    found = result(timing([1e-3] * 20, device), sensors=(sample(sm_clock=nvml),))
    note = f"SM clock: {device / 1e6:.0f} MHz by the cycle counter, {nvml / 1e6:.0f} MHz by NVML"
    assert (note in found.notes) is said
    assert found.sm_clock == device


@pytest.mark.parametrize(
    ("took", "rounds", "said"), [(0.9, 1, True), (1.0, 1, False), (0.6, 2, True), (1.1, 2, False)]
)
def test_power_of_less_than_a_second_a_round_is_doubted(took: float, rounds: int, said: bool) -> None:
    found = result(*[timing([1e-3] * 20, took=took)] * rounds, sensors=(sample(),))
    note = f"power: timed for {took * rounds:.1f} s, NVML averages over up to 1 s"
    assert (note in found.notes) is said
    assert found.power == 500.0


def test_the_time_of_all_batches_counts() -> None:
    batches = tuple(Batch((1e-3,) * 9, 1, start, start + 0.4, 1.98e9) for start in (0.0, 5.0, 9.0))
    assert not any("power" in one for one in result(Timing(batches, 1, ""), sensors=(sample(),)).notes)
    assert any(
        "power: timed for 0.8 s" in one
        for one in result(Timing(batches[:2], 1, ""), sensors=(sample(),)).notes
    )


def test_without_power_or_with_the_energy_counter_nothing_is_doubted() -> None:
    short = timing([1e-3] * 20, took=0.1)
    for sensors in ((), (sample(power=None),), energy(6)):
        assert not any("power" in one for one in result(short, sensors=sensors).notes)


def energy(steps: int, watts: float = 400.0) -> tuple[SensorSample, ...]:
    return tuple(sample(0.1 * i, energy=1000 + watts * 0.1 * i) for i in range(steps + 1))


def test_four_steps_of_the_energy_counter_make_a_power() -> None:
    assert bench_results.summarize_sensors([energy(3)]).mean_power is None
    assert bench_results.summarize_sensors([energy(4)]).mean_power == pytest.approx(400.0)
    # Of several rounds the median, of those that have one.
    rounds = [energy(5, 300.0), energy(2, 900.0), energy(5, 500.0), energy(5, 310.0)]
    assert bench_results.summarize_sensors(rounds).mean_power == pytest.approx(310.0)


def test_sensors_are_medians_the_temperature_the_highest() -> None:
    readings = [
        sample(sm_clock=clock, power=watts, temperature=heat, throttle=why)
        for clock, watts, heat, why in [  # Hz, W, degrees
            (1.0e9, 100.0, 50.0, ("power", "heat")), (1.5e9, 300.0, 70.0, ()),
            (1.9e9, 200.0, 60.0, ("clock",)),
        ]
    ]  # fmt: skip
    found = bench_results.summarize_sensors([readings[:1], readings[1:]])
    assert (found.sm_clock, found.power, found.temperature, found.samples) == (1.5e9, 200.0, 70.0, 3)
    assert found.throttle == ("clock", "heat", "power")
    said = result(timing([1e-3] * 20), sensors=tuple(readings)).notes
    assert "clock held down: clock, heat, power" in said


def test_energy_only_of_launches_back_to_back() -> None:
    hot, cold = (result(timing([2e-3] * 20), sensors=energy(9), cache=cache) for cache in ("hot", "cold"))
    assert hot.energy_per_launch == pytest.approx(400.0 * 2e-3)
    assert cold.energy_per_launch is None
    without = result(timing([2e-3] * 20), sensors=(sample(power=250.0),))
    assert without.energy_per_launch == pytest.approx(250.0 * 2e-3)


def test_work_that_is_not_fp32_has_a_rate_and_no_share() -> None:
    found = result(timing([1e-3] * 20), subject=dataclasses.replace(SUBJECT, fp32=False))
    assert found.flop_rate == pytest.approx(SUBJECT.flops / 1e-3)
    assert found.share_of_peak is None
    assert "no share of FP32 peak: not every array is float32" in found.notes
    unknown = result(timing([1e-3] * 20), subject=dataclasses.replace(SUBJECT, flops=0.0))
    assert (unknown.flop_rate, unknown.share_of_peak) == (None, None)


def compared(a: list[float], b: list[float], *, inner: int = 1, handicap: float = 0.0) -> PairComparison:
    order = tuple(i % 2 == 0 for i in range(len(a)))
    samples = PairSamples(tuple(a), tuple(b), (), (), order, inner, 1.9e9, 1.8e9)
    return bench_results.comparison(
        ("k6", "k7"), "n=64", samples, handicap=handicap, size={"n": 64}, samples="pairs.csv"
    )


def test_a_comparison_holds_times_of_single_launches() -> None:
    found = compared([4e-3] * 12, [8e-3] * 12, inner=4)
    assert (found.a_time, found.b_time) == (1e-3, 2e-3)
    assert (found.pairs, found.inner, found.a_clock, found.b_clock) == (12, 4, 1.9e9, 1.8e9)
    assert (found.ratio, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert (found.cycle_ratio, found.floor, found.samples) == (None, 0.005, "pairs.csv")


def test_a_self_test_adds_up_its_comparisons() -> None:
    found = bench_results.self_test([
        compared([4e-3] * 12, [4e-3] * 12, inner=4),
        compared([4e-3] * 20, [3.8e-3] * 20, inner=4),
        compared([4e-3] * 12, [4.1e-3] * 12, inner=4),
    ])  # fmt: skip
    assert (found.label, found.comparisons, found.pairs, found.wrong) == ("k6", 3, 12, 2)
    assert found.verdicts == {"faster": 1, "slower": 1, "same": 1, "ambiguous": 0}
    assert found.largest_ratio == pytest.approx(0.95)  # 5 % one way is further than 2.5 % the other
    assert found.gpu_seconds == pytest.approx(12 * 8e-3 + 20 * 7.8e-3 + 12 * 8.1e-3)
    assert found.median_half_width == pytest.approx(0.0, abs=1e-12)


def test_a_self_test_with_a_handicap_counts_what_it_misses() -> None:
    ratios = (1.04, 1.0, 1.0497, 0.98)
    found = bench_results.self_test([
        compared([1e-3] * 12, [ratio * 1e-3] * 12, handicap=0.04) for ratio in ratios
    ])  # fmt: skip
    assert found.wrong == 2
    assert found.handicap == 0.04
    assert found.largest_ratio == pytest.approx(0.98)  # furthest from 1.04, not from 1


def test_half_the_width_of_the_interval_in_logarithms() -> None:
    wobble = [1.0, 1.02] * 2 + [1.01, 1.01] * 10
    one = compared([1.0] * 24, wobble)
    found = bench_results.self_test([one])
    assert found.median_half_width == pytest.approx(math.log(one.high / one.low) / 2)
    assert found.label == "k6"
