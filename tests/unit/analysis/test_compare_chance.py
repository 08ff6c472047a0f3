"""How often chance alone separates two groups of launches: the exact rank-sum test, value by value."""

from __future__ import annotations

import math

import pytest

from perfkit.analysis.compare import judge


def groups(a: int, b: int, change: float = 1.01) -> tuple[list[float], list[float]]:
    """Two groups 1 % apart, each scattering by far less."""
    return (
        [1.0 + 1e-4 * i for i in range(a)],
        [change * (1.0 + 1e-4 * i) for i in range(b)],
    )


@pytest.mark.parametrize(
    ("a", "b", "kind", "chance"),
    [
        # Either group may come out below the other: 2 of the C(a + b, a) orders separate them.
        (3, 3, "ambiguous", ""),  # 2 / 20 = 10 %
        (2, 5, "ambiguous", ""),  # 2 / 21 = 9.5 %
        (3, 4, "ambiguous", ""),  # 2 / 35 = 5.7 %: one-sided it would be 2.9 %
        (4, 3, "ambiguous", ""),
        (2, 7, "ambiguous", ""),  # 2 / 36 = 5.6 %
        (2, 8, "slower", "4.4%"),  # 2 / 45
        (3, 5, "slower", "3.6%"),  # 2 / 56
        (4, 4, "slower", "2.9%"),  # 2 / 70
        (5, 5, "slower", "0.8%"),  # 2 / 252
    ],
)
def test_a_small_difference_needs_enough_launches(a: int, b: int, kind: str, chance: str) -> None:
    one, other = groups(a, b)
    verdict = judge(one, other, math.nan, math.nan)
    assert verdict.kind == kind
    assert f"{a} and {b} launches" in verdict.reason
    if chance:
        assert f"do not overlap (chance {chance})" in verdict.reason


@pytest.mark.parametrize(("change", "kind"), [(1.01, "slower"), (0.99, "faster")])
def test_launches_that_touch_overlap(change: float, kind: str) -> None:
    one, other = groups(4, 4, change)
    assert judge(one, other, math.nan, math.nan).kind == kind
    touching = [*other[:-1], one[0] if change < 1 else one[-1]]
    assert judge(one, touching, math.nan, math.nan).kind == "ambiguous"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (math.exp(0.0049), "same"),
        (math.exp(0.0051), "ambiguous"),
        (math.exp(0.0299), "ambiguous"),
        (math.exp(0.0301), "slower"),
        (math.exp(-0.0299), "ambiguous"),
        (math.exp(-0.0301), "faster"),
    ],
)
def test_single_launches_are_asked_for_three_percent(change: float, kind: str) -> None:
    assert judge([1.0], [change], 1e9, change * 1e9).kind == kind


def test_both_time_and_cycles_must_have_moved_enough() -> None:
    four = [1.0, 1.0001, 1.0002, 1.0003]
    slower = [1.02 * value for value in four]
    assert judge(four, slower, 1e9, 1.02e9).kind == "slower"
    assert judge(four, slower, 1e9, 1.004e9).kind == "ambiguous"
    assert judge([1.0], [1.05], 1e9, 1.02e9).kind == "ambiguous"
