"""Fewer bytes between L2 and L1 than the work must move cannot be; as many, or more, can."""

from __future__ import annotations

import dataclasses

import pytest

from perfkit.analysis.compare import Origin
from perfkit.analysis.explain import explain
from perfkit.analysis.least_work import moved_too_little
from perfkit.model import Evaluated, MetricValue, Status
from tests.unit.analysis.launches import launch

AT_L1 = "l1tex__m_xbar2l1tex_read_bytes.sum"
LOOKED_UP = "lts__t_sectors_srcunit_tex_op_read.sum"


def moved(
    read: float,
    written: float,
    *,
    status: Status = Status.OK,
    counter: str = AT_L1,
    chip: tuple[int, int] = (9, 0),
) -> Evaluated:
    one = launch()
    metrics = {
        "l2_read_bytes": MetricValue("l2_read_bytes", read, "byte", status, counters=(counter,)),
        "l2_write_bytes": MetricValue("l2_write_bytes", written, "byte"),
    }
    on = dataclasses.replace(one.launch, compute_capability=chip)
    return dataclasses.replace(one, launch=on, metrics={**one.metrics, **metrics})


def test_less_than_the_work_needs_is_said_with_both_values() -> None:
    said = moved_too_little(moved(2.0e9, 1.2e9), 4.0e9)
    assert said.startswith("moved 3.2 GB between L2 and L1 where the work needs 4 GB: either the kernel")


@pytest.mark.parametrize("item", [moved(3.95e9, 0.0), moved(2.0e9, 2.0e9), moved(40e9, 1e9)])
def test_as_much_or_more_is_possible(item: Evaluated) -> None:
    assert moved_too_little(item, 4.0e9) == ""


@pytest.mark.parametrize(
    ("item", "least"),
    [
        (moved(1e9, 0.0, status=Status.INVALID), 4e9),
        (moved(1e9, 0.0), float("nan")),
        (moved(1e9, 0.0, counter=LOOKED_UP), 4e9),
        (launch(), 4e9),
    ],
)
def test_what_is_not_known_is_not_compared(item: Evaluated, least: float) -> None:
    assert moved_too_little(item, least) == ""


def test_look_ups_count_where_nothing_goes_past_them() -> None:
    assert moved_too_little(moved(1e9, 0.0, counter=LOOKED_UP, chip=(8, 9)), 4e9)


def test_explain_warns_of_it() -> None:
    a, b = moved(4e9, 0.0), moved(1e9, 0.0)
    origin = Origin(least_bytes=4e9)
    result = explain([a], [b], origin_a=origin, origin_b=origin)
    assert sum("where the work needs 4 GB" in text for text in result.warnings) == 1
