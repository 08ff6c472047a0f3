"""`import perfkit` by hands that give it what the types forbid: its own errors, never one of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perfkit
from perfkit.api import find_reports
from perfkit.errors import UsageError

REPORT = Path(__file__).parents[1] / "data" / "cases" / "two_plain_ranges.ncu-rep"


@pytest.mark.parametrize("given", [None, b"", b"x.ncu-rep", bytearray(b"x"), 7, [None], [b"x"], [REPORT, 7]])
def test_what_is_not_a_path_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="is not a path"):
        perfkit.load(given)


@pytest.mark.parametrize("given", [None, b"", 7, [REPORT]])
def test_find_reports_refuses_it_too(given: Any) -> None:
    with pytest.raises(UsageError, match="is not a path"):
        find_reports(given)


def test_several_paths_come_from_anything_iterable() -> None:
    assert len(perfkit.load(iter([REPORT, str(REPORT)])).reports) == len(
        perfkit.load([REPORT, str(REPORT)]).reports
    )


@pytest.mark.parametrize("index", [7, -8, 2])
def test_a_launch_that_is_not_there_is_named(index: int) -> None:
    profile = perfkit.load(REPORT)
    with pytest.raises(UsageError, match=rf"no launch {index}: the profile holds launches 0 to 1"):
        profile.explain(0, index)
    with pytest.raises(UsageError, match=rf"no launch {index}"):
        profile.peak_loss(index)


@pytest.mark.parametrize("which", [None, 1.0, True, b"k"])
def test_what_is_neither_index_nor_label_is_refused(which: Any) -> None:
    with pytest.raises(UsageError, match="is not a launch"):
        perfkit.load(REPORT).explain(0, which)


def test_a_profile_without_launches_says_so() -> None:
    with pytest.raises(UsageError, match="the profile holds no launches"):
        perfkit.load([]).explain()
