"""A value that cannot be right is flagged, and so is everything made of it, wherever it is printed."""

from __future__ import annotations

import dataclasses
import math

import pytest

from perfkit.analysis.definitions import load_devices
from perfkit.analysis.evidence import metric_evidence
from perfkit.analysis.expression import Expression
from perfkit.analysis.measurements import gather
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.roofline import Options, roofline
from perfkit.model import Evaluated, Status
from tests.unit.analysis.consistent import launch as made
from tests.unit.analysis.test_metrics import PEAK, stalls, value
from tests.unit.reports.made import ladder

SETS = load_metric_sets()
# What no bound can be put on: text, and a difference of counters of several passes.
UNBOUNDED = {"occupancy_limiter", "top_stall", "shared_conflicts_elsewhere"}


def test_every_metric_has_its_possible_range() -> None:
    assert {name for name, one in SETS.metrics.items() if one.range is None} == UNBOUNDED


@pytest.mark.parametrize("chip", load_devices())
def test_what_is_possible_is_inside(chip: str) -> None:
    """Made-up launches obey the hardware: nothing of them is flagged."""
    for seed in range(5):
        found = SETS.evaluate(made(chip, seed, rich=True)).metrics
        assert [one for one in found.values() if one.status is Status.INVALID] == []


def outside(name: str, chip: tuple[int, int]) -> list[float]:
    """A value below and one above each finite end of a metric's range."""
    limits = SETS.chip_metrics(chip)[name].range
    assert limits is not None
    low, high = limits
    found = [] if isinstance(low, Expression) or math.isinf(low) else [low - 0.5 * abs(low) - 0.25]
    return found + ([] if isinstance(high, Expression) or math.isinf(high) else [1.5 * high])


# A metric, and the counter that gives it directly (times a factor).
DIRECT = {
    "l1_hit_rate": ("l1tex__t_sector_hit_rate.pct", 100.0),
    "l2_hit_rate": ("lts__t_sector_hit_rate.pct", 100.0),
    "l1_global_load_hit_rate": ("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", 100.0),
    "issue_rate": ("smsp__issue_active.avg.per_cycle_active", 1.0),
    "sectors_per_load": ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", 1.0),
    "sectors_per_store": ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio", 1.0),
    "achieved_occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active", 100.0),
    "active_warps_per_scheduler": ("smsp__warps_active.avg.per_cycle_active", 1.0),
    "registers_per_thread": ("launch__registers_per_thread", 1.0),
    "block_size": ("launch__block_size", 1.0),
    "sm_clock": ("smsp__cycles_elapsed.avg.per_second", 1.0),
}


@pytest.mark.parametrize("name", DIRECT)
def test_both_ends(name: str) -> None:
    counter, factor = DIRECT[name]
    unit = "%" if factor == 100.0 else ""
    for number in outside(name, (9, 0)):
        found = value(name, {counter: (number * factor, unit)})
        assert found.status is Status.INVALID
        assert found.value == pytest.approx(number)
        assert "more than different replay passes explain" in found.reason


def test_bounds_that_depend_on_the_chip() -> None:
    counter = "smsp__warps_active.avg.per_cycle_active"
    assert value("active_warps_per_scheduler", {counter: 14.0}, chip=(9, 0)).status is Status.OK  # of 16
    found = value("active_warps_per_scheduler", {counter: 12.5}, chip=(8, 9))  # of 12
    assert found.status is Status.INVALID
    assert "1 to 12: the counters come from different passes" in found.reason
    # The report's own word comes first.
    own = {
        "device__attribute_max_warps_per_multiprocessor": 64,
        "device__attribute_num_schedulers_per_multiprocessor": 4,
    }
    assert value("active_warps_per_scheduler", {counter: 14.0, **own}, chip=(8, 9)).status is Status.OK


def test_a_stall_is_at_most_all_warps_for_the_time_of_an_issue() -> None:
    rate = {"smsp__issue_active.avg.per_cycle_active": 0.5}
    assert value("stall_wait", {**stalls({"wait": 31.0}), **rate}).status is Status.OK
    found = value("stall_wait", {**stalls({"wait": 40.0}), **rate})  # 16 warps / 0.5
    assert found.status is Status.INVALID
    assert "0 to 32" in found.reason
    # Without the issue rate the bound is not known, and nothing is said.
    assert value("stall_wait", stalls({"wait": 40.0})).status is Status.OK


def test_what_rests_on_an_invalid_metric_is_invalid() -> None:
    over = {**PEAK, "smsp__cycles_active.sum": 130.0, "smsp__issue_active.sum": 120.0}
    assert value("active_fraction", over).status is Status.INVALID  # 130 of 125 cycles
    found = value("model_share_of_peak", over)
    assert found.status is Status.INVALID
    assert "rests on active_fraction" in found.reason
    assert found.value is not None
    # A name that was picked by it, and a sum.
    negative = {
        **stalls({"wait": -3.0, "barrier": 1.0}),
        "smsp__average_warp_latency_per_inst_issued.ratio": 0,
    }
    top = value("top_stall", stalls({"wait": -3.0, "barrier": 1.0}))
    assert (top.value, top.status) == ("barrier", Status.INVALID)
    assert value("warp_states_sum", negative).status is not Status.OK


def flagged(item: Evaluated, name: str, reason: str = "outside its possible range") -> Evaluated:
    metric = dataclasses.replace(item.metrics[name], status=Status.INVALID, reason=reason)
    return dataclasses.replace(item, metrics={**item.metrics, name: metric})


def test_measurements_that_are_computed_of_it() -> None:
    first, *others = ladder()
    measured = gather([flagged(first, "issue_rate"), *others])
    model = measured.values["two_factor_model", "k1", "n=1000"]
    assert model.value == pytest.approx(0.1)
    assert model.status is Status.INVALID
    assert model.reason == "issue_rate(k1, n=1000) is invalid: outside its possible range"
    error = measured.values["two_factor_error", "k1", "n=1000"]
    assert error.status is Status.INVALID
    assert measured.values["two_factor_model", "k2", "n=1000"].status is Status.OK


def test_the_roofline_draws_no_such_point() -> None:
    first, second, third = ladder()
    measured = gather([flagged(first, "duration"), flagged(second, "l2_read_bytes"), third])
    drawn = roofline(measured, "n=1000", Options(levels=("dram", "l2")))
    assert [(one.label, one.level) for one in drawn.points] == [
        ("k2", "dram"),
        ("cublas", "dram"),
        ("cublas", "l2"),
    ]
    assert "k1: not drawn, its rate cannot be right: duration is invalid" in " ".join(drawn.missing)
    assert "k2: L2 not drawn: l2_read_bytes is invalid: outside its possible range" in drawn.missing
    by_instruction = roofline(measured, "n=1000", Options(levels=("dram",), instructions=True))
    assert [one.label for one in by_instruction.points] == ["k2", "cublas"]


def test_evidence_says_so() -> None:
    one, other, _ = ladder()
    shown = metric_evidence(one, flagged(other, "sectors_per_load"), "sectors_per_load")
    assert not shown.valid
    assert (shown.before, shown.after) == (16.5, 16.5)
    assert metric_evidence(one, other, "sectors_per_load").valid
