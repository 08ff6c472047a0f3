"""From raw timings and readings to results: hand-made numbers with known answers."""

from __future__ import annotations

import math

import pytest

from perfkit.analysis import bench_results
from perfkit.analysis.bench_results import Subject
from perfkit.model import Batch, BenchResult, GpuInfo, PairComparison, PairSamples, SensorSample, Timing

GPU = GpuInfo("NVIDIA H200", "GPU-0", (9, 0), 132)
SUBJECT = Subject("k8", "k8", "t", "n=4096", {"n": 4096}, 2.0 * 4096**3)


def _timing(times: list[float], clock: float | None = 1.98e9, start: float = 0.0, inner: int = 1) -> Timing:
    batch = Batch(tuple(times), inner, start, start + sum(times) * inner, clock)
    return Timing((batch,), inner, "stopped")


def _sensors(count: int, *, start: float = 0.0, watts: float = 600.0, refresh: int = 1) -> list[SensorSample]:
    """Readings every 20 ms; the energy counter is refreshed with every `refresh`-th."""
    return [
        SensorSample(
            start + i * 0.02, 1.95e9, 500.0, 60.0 + i % 3, ("SW power cap",) if i == 5 else (),
            1000 + watts * 0.02 * (i // refresh * refresh),
        )
        for i in range(count)
    ]  # fmt: skip


def _result(rounds: list[Timing], sensors: list[list[SensorSample]], **options: str) -> BenchResult:
    how = {"protocol": "quick", "cache": "hot", **options}
    return bench_results.bench_result(SUBJECT, GPU, rounds, sensors, short_launch=20e-6, **how)


def test_share_of_peak_is_at_the_clock_of_the_cycle_counter() -> None:
    result = _result([_timing([3e-3] * 200)], [_sensors(30)])
    assert result.flop_rate == pytest.approx(2 * 4096**3 / 3e-3)
    assert result.peak_flop_rate == pytest.approx(132 * 128 * 2 * 1.98e9)
    assert result.share_of_peak == pytest.approx(2 * 4096**3 / 3e-3 / (132 * 128 * 2 * 1.98e9))
    assert result.sm_clock == pytest.approx(1.98e9)
    assert result.sm_clock_source == "cycle counter"
    assert result.sm_clock_nvml == 1.95e9


def test_launches_that_scatter_are_said() -> None:
    still = _result([_timing([3e-3, 3.01e-3] * 100)], [_sensors(30)])
    assert not any("scatter" in note for note in still.notes)
    two_modes = _result([_timing([3e-3] * 140 + [3.09e-3] * 60)], [_sensors(30)])
    assert two_modes.time == 3e-3
    assert two_modes.launch_low == pytest.approx(3e-3)
    assert two_modes.launch_high == pytest.approx(3.09e-3)
    assert "launches scatter: a quarter of them took at least 3.0% longer than the median" in two_modes.notes


def test_without_a_cycle_counter_nvml_tells_the_clock() -> None:
    result = _result([_timing([3e-3] * 200, clock=None)], [_sensors(30)])
    assert (result.sm_clock, result.sm_clock_source) == (1.95e9, "NVML")


def test_without_any_clock_there_is_no_share() -> None:
    result = _result([_timing([3e-3] * 200, clock=None)], [[]])
    assert (result.sm_clock, result.share_of_peak, result.power) == (None, None, None)
    assert result.flop_rate is not None


def test_clocks_that_disagree_are_said() -> None:
    result = _result([_timing([3e-3] * 200, clock=1.4e9)], [_sensors(30)])
    assert any("1400 MHz by the cycle counter, 1950 MHz by NVML" in note for note in result.notes)


def test_device_clock_is_weighted_by_time() -> None:
    long, short = _timing([3e-3], 1e9), _timing([1e-3], 2e9)
    assert bench_results.device_clock([long, short]) == pytest.approx(1.25e9)


def test_the_article_keeps_the_last_three_quarters_and_the_median_of_rounds() -> None:
    warm = [9e-3] * 25
    rounds = [_timing([*warm, *[t] * 75]) for t in (1e-3, 3e-3, 2e-3)]
    result = _result(rounds, [[], [], []], protocol="article")
    assert result.round_times == (1e-3, 3e-3, 2e-3)
    assert result.time == 2e-3
    assert (result.launches, result.kept) == (300, 225)


def test_power_by_the_energy_counter_between_its_own_steps() -> None:
    summary = bench_results.summarize_sensors([_sensors(60, watts=650.0, refresh=5)])
    assert summary.mean_power == pytest.approx(650.0)
    assert summary.power == 500.0
    assert summary.temperature == 62.0
    assert summary.throttle == ("SW power cap",)


def test_idle_time_between_rounds_is_not_in_the_power() -> None:
    rounds = [_sensors(60, watts=650.0), _sensors(60, start=100.0, watts=650.0)]
    assert bench_results.summarize_sensors(rounds).mean_power == pytest.approx(650.0)


def test_energy_of_a_launch() -> None:
    result = _result([_timing([3e-3] * 200)], [_sensors(30, watts=650.0)])
    assert result.power == pytest.approx(650.0)
    assert result.energy_per_launch == pytest.approx(650.0 * 3e-3)
    article = _result([_timing([3e-3] * 200)], [_sensors(30, watts=650.0)], protocol="article")
    assert article.power == 500.0


def test_too_short_for_nvmls_average_is_said() -> None:
    few = [SensorSample(0.0, 1.98e9, 300.0, 50.0, (), None)]
    result = _result([_timing([1e-3] * 200)], [few])
    assert any("NVML averages over up to 1 s" in note for note in result.notes)


def test_a_limit_that_was_reached_is_said() -> None:
    batch = _timing([3e-3] * 200).batches
    result = _result([Timing(batch, 1, "time limit of 4 s reached before ...")], [[]])
    assert result.notes[0].startswith("time limit")


def test_a_failed_kernel_has_no_speed() -> None:
    result = bench_results.failed_result(SUBJECT, protocol="quick", cache="hot")
    assert (result.time, result.flop_rate, result.share_of_peak, result.launches) == (None, None, None, 0)


def _pairs(ratio: float, count: int = 40) -> PairSamples:
    wobble = [1 + 0.001 * math.sin(7 * i) for i in range(count)]
    a = tuple(1e-3 * w for w in wobble)
    b = tuple(1e-3 * ratio * w for w in reversed(wobble))
    cycles = tuple(t * 1.98e9 for t in a), tuple(t * 1.98e9 for t in b)
    return PairSamples(a, b, *cycles, tuple(bool(i % 2) for i in range(count)), 4, 1.98e9, 1.98e9)


def _compare(ratio: float, handicap: float = 0.0) -> PairComparison:
    return bench_results.comparison(("k6", "k7"), "n=1024", _pairs(ratio), handicap=handicap)


def test_comparison_in_ratios_and_times_of_a_launch() -> None:
    found = _compare(1.02)
    assert found.verdict == "slower"
    assert found.ratio == pytest.approx(1.02, abs=1e-3)
    assert found.low < found.ratio < found.high
    assert found.cycle_ratio == pytest.approx(found.ratio)
    assert found.a_time == pytest.approx(1e-3 / 4, rel=1e-3)


def test_self_test_counts_false_verdicts() -> None:
    test = bench_results.self_test([_compare(1.0), _compare(1.0), _compare(1.02)])
    assert (test.comparisons, test.wrong) == (3, 1)
    assert test.verdicts == {"faster": 0, "slower": 1, "same": 2, "ambiguous": 0}
    assert test.largest_ratio == pytest.approx(1.02, abs=1e-3)


def test_self_test_counts_misses_of_a_handicap() -> None:
    test = bench_results.self_test([_compare(1.01, 0.01), _compare(1.0, 0.01)])
    assert (test.comparisons, test.wrong) == (2, 1)
