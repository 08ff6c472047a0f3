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
    if readiness >= 1:
        return 1.0
    return -math.expm1(warps * math.log1p(-readiness))


def split_issue_rate(before: Point, after: Point) -> Point:
    """ln(I_after / I_before) split over warps, readiness and the correction k of I = k (1 - (1 - r)^W).

    `before` and `after` are (I, W, r). The first two shares are the average over both orders of changing W
    and r (their Shapley values), the third is ln(k_after / k_before); together they are exact. All of I, W,
    r must be positive.
    """
    (issue_a, warps_a, ready_a), (issue_b, warps_b, ready_b) = before, after
    aa, bb = math.log(slots_filled(ready_a, warps_a)), math.log(slots_filled(ready_b, warps_b))
    only_warps, only_ready = (
        math.log(slots_filled(ready_a, warps_b)),
        math.log(slots_filled(ready_b, warps_a)),
    )
    by_warps = ((only_warps - aa) + (bb - only_ready)) / 2
    by_ready = ((only_ready - aa) + (bb - only_warps)) / 2
    correction = math.log(issue_b / issue_a) - (bb - aa)
    return by_warps, by_ready, correction


def elasticity_of_warps(before: Point, after: Point) -> float:
    """d ln(1-(1-r)^W) / d ln W between two launches: turns parts of ln W into parts of ln I."""
    (_, warps_a, ready_a), (_, warps_b, ready_b) = before, after
    change = math.log(warps_b / warps_a)
    if abs(change) > 1e-7:
        return split_issue_rate(before, after)[0] / change
    warps = math.sqrt(warps_a * warps_b)
    return (_slope_warps(warps, ready_a) + _slope_warps(warps, ready_b)) / 2


def elasticity_of_readiness(before: Point, after: Point) -> float:
    """d ln(1-(1-r)^W) / d ln r between two launches: turns parts of ln r into parts of ln I."""
    (_, warps_a, ready_a), (_, warps_b, ready_b) = before, after
    change = math.log(ready_b / ready_a)
    if abs(change) > 1e-7:
        return split_issue_rate(before, after)[1] / change
    ready = math.sqrt(ready_a * ready_b)
    return (_slope_ready(warps_a, ready) + _slope_ready(warps_b, ready)) / 2


def _slope_warps(warps: float, ready: float) -> float:
    if ready >= 1:
        return 0.0
    idle = math.exp(warps * math.log1p(-ready))
    return -warps * math.log1p(-ready) * idle / (1 - idle)


def _slope_ready(warps: float, ready: float) -> float:
    if ready >= 1:
        return 0.0
    idle = math.exp(warps * math.log1p(-ready))
    return warps * ready / (1 - ready) * idle / (1 - idle)


def split_product(factors: Mapping[str, float]) -> dict[str, float]:
    """1 - product(factors) split over the factors: x_j gets -ln(x_j) L(1, product). Exact; all must be
    positive.

    A factor above 1 gets a negative share: it gives back what others lost.
    """
    product = math.prod(factors.values())
    mean = log_mean(1.0, product)
    return {name: -math.log(value) * mean for name, value in factors.items()}
