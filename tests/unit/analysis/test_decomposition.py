"""Identities of the splits: additive, antisymmetric, safe at zero."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfkit.analysis.decomposition import (
    elasticity_of_readiness,
    elasticity_of_warps,
    log_mean,
    log_slots_filled,
    slots_filled,
    split_issue_rate,
    split_product,
    split_sum,
)

Point = tuple[float, float, float]  # issue rate, warps, readiness

positive = st.floats(1e-9, 1e12)
part = st.one_of(st.just(0.0), positive)
parts = st.lists(part, min_size=1, max_size=8).filter(lambda values: sum(values) > 0)
# Far beyond what a launch can show: one warp in a thousand launches, a hundred million warps, r as near to 0
# and to 1 as a float comes.
issue = st.floats(1e-12, 1.0)
warps = st.one_of(st.floats(0.01, 16.0), st.floats(1e-200, 1e8))
readiness = st.one_of(
    st.floats(1e-4, 1.0), st.floats(1e-300, 1.0), st.floats(0, 1e-9).map(lambda short: 1.0 - short)
)
point = st.tuples(issue, warps, readiness)


def named(values: list[float]) -> dict[str, float]:
    return {f"p{i}": value for i, value in enumerate(values)}


@given(positive, positive)
def test_log_mean_lies_between_geometric_and_arithmetic_mean(x: float, y: float) -> None:
    assert math.sqrt(x) * math.sqrt(y) * (1 - 1e-9) <= log_mean(x, y) <= (x + y) / 2 * (1 + 1e-9)
    assert log_mean(x, y) == pytest.approx(log_mean(y, x), rel=1e-12)


@given(st.floats(0.5, 2), st.floats(0.998, 1.002))
def test_log_mean_is_smooth_where_the_series_takes_over(x: float, ratio: float) -> None:
    y = x * ratio
    if x != y:
        assert log_mean(x, y) == pytest.approx((x - y) / math.log(x / y), rel=1e-9)


@pytest.mark.parametrize(("x", "y"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_log_mean_refuses_what_has_no_logarithm(x: float, y: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        log_mean(x, y)


@given(parts, parts)
def test_split_sum_adds_up_and_is_antisymmetric(a: list[float], b: list[float]) -> None:
    forward, backward = split_sum(named(a), named(b)), split_sum(named(b), named(a))
    scale = sum(abs(share) for share in forward.values())
    assert sum(forward.values()) == pytest.approx(math.log(sum(b) / sum(a)), abs=1e-9 + 1e-12 * scale)
    for name, share in forward.items():
        assert share == pytest.approx(-backward[name], rel=1e-12, abs=1e-12)


def test_split_sum_gives_the_closed_form_of_lmdi() -> None:
    # From 1 + 3 to 2 + 3: only the first part moved, so all of ln(5/4) is its.
    assert split_sum({"x": 1, "y": 3}, {"x": 2, "y": 3}) == pytest.approx({"x": math.log(5 / 4), "y": 0.0})
    # A part that appears out of nothing is no infinity.
    assert split_sum({"x": 4}, {"x": 4, "new": 4}) == pytest.approx({"x": 0.0, "new": math.log(2)})


@example((1.0, 1.0, 1.0), (1.0, 0.5, 1 - 1e-16))
@example((1.0, 0.01, 1 - 2**-53), (1.0, 0.01, 1 - 2**-52))
@example((1.0, 1e-200, 1e-300), (1e-12, 1e8, 1.0))
@example((0.5, 4.0, 0.25), (0.5, 4.0, 0.25 * (1 + 2**-52)))
@example((0.5, 4.0, 0.25), (0.5, 4.0 * (1 + 2**-52), 0.25))
@given(point, point)
def test_split_issue_rate_adds_up_and_is_antisymmetric(a: Point, b: Point) -> None:
    forward, backward = split_issue_rate(a, b), split_issue_rate(b, a)
    assert sum(forward) == pytest.approx(math.log(b[0] / a[0]), abs=1e-9)
    k_a, k_b = (math.log(i) - log_slots_filled(r, w) for i, w, r in (a, b))
    assert forward[2] == pytest.approx(k_b - k_a, abs=1e-9)
    for one, other in zip(forward, backward, strict=True):
        assert one == pytest.approx(-other, abs=1e-9)


@given(issue, warps, readiness, warps)
def test_split_issue_rate_blames_only_what_changed(i: float, w: float, r: float, w2: float) -> None:
    by_warps, by_ready, _ = split_issue_rate((i, w, r), (i, w2, r))
    assert by_ready == pytest.approx(0.0, abs=1e-12)
    assert by_warps == pytest.approx(log_slots_filled(r, w2) - log_slots_filled(r, w), abs=1e-9)


@example((1.0, 1.0, 1.0), (1.0, 0.5, 1 - 1e-16))
@example((1.0, 0.01, 1 - 2**-53), (1.0, 0.01, 1 - 2**-52))
@example((1.0, 1e-200, 1e-300), (1e-12, 1e8, 1.0))
@example((0.5, 4.0, 0.25), (0.5, 4.0, 0.25 * (1 + 2**-52)))
@example((0.5, 4.0, 0.25), (0.5, 4.0 * (1 + 2**-52), 0.25))
@given(point, point)
def test_elasticities_carry_the_shares(a: Point, b: Point) -> None:
    by_warps, by_ready, _ = split_issue_rate(a, b)
    in_warps, in_ready = exact_log_ratio(b[1], a[1]), exact_log_ratio(b[2], a[2])
    assert elasticity_of_warps(a, b) * in_warps == pytest.approx(by_warps, abs=1e-9)
    assert elasticity_of_readiness(a, b) * in_ready == pytest.approx(by_ready, abs=1e-9)


def exact_log_ratio(above: float, below: float) -> float:
    """ln(above / below) without the rounding of the quotient: neighbouring floats have a ratio too."""
    near = abs(above - below) < below / 2
    return math.log1p((above - below) / below) if near else math.log(above) - math.log(below)


@given(st.floats(0.01, 0.9), st.floats(1, 16))
def test_elasticities_at_no_change_are_the_slopes(r: float, w: float) -> None:
    here, step = (0.5, w, r), 1e-4
    slope = (math.log(slots_filled(r, w * (1 + step))) - math.log(slots_filled(r, w))) / math.log1p(step)
    assert elasticity_of_warps(here, here) == pytest.approx(slope, rel=2e-3, abs=1e-6)
    slope = (math.log(slots_filled(r * (1 + step), w)) - math.log(slots_filled(r, w))) / math.log1p(step)
    assert elasticity_of_readiness(here, here) == pytest.approx(slope, rel=1e-2, abs=1e-6)


def test_slots_filled_is_the_probability_that_not_all_warps_wait() -> None:
    assert slots_filled(0.25, 2) == pytest.approx(1 - 0.75**2)
    assert slots_filled(1.0, 3) == 1.0
    assert slots_filled(1e-12, 1) == pytest.approx(1e-12)


@given(st.floats(1e-6, 1.0), st.floats(0.01, 100.0))
def test_the_logarithm_of_slots_filled_is_that(r: float, w: float) -> None:
    assert math.exp(log_slots_filled(r, w)) == pytest.approx(slots_filled(r, w), rel=1e-12)
    assert log_slots_filled(1e-300, 1e-200) == pytest.approx(-500 * math.log(10))


@given(st.lists(st.floats(1e-6, 2.0), min_size=1, max_size=6))
def test_split_product_adds_up(values: list[float]) -> None:
    shares = split_product(named(values))
    assert sum(shares.values()) == pytest.approx(1 - math.prod(values), abs=1e-9)


def test_more_warps_bring_nothing_where_one_is_always_ready() -> None:
    ready = (0.5, 4.0, 1.0)
    assert elasticity_of_warps(ready, ready) == 0.0
    assert elasticity_of_readiness(ready, ready) == 0.0
