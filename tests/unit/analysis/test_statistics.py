"""Statistics of timings: known values, identities, and behaviour on samples with known truth."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis import statistics
from perfkit.analysis.statistics import (
    StopRule,
    compare_pairs,
    correlation_time,
    hodges_lehmann,
    median_interval,
)

TIMES = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=60)
PAIRS = st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0)), min_size=12, max_size=60)


def test_median_interval_of_a_textbook_sample() -> None:
    # Altman et al., Statistics with Confidence, 2nd ed., p. 38: n = 11, ranks 2 and 10 at 95 %.
    data = [66, 71.2, 83, 83.6, 101, 107.6, 122, 143, 160, 177, 414]
    estimate = median_interval(data)
    assert (estimate.value, estimate.low, estimate.high) == (107.6, 71.2, 177)


@pytest.mark.parametrize(("count", "rank"), [(5, 0), (6, 1), (8, 1), (9, 2), (20, 6), (50, 18), (100, 40)])
def test_ranks_are_those_of_the_binomial_tables(count: int, rank: int) -> None:
    estimate = median_interval((np.random.default_rng(1).permutation(count) + 1.0).tolist())
    if rank == 0:
        assert math.isnan(estimate.low)
    else:
        assert (estimate.low, estimate.high) == (rank, count + 1 - rank)


def test_the_approximation_meets_the_exact_ranks_where_it_takes_over() -> None:
    order = np.random.default_rng(1)
    exact = median_interval(order.permutation(200).astype(float).tolist())
    above = median_interval(order.permutation(202).astype(float).tolist())
    assert abs(exact.low - above.low) <= 1


def test_median_interval_covers_the_median_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    hits = 0
    for _ in range(1000):
        estimate = median_interval(generator.exponential(1.0, 40).tolist())
        hits += estimate.low <= math.log(2) <= estimate.high
    assert 930 <= hits <= 985


def _correlated(generator: np.random.Generator, count: int, rho: float) -> list[float]:
    """Times around 1 that lean on the one before."""
    value, found = generator.normal(), []
    for noise in generator.normal(0, math.sqrt(1 - rho * rho), count):
        value = rho * value + noise
        found.append(1 + 0.01 * value)
    return found


def test_the_interval_holds_for_samples_that_depend_on_their_neighbours() -> None:
    generator = np.random.default_rng(4)
    hits = 0
    for _ in range(300):
        estimate = median_interval(_correlated(generator, 1000, 0.8))
        hits += estimate.low <= 1 <= estimate.high
    assert 273 <= hits <= 296  # without the correlation's account about 165


def test_a_climb_has_no_interval_and_is_said_to_have_none() -> None:
    climb = [1 + i / 1000 for i in range(100)]
    assert math.isnan(median_interval(climb).low)
    reason = StopRule(most_time=1).reason(climb, 1.0, 1.0)
    assert "no 95 % interval (100 samples that follow one another), halves apart by" in reason


def test_the_correlation_time_is_that_of_the_process() -> None:
    generator = np.random.default_rng(5)
    # Of signs of a Gaussian process: 1 + 2 sum of (2 / pi) asin(rho^k), Kedem 1980.
    expected = 1 + 2 * sum(2 / math.pi * math.asin(0.8**k) for k in range(1, 100))
    assert correlation_time(_correlated(generator, 100_000, 0.8)) == pytest.approx(expected, rel=0.1)
    assert correlation_time(generator.standard_cauchy(100_000)) < 1.1
    assert correlation_time([1.0] * 100) == 1.0
    assert correlation_time(_correlated(generator, 49, 0.99)) == 1.0  # too few to tell
    assert correlation_time([1.0, 2.0] * 100) == 1.0  # never narrower than independent samples


@given(TIMES)
def test_median_interval_holds_the_median(times: list[float]) -> None:
    estimate = median_interval(times)
    assert estimate.value == pytest.approx(float(np.median(times)))
    if len(times) >= 6:
        assert estimate.low <= estimate.value <= estimate.high


@given(TIMES, st.floats(0.5, 2.0))
def test_median_interval_scales(times: list[float], factor: float) -> None:
    one, other = median_interval(times), median_interval([t * factor for t in times])
    assert other.value == pytest.approx(one.value * factor)
    if len(times) >= 6:
        assert other.low == pytest.approx(one.low * factor)


@pytest.mark.parametrize(
    ("values", "kept"), [([1.0, 2.0, 3.0], 3), ([1.0, 2.0, 3.0, 4.0], 3), ([1.0] * 9, 7)]
)
def test_last_three_quarters(values: list[float], kept: int) -> None:
    assert statistics.last_three_quarters(values) == tuple(values[len(values) - kept :])


def test_hodges_lehmann_of_a_textbook_sample() -> None:
    # Hollander, Wolfe, Chicken, 3rd ed., table 3.1 (Hamilton depression scale): estimate -0.46.
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    differences = [b - a for a, b in zip(before, after, strict=True)]
    estimate = hodges_lehmann(differences)
    assert estimate.value == pytest.approx(-0.46, abs=1e-9)
    assert estimate.low == pytest.approx(-0.786, abs=1e-9)
    assert estimate.high == pytest.approx(-0.010, abs=1e-9)


def test_hodges_lehmann_needs_six() -> None:
    assert math.isnan(hodges_lehmann([1.0] * 5).low)
    assert hodges_lehmann([1.0] * 6).low == 1.0
    assert math.isnan(hodges_lehmann([]).value)


def test_hodges_lehmann_covers_the_centre_as_often_as_it_says() -> None:
    generator = np.random.default_rng(2)
    hits = 0
    for _ in range(1000):
        estimate = hodges_lehmann(generator.normal(0.01, 0.005, 30))
        hits += estimate.low <= 0.01 <= estimate.high
    assert 925 <= hits <= 975


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=40), st.floats(-1, 1))
def test_hodges_lehmann_shifts_and_mirrors(values: list[float], shift: float) -> None:
    one = hodges_lehmann(values)
    moved = hodges_lehmann([v + shift for v in values])
    mirrored = hodges_lehmann([-v for v in values])
    assert one.low <= one.value <= one.high
    assert moved.value == pytest.approx(one.value + shift, abs=1e-12)
    assert moved.low == pytest.approx(one.low + shift, abs=1e-12)
    assert mirrored.value == pytest.approx(-one.value, abs=1e-12)
    assert (mirrored.low, mirrored.high) == pytest.approx((-one.high, -one.low), abs=1e-12)


@given(PAIRS, st.randoms())
def test_swapping_the_sides_mirrors_the_verdict(
    pairs: list[tuple[float, float]], order: random.Random
) -> None:
    a, b = [p[0] for p in pairs], [p[1] for p in pairs]
    first = [order.random() < 0.5 for _ in pairs]
    one = compare_pairs(a, b, first)
    other = compare_pairs(b, a, [not f for f in first])
    mirror = {"faster": "slower", "slower": "faster"}
    assert other.verdict == mirror.get(one.verdict, one.verdict)
    if one.time.samples:
        assert other.time.value == pytest.approx(-one.time.value, abs=1e-9)


@given(st.floats(-0.2, 0.2), st.lists(st.floats(-0.1, 0.1), min_size=2, max_size=20))
def test_the_cost_of_going_first_cancels(cost: float, truths: list[float]) -> None:
    ratios, order = [], []
    for truth in truths:
        ratios += [truth - cost, truth + cost]  # A first: A pays; B first: B pays
        order += [True, False]
    assert statistics.balanced(np.array(ratios), order) == pytest.approx(truths, abs=1e-12)


def _measured(
    ratio: float, noise: float = 0.004, pairs: int = 60, seed: int = 0, clock_ratio: float = 1.0
) -> statistics.PairVerdict:
    generator = np.random.default_rng(seed)
    order = [bool(i % 2) for i in range(pairs)]
    a = 1e-4 * np.exp(generator.normal(0, noise, pairs))
    b = 1e-4 * ratio * np.exp(generator.normal(0, noise, pairs))
    return compare_pairs(a.tolist(), b.tolist(), order, (a * 2e9).tolist(), (b * 2e9 * clock_ratio).tolist())


def test_verdicts() -> None:
    assert _measured(1.02).verdict == "slower"
    assert _measured(0.98).verdict == "faster"
    assert _measured(1.0).verdict == "same"
    assert _measured(1.005).verdict == "ambiguous"
    assert _measured(1.02, pairs=8).verdict == "ambiguous"


def test_a_clock_that_moved_is_no_slower_kernel() -> None:
    found = _measured(1.02, clock_ratio=1 / 1.02)
    assert found.verdict == "ambiguous"
    assert "clock" in found.reason


def test_same_time_with_other_cycles_is_ambiguous() -> None:
    found = _measured(1.0, clock_ratio=1.03)
    assert found.verdict == "ambiguous"
    assert "clock moved" in found.reason


def test_no_false_verdict_and_no_missed_percent() -> None:
    assert sum(_measured(1.0, seed=s).verdict in ("faster", "slower") for s in range(300)) <= 3
    assert sum(_measured(1.01, seed=s).verdict == "slower" for s in range(100)) >= 95


def test_outliers_do_not_decide() -> None:
    generator = np.random.default_rng(3)
    a = (1e-4 * np.exp(generator.normal(0, 0.002, 60))).tolist()
    b = (1e-4 * np.exp(generator.normal(0, 0.002, 60))).tolist()
    for index in (3, 20, 41):
        b[index] *= 5
    assert compare_pairs(a, b, [bool(i % 2) for i in range(60)]).verdict == "same"


def test_times_must_be_positive_and_paired() -> None:
    with pytest.raises(ValueError, match="above 0"):
        statistics.log_ratios([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="1 values of A for 2 of B"):
        statistics.log_ratios([1.0], [1.0, 1.0])


class TestStopRule:
    rule = StopRule()

    def test_goes_on_without_enough_time_or_samples(self) -> None:
        assert self.rule.reason([1e-4] * 1000, 0.1, 0.2) == ""
        assert self.rule.reason([0.1] * 9, 0.9, 1.0) == ""

    def test_stops_when_good(self) -> None:
        reason = self.rule.reason([1e-3] * 600, 0.6, 0.7)
        assert "95 % interval" in reason
        assert not statistics.ran_out_of_time(reason)

    def test_a_drifting_clock_is_not_good(self) -> None:
        times = [1e-3 * (1.02 if i < 500 else 1.0) for i in range(1000)]
        assert self.rule.reason(times, 1.0, 1.2) == ""

    def test_noise_is_not_good(self) -> None:
        times = np.random.default_rng(0).normal(1e-3, 2e-4, 200).tolist()
        assert self.rule.reason(times, 0.6, 0.7) == ""

    def test_time_ends_it_and_says_so(self) -> None:
        times = np.random.default_rng(0).normal(1e-3, 2e-4, 200).tolist()
        reason = self.rule.reason(times, 0.6, 4.1)
        assert reason.startswith("time limit of 4 s")
        assert statistics.ran_out_of_time(reason)
        assert "4 samples of at least 10" in self.rule.reason([1.0] * 4, 4.0, 4.0)
