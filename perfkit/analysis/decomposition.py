"""Exact, zero-safe splits of a change into the changes of its parts. Plain numbers in, plain numbers out.

LMDI, the logarithmic mean Divisia index: B. W. Ang, "The LMDI approach to decomposition analysis: a
practical guide", Energy Policy 33 (2005) 867-871. Shapley: A. F. Shorrocks, "Decomposition procedures for
distributional analysis: a unified framework based on the Shapley value", Journal of Economic Inequality 11
(2013) 99-126.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Point = tuple[float, float, float]  # issue rate, warps active per scheduler, readiness


def log_mean(x: float, y: float) -> float:
    """Logarithmic mean (x - y) / ln(x / y) of two positive numbers; x where they are equal.

    Near equality the quotient loses its digits, so the series x y -> sqrt(x y) (1 + d^2/24), d = ln(x/y),
    is used.
    """
    if x <= 0 or y <= 0:
        raise ValueError(f"log_mean needs positive numbers, got {x} and {y}")
    d = math.log(x / y)
    if abs(d) < 1e-3:
        return math.sqrt(x * y) * (1 + d * d / 24 + d**4 / 1920)
    return (x - y) / d


def split_sum(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """ln(sum(after) / sum(before)) split over the parts.

    Part j gets (after_j - before_j) / L(total_after, total_before). This is LMDI's L(b, a) / L(B, A) * ln(b
    / a) with the part's own logarithmic mean cancelled, so a part may be zero on either side. The totals
    must be positive. Exact: the parts add up to the logarithm of the totals' ratio.
    """
    total_before, total_after = sum(before.values()), sum(after.values())
    mean = log_mean(total_after, total_before)
    names = list(before) + [name for name in after if name not in before]
    return {name: (after.get(name, 0.0) - before.get(name, 0.0)) / mean for name in names}


def slots_filled(readiness: float, warps: float) -> float:
    """1 - (1 - r)^W: share of cycles in which at least one of W warps, each ready with probability r,
    issues.
    """
    return -math.expm1(-warps * _rate(readiness))


def log_slots_filled(readiness: float, warps: float) -> float:
    """ln(1 - (1 - r)^W), also where the share itself is below the smallest float."""
    return _log_filled(warps, _rate(readiness))


def split_issue_rate(before: Point, after: Point) -> Point:
    """ln(I_after / I_before) split over warps, readiness and the correction k of I = k (1 - (1 - r)^W).

    `before` and `after` are (I, W, r). The first two shares are the average over both orders of changing W
    and r (their Shapley values), the third is ln(k_after / k_before); together they are exact. All of I, W,
    r must be positive, r at most 1.
    """
    (issue_a, warps_a, ready_a), (issue_b, warps_b, ready_b) = before, after
    rate_a, rate_b = _rate(ready_a), _rate(ready_b)
    in_warps = _log_ratio(warps_b, warps_a)
    in_rate = _log_ratio_of_rates(ready_b, ready_a)
    by_warps = sum(_grown((warps_a, rate), (warps_b, rate), in_warps) for rate in (rate_a, rate_b)) / 2
    by_ready = sum(_grown((warps, rate_a), (warps, rate_b), in_rate) for warps in (warps_a, warps_b)) / 2
    return by_warps, by_ready, math.log(issue_b) - math.log(issue_a) - by_warps - by_ready


def elasticity_of_warps(before: Point, after: Point) -> float:
    """d ln(1-(1-r)^W) / d ln W between two launches: turns parts of ln W into parts of ln I."""
    (_, warps_a, ready_a), (_, warps_b, ready_b) = before, after
    change = _log_ratio(warps_b, warps_a)
    if change:
        return split_issue_rate(before, after)[0] / change
    return (_slope_warps(warps_a, ready_a) + _slope_warps(warps_a, ready_b)) / 2


def elasticity_of_readiness(before: Point, after: Point) -> float:
    """d ln(1-(1-r)^W) / d ln r between two launches: turns parts of ln r into parts of ln I."""
    (_, warps_a, ready_a), (_, warps_b, ready_b) = before, after
    change = _log_ratio(ready_b, ready_a)
    if change:
        return split_issue_rate(before, after)[1] / change
    return (_slope_ready(warps_a, ready_a) + _slope_ready(warps_b, ready_a)) / 2


# Everything below is a function of x = W R with R = -ln(1 - r): the share of slots filled is 1 - exp(-x).
# Near r = 1 the curve is as steep as one likes for W < 1, so a slope does not stand for a difference there;
# differences are therefore taken exactly, from the ratio of what changed, never from two rounded logarithms.

_NEAR = 0.1  # ln: two x closer than this lose digits when their logarithms are subtracted
_TINY = 1e-8  # 1 - exp(-x) is x (1 - x/2) below this, to the last digit
_FULL = 700.0  # exp(-x) is no more than the smallest floats above this


def _rate(readiness: float) -> float:
    """R = -ln(1 - r); infinite for a warp that is always ready."""
    return math.inf if readiness >= 1 else -math.log1p(-readiness)


def _log_filled(warps: float, rate: float) -> float:
    if math.isinf(rate):
        return 0.0
    log_x = math.log(warps) + math.log(rate)
    if log_x < math.log(_TINY):
        return log_x - math.exp(log_x) / 2
    x = warps * rate
    return math.log1p(-math.exp(-x)) if x > 1 else math.log(-math.expm1(-x))


def _grown(one: tuple[float, float], other: tuple[float, float], log_ratio: float) -> float:
    """ln of what the share filled grows by from (W, R) `one` to `other`; `log_ratio` is that of W R."""
    x = one[0] * one[1]
    if not abs(log_ratio) <= _NEAR or x > _FULL:
        return _log_filled(*other) - _log_filled(*one)
    if x < _TINY:
        return log_ratio - x * math.expm1(log_ratio) / 2
    return math.log1p(-math.expm1(-x * math.expm1(log_ratio)) / math.expm1(x))


def _log_ratio(above: float, below: float) -> float:
    """ln(above / below), to the last digit also where the two are all but equal."""
    change = (above - below) / below
    return math.log1p(change) if abs(change) < _NEAR else math.log(above) - math.log(below)


def _log_ratio_of_rates(ready_b: float, ready_a: float) -> float:
    """ln(R_b / R_a); infinite where a warp is always ready on one side only."""
    rate_a, rate_b = _rate(ready_a), _rate(ready_b)
    if ready_a == ready_b:
        return 0.0
    if math.isinf(rate_a) or math.isinf(rate_b):
        return math.inf if rate_b > rate_a else -math.inf
    change = -math.log1p((ready_a - ready_b) / (1 - ready_a)) / rate_a
    return math.log1p(change) if abs(change) < _NEAR else math.log(rate_b) - math.log(rate_a)


def _slope_warps(warps: float, ready: float) -> float:
    return _per_log_x(warps * _rate(ready))


def _slope_ready(warps: float, ready: float) -> float:
    if ready >= 1:
        return 0.0
    rate = _rate(ready)
    return _per_log_x(warps * rate) * ready / (1 - ready) / rate


def _per_log_x(x: float) -> float:
    """d ln(1 - exp(-x)) / d ln x."""
    if x > _FULL:
        return 0.0
    return x / math.expm1(x) if x > 0 else 1.0


def split_product(factors: Mapping[str, float]) -> dict[str, float]:
    """1 - product(factors) split over the factors: x_j gets -ln(x_j) L(1, product). Exact; all must be
    positive.

    A factor above 1 gets a negative share: it gives back what others lost.
    """
    product = math.prod(factors.values())
    mean = log_mean(1.0, product)
    return {name: -math.log(value) * mean for name, value in factors.items()}
