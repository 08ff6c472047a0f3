"""Ranks, limits and words of the timing statistics, against published tables and by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from perfkit.analysis import statistics
from perfkit.analysis.statistics import (
    StopRule,
    compare_pairs,
    correlation_time,
    hodges_lehmann,
    median_interval,
)


def to_and_fro(count: int) -> list[float]:
    """1 to `count`, a low one and a high one in turn: no sample leans on the one before."""
    half = count // 2
    low, high = list(range(1, half + 1)), list(range(half + 1, count + 1))
    return [float(one) for pair in itertools.zip_longest(low, high) for one in pair if one is not None]


@pytest.mark.parametrize(
    ("count", "rank"),
    [
        (200, 86),  # the last of the binomial distribution: P(X <= 85) = 0.020, P(X <= 86) = 0.028
        (202, 87),  # 101 - 1.96 sqrt(202) / 2 = 87.07
        (400, 180),  # 200 - 19.6
        (1000, 469),  # 500 - 30.99
    ],
)
def test_ranks_of_the_median_of_many_samples(count: int, rank: int) -> None:
    values = to_and_fro(count)
    assert correlation_time(values) == 1.0
    estimate = median_interval(values)
    assert (estimate.low, estimate.high) == (rank, count + 1 - rank)
    assert estimate.value == (count + 1) / 2
    assert estimate.samples == count
    assert estimate.relative_half_width == pytest.approx((count + 1 - 2 * rank) / (count + 1))


@pytest.mark.parametrize(
    ("count", "critical"),
    # Largest W with P(W <= w) <= 0.025: the tables of the signed-rank test, two-sided 5 %.
    [(6, 0), (7, 2), (8, 3), (10, 8), (15, 25), (20, 52), (30, 137), (50, 434)],
)
def test_the_interval_of_pairs_has_the_ranks_of_the_wilcoxon_tables(count: int, critical: int) -> None:
    _check_walsh(count, critical + 1)


@pytest.mark.parametrize(
    ("count", "rank"),
    [
        (51, 453),  # 51 x 52 / 4 - 1.96 sqrt(51 x 52 x 103 / 24) = 663 - 209.1
        (60, 648),  # 915 - 266.2
        (100, 1954),  # 2525 - 570.04
    ],
)
def test_the_interval_of_many_pairs_is_that_of_the_normal_distribution(count: int, rank: int) -> None:
    _check_walsh(count, rank)


def _check_walsh(count: int, rank: int) -> None:
    values = [math.sqrt(i * 1.7) for i in range(1, count + 1)]
    walsh = sorted((one + other) / 2 for one, other in itertools.combinations_with_replacement(values, 2))
    estimate = hodges_lehmann(values)
    assert estimate.low == pytest.approx(walsh[rank - 1], rel=1e-14)
    assert estimate.high == pytest.approx(walsh[-rank], rel=1e-14)
    assert estimate.value == pytest.approx(float(np.median(walsh)), rel=1e-14)


def test_fifty_samples_tell_how_they_depend_on_one_another() -> None:
    assert correlation_time([float(i) for i in range(49)]) == 1.0
    assert correlation_time([float(i) for i in range(50)]) > 5


def test_halves_apart() -> None:
    assert statistics.half_drift([1.0, 1.0, 1.1, 1.1]) == pytest.approx(0.1)
    assert statistics.half_drift([1.0, 1.0, 0.9, 0.9]) == pytest.approx(0.1)
    assert statistics.half_drift([1.0, 3.0, 3.0]) == pytest.approx(2.0)  # the middle one is late
    assert math.isnan(statistics.half_drift([1.0]))


def test_percentiles_lie_between_their_neighbours() -> None:
    assert statistics.percentiles([1.0, 2.0, 3.0, 4.0, 5.0], 0, 25, 60, 100) == pytest.approx((1, 2, 3.4, 5))


def test_ratios_are_logarithms_of_b_over_a() -> None:
    assert statistics.log_ratios([1.0, 4.0], [2.0, 1.0]) == pytest.approx([math.log(2), -math.log(4)])


def test_couples_are_matched_in_order_and_the_rest_is_dropped() -> None:
    ratios = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    first = [True, True, False, True, False]
    assert statistics.balanced(ratios, first).tolist() == [2.5, 9.0]


LIMIT = "time limit of 4 s reached before the estimate was good"
WITHIN = "95 % interval of the median within"
STILL = [1.0 + 1e-6 * (i % 2) for i in range(20)]


@pytest.mark.parametrize(
    ("times", "kernel_time", "elapsed", "says"),
    [
        (STILL, 0.5, 0.5, "WITHIN ±0.000%, halves within 0.000%"),
        (STILL, 0.49, 0.5, ""),
        (STILL[:10], 0.5, 0.5, "WITHIN ±0.000%, halves within 0.000%"),
        (STILL[:9], 0.5, 0.5, ""),
        (STILL[:9], 0.5, 3.99, ""),
        (STILL[:9], 0.5, 4.0, "LIMIT: 9 samples of at least 10"),
        # Halves 0.24 % and 0.26 % apart, each of them still.
        ([1.0, 1.0024] * 10, 0.5, 0.5, "WITHIN ±0.120%, halves within 0.000%"),
        ([1.0, 1.0060] * 10, 0.5, 0.5, ""),
        ([1.0] * 10 + [1.0024] * 10, 0.5, 0.5, "WITHIN ±0.120%, halves within 0.240%"),
        ([1.0] * 10 + [1.0026] * 10, 0.5, 0.5, ""),
        (
            [1.0] * 10 + [1.02] * 10, 0.5, 4.0,
            "LIMIT: "
            "95 % interval ±0.99% (wanted 0.25%), halves apart by 2.00% (wanted 0.25%)",
        ),
    ],
)  # fmt: skip
def test_when_a_timing_is_good(times: list[float], kernel_time: float, elapsed: float, says: str) -> None:
    assert StopRule().reason(times, kernel_time, elapsed) == says.replace("LIMIT", LIMIT).replace(
        "WITHIN", WITHIN
    )


def pairs(*ratios: float) -> tuple[list[float], list[float], list[bool]]:
    return [1.0] * len(ratios), list(ratios), [i % 2 == 0 for i in range(len(ratios))]


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(1.0049, "same"), (1.0051, "slower"), (1 / 1.0049, "same"), (1 / 1.0051, "faster")],
)
def test_the_floor_is_half_a_percent_either_way(ratio: float, verdict: str) -> None:
    assert compare_pairs(*pairs(*[ratio] * 12)).verdict == verdict


def test_six_couples_have_an_interval_and_five_have_not() -> None:
    assert compare_pairs(*pairs(*[1.02] * 12)).verdict == "slower"
    few = compare_pairs(*pairs(*[1.02] * 11))
    assert few.verdict == "ambiguous"
    assert few.reason == "5 couples of pairs are too few for a 95 % interval (6 needed)"


@pytest.mark.parametrize(
    ("time", "cycles", "verdict"),
    [
        (1.02, 1.02, "slower"),
        (1.02, 1.0001, "slower"),  # any move of the cycles the same way confirms
        (1.02, 1.0, "ambiguous"),
        (1.02, 0.98, "ambiguous"),
        (0.98, 0.98, "faster"),
        (0.98, 1.0, "ambiguous"),
        (0.98, 1.02, "ambiguous"),
        (1.0, 1.004, "same"),
        (1.0, 1.006, "ambiguous"),
        (1.0, 0.996, "same"),
        (1.0, 0.994, "ambiguous"),
    ],
)
def test_cycles_confirm_or_contradict(time: float, cycles: float, verdict: str) -> None:
    a, b, first = pairs(*[time] * 12)
    found = compare_pairs(a, b, first, [1e6] * 12, [cycles * 1e6] * 12)
    assert found.verdict == verdict
    assert found.time.value == pytest.approx(math.log(time))
    assert found.cycles is not None
    assert found.cycles.value == pytest.approx(math.log(cycles), abs=1e-12)
