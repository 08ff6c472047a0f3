"""What must not be compared is refused with its reason; a verdict needs evidence."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.compare import Origin, check_comparable, judge, median_launch, with_timings
from perfkit.errors import NotComparableError
from perfkit.model import VerdictKind, WallClock
from tests.unit.analysis.launches import OPCODES, launch


def cached(control: str) -> Origin:
    return Origin(MappingProxyType({"cache_control": control}))


@pytest.mark.parametrize(
    ("a", "b", "origins", "reason"),
    [
        (
            {},
            {"gpu": "GPU B"},
            (None, None),
            "ran on GPU A (compute capability 8.9) and k (made-up.ncu-rep:0) on GPU B",
        ),
        ({"duration": 0.0}, {}, (None, None), "was not collected"),
        ({}, {"opcodes": {**OPCODES, "HMMA": 9.0}}, (None, None), "tensor-core work"),
        ({}, {"problem": "n=128"}, (None, None), "solved n=64 and k (made-up.ncu-rep:0) n=128"),
        ({}, {}, (cached("all"), cached("none")), "--cache-control all"),
    ],
)
def test_what_must_not_be_compared_is_refused(
    a: dict[str, Any], b: dict[str, Any], origins: tuple[Origin | None, Origin | None], reason: str
) -> None:
    with pytest.raises(NotComparableError) as caught:
        check_comparable(launch(**a), launch(**b), *origins)
    assert reason in caught.value.message
    assert caught.value.remedy
    assert caught.value.exit_code == 2


def test_one_and_the_same_raises_no_warning() -> None:
    assert check_comparable(launch(), launch(), cached("all"), cached("all")) == ((), 1.0)


@pytest.mark.parametrize(
    ("b", "warning"),
    [
        ({"ncu": "2024.1.0.0"}, "different ncu versions (2025.3.1.0, 2024.1.0.0)"),
        (
            {"not_selected": 4.0},
            "its warp states add up to 10 cycles per issue, warps over issue rate give 8",
        ),
        ({"clock": 1.4e9}, "the SM clocks differ (1,500 and 1,400 MHz)"),
        ({"problem": "", "opcodes": {"FFMA": 1.0, "LDS": 9.0}}, "B executes"),
        ({"problem": "", "opcodes": {"LDS": 9.0}}, "taken on trust"),
    ],
)
def test_doubts_are_warnings(b: dict[str, Any], warning: str) -> None:
    warnings, _ = check_comparable(launch(), launch(**b))
    assert any(warning in text for text in warnings), warnings


def test_another_build_of_the_same_ncu_release_is_no_doubt() -> None:
    assert check_comparable(launch(ncu="2025.3.1.4"), launch(ncu="2025.3.0.0")) == ((), 1.0)


def test_known_work_of_two_sizes_is_compared_per_unit() -> None:
    warnings, ratio = check_comparable(launch(), launch(problem="n=128"), Origin(work=2.0), Origin(work=16.0))
    assert ratio == 8.0
    assert "per unit of work" in warnings[0]


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ([1.0], [1.0], "same"),
        ([1.0], [1.004], "same"),
        ([1.0], [1.02], "ambiguous"),  # single launches: their scatter is not known
        ([1.0], [1.05], "slower"),
        ([1.0], [0.9], "faster"),
        (
            [1.0, 1.001, 1.002, 0.999],
            [1.01, 1.011, 1.012, 1.013],
            "slower",
        ),  # 1 %, but four against four apart
        ([1.0, 1.03, 1.002, 0.999], [1.01, 1.011, 1.012, 1.013], "ambiguous"),  # they overlap
        ([1.0, 1.001], [1.01, 1.011], "ambiguous"),  # two against two are apart by chance in a third of cases
        ([1.0, 2.0], [1.8, 1.9], "ambiguous"),
    ],
)
def test_verdicts(a: list[float], b: list[float], kind: str) -> None:
    middle_a, middle_b = sorted(a)[len(a) // 2], sorted(b)[len(b) // 2]
    verdict = judge(a, b, middle_a * 1e9, middle_b * 1e9)
    assert verdict.kind == kind, verdict.reason
    assert "in time" in verdict.reason
    assert "in cycles" in verdict.reason


def test_the_clock_alone_makes_no_verdict() -> None:
    verdict = judge([1.0], [1.1], 1e9, 0.99e9)
    assert verdict.kind == "ambiguous"
    assert "time and cycles disagree" in verdict.reason


@given(
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=6),
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=6),
)
def test_faster_one_way_is_slower_the_other(a: list[float], b: list[float]) -> None:
    there, back = judge(a, b, math.nan, math.nan), judge(b, a, math.nan, math.nan)
    opposite = {VerdictKind.FASTER: VerdictKind.SLOWER, VerdictKind.SLOWER: VerdictKind.FASTER}
    assert back.kind == opposite.get(there.kind, there.kind)


def test_the_median_launch_stands_for_a_side() -> None:
    side = [launch(duration=seconds, number=i) for i, seconds in enumerate((3.0, 1.0, 2.0))]
    assert median_launch(side).launch.id.launch == 2
    assert median_launch(side[:2]).launch.id.launch == 1


def timed(ratio: float, low: float, high: float, pairs: int = 0) -> WallClock:
    logs = [math.log(value) for value in (ratio, low, high)]
    return WallClock(1.0, ratio, 1e9, 1e9, logs[0], 0.0, "run", logs[1], logs[2], pairs)


@pytest.mark.parametrize(
    ("ncu", "timings", "kind"),
    [
        (1.02, timed(1.02, 1.01, 1.03), "slower"),  # a single launch left it open
        (1.02, timed(1.02, 1.001, 1.03), "ambiguous"),  # and so do timings that reach into the floor
        (1.02, timed(1.001, 0.998, 1.003), "same"),
        (1.10, timed(0.95, 0.94, 0.96), "ambiguous"),  # cold caches under ncu
        (1.10, timed(1.001, 0.998, 1.003), "slower"),
        (0.90, timed(0.91, 0.90, 0.92), "faster"),
    ],
)
def test_event_timings_are_evidence(ncu: float, timings: WallClock, kind: str) -> None:
    verdict = judge([1.0], [ncu], 1e9, ncu * 1e9)
    assert with_timings(verdict, math.log(ncu), timings).kind == kind
