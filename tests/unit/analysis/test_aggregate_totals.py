"""Totals over launches, counter by counter: what adds up, what stays, and what has no total."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from perfkit.analysis.aggregate import aggregate
from perfkit.analysis.metrics import load_metric_sets
from perfkit.model import Counter, Evaluated, Launch, LaunchId, Status

SETS = load_metric_sets()
OPCODES = "sass__inst_executed_per_opcode"
EXECUTED = "smsp__inst_executed.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def launch(index: int, counters: Mapping[str, float], opcodes: Mapping[str, float] | None = None) -> Launch:
    units = {"gpu__time_duration.sum": "ns", OCCUPANCY: "%"}
    held = {name: Counter(name, value, units.get(name, "")) for name, value in counters.items()}
    if opcodes is not None:
        instances = tuple(opcodes.items())
        held[OPCODES] = Counter(OPCODES, sum(opcodes.values()), "inst", instances=instances)
    return Launch(
        LaunchId("r.ncu-rep", 0, index), "k", "k()", "GPU", (9, 0), "", (8, 1, 1), (64, 1, 1), True,
        counters=held,
    )  # fmt: skip


def total(names: tuple[str, ...], *launches: Launch) -> Evaluated:
    evaluated = [SETS.evaluate(one, names) for one in launches]
    (group,) = aggregate(evaluated, SETS, "total", ["kernel"], names)
    return group.aggregate


def test_opcodes_add_up_over_launches_also_those_that_one_alone_executes() -> None:
    first = launch(0, {EXECUTED: 100.0}, {"FFMA": 60.0, "LDS": 30.0, "BAR": 10.0})
    second = launch(1, {EXECUTED: 300.0}, {"FFMA": 20.0, "LDS": 180.0, "DFMA": 100.0})
    found = total(("fma_share", "mix_fp32", "mix_fp64"), first, second)
    # (60 + 20) / (100 + 300), and 100 / 400: neither launch's own share (0.6, 0.067), nor their mean.
    assert found.metrics["fma_share"].value == pytest.approx(0.2)
    assert found.metrics["fma_share"].status is Status.OK
    assert found.metrics["fma_share"].formula.startswith("on sums: ")
    assert found.metrics["mix_fp32"].value == pytest.approx(0.2)
    assert found.metrics["mix_fp64"].value == pytest.approx(0.25)


def test_three_launches_with_equal_opcodes_execute_three_times_as_many() -> None:
    same = [launch(i, {EXECUTED: 90.0}, {"FFMA": 60.0, "LDS": 30.0}) for i in range(3)]
    found = total(("instructions", "fma_share"), *same)
    assert found.metrics["instructions"].value == 270.0
    assert found.metrics["fma_share"].value == pytest.approx(60 / 90)


@pytest.mark.parametrize(
    ("name", "chip"), [("gpu__time_duration.sum", (9, 0)), ("gpu__time_duration", (6, 1))]
)
def test_times_add_up_under_either_name(name: str, chip: tuple[int, int]) -> None:
    both = [replace(launch(i, {name: ns}), compute_capability=chip) for i, ns in enumerate((1000.0, 3000.0))]
    assert total(("duration",), *both).number("duration") == pytest.approx(4e-6, rel=1e-12)


def test_a_counter_that_one_launch_lacks_has_no_total() -> None:
    both = (launch(0, {EXECUTED: 100.0}), launch(1, {}))
    for order in (both, both[::-1]):
        value = total(("instructions",), *order).metrics["instructions"]
        assert value.value is None
        assert value.status is Status.UNDEFINED


def test_an_average_of_equal_launches_is_no_sum() -> None:
    same = [launch(i, {OCCUPANCY: 40.0}) for i in range(2)]
    value = total(("achieved_occupancy",), *same).number("achieved_occupancy")
    assert math.isnan(value) or value == pytest.approx(0.4)
