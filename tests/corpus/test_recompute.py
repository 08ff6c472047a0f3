"""An independent reading: counters straight from ncu_report, formulas by hand, equal to the last digit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import perfkit

if TYPE_CHECKING:
    from .conftest import Corpus

Raw = Callable[[str], Any]  # a counter by name: its value, or None


def instances(metric: Any) -> dict[Any, float]:
    ids = metric.correlation_ids()
    return {ids.value(i): metric.value(i) for i in range(metric.num_instances())}


def first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def ratio(above: Any, below: Any) -> float | None:
    return None if above is None or not below else float(above / below)


def sectors_per_load(raw: Raw) -> Any:
    requests = raw("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum")
    if requests is None:
        return raw("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio") or None
    return ratio(raw("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"), requests)


def l2_hit_rate(raw: Raw) -> Any:
    return ratio(raw("lts__t_sectors_lookup_hit.sum"), raw("lts__t_sectors.sum"))


def l2_read_bytes(raw: Raw) -> Any:
    """What reached L1; else the share of its port's peak; else what L1 asked for."""
    received = raw("l1tex__m_xbar2l1tex_read_bytes.sum")
    if received is not None:
        return received - (raw("l1tex__m_xbar2l1tex_read_bytes_mem_dshared.sum") or 0)
    share = raw("l1tex__m_xbar2l1tex_read_sectors.avg.pct_of_peak_sustained_elapsed")
    cycles = raw("sm__cycles_elapsed.avg")
    major, minor = (raw(f"device__attribute_compute_capability_{one}") for one in ("major", "minor"))
    peak = {(7, 5): 1, (8, 0): 2, (8, 6): 1, (9, 0): 4, (10, 0): 4}.get((major, minor))
    sms = raw("device__attribute_multiprocessor_count")
    if share is not None and cycles is not None and peak is not None:
        return pytest.approx(share / 100 * peak * cycles * sms * 32, rel=1e-12)
    sectors = raw("lts__t_sectors_srcunit_tex_op_read.sum")
    asked = sectors * 32 if sectors is not None else raw("lts__t_bytes_srcunit_tex_op_read")
    if asked is None and (asked := raw("l1tex__m_xbar2l1tex_read_bytes_pipe_lsu.sum")) is None:
        gpc = raw("gpc__cycles_elapsed.max")
        if share is not None and gpc is not None and peak is not None:
            return pytest.approx(share / 100 * peak * gpc * sms * 32, rel=1e-12)
    return asked


def dram_read_bytes(raw: Raw) -> Any:
    return raw("dram__bytes_read.sum")


def shared_load_conflicts(raw: Raw) -> Any:
    return raw("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum")


def wavefronts_per_shared_load(raw: Raw) -> Any:
    """Per load that some thread executed; matrix loads are among the wavefronts."""
    loads = first(raw("smsp__sass_inst_executed_op_shared_ld.sum"), raw("sass__inst_executed_shared_loads"))
    opcodes = raw("sass__inst_executed_per_opcode[]")
    matrix = raw("smsp__inst_executed_op_ldsm.sum")
    if matrix is None and opcodes is not None:
        matrix = opcodes.get("LDSM", 0.0)
    if loads is not None:
        loads += matrix or 0
    else:
        loads = raw("smsp__inst_executed_op_shared_ld.sum")
    return ratio(raw("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"), loads)


def issue_rate(raw: Raw) -> Any:
    rate = raw("smsp__issue_active.avg.per_cycle_active")
    share, active = raw("sm__issue_active.avg.pct_of_peak_sustained_elapsed"), raw("sm__cycles_active.avg")
    if rate is not None or share is None:
        return rate
    of_smsps = raw("smsp__cycles_elapsed.avg"), raw("smsp__cycles_active.avg")
    if None not in of_smsps:
        return pytest.approx(share / 100 * of_smsps[0] / of_smsps[1], rel=1e-12)
    if raw("launch__block_size") <= 96:
        return None
    elapsed = first(raw("sm__cycles_elapsed.avg"), raw("gpc__cycles_elapsed.max"))
    return pytest.approx(share / 100 * elapsed / active, rel=1e-12)


def fma_share(raw: Raw) -> Any:
    opcodes = raw("sass__inst_executed_per_opcode[]")
    if opcodes is None:
        return None
    fma = opcodes.get("FFMA", 0.0) + opcodes.get("FFMA32I", 0.0) + opcodes.get("FFMA2", 0.0)
    return ratio(fma, raw("smsp__inst_executed.sum"))


def duration(raw: Raw) -> Any:
    nanoseconds = first(raw("gpu__time_duration.sum"), raw("gpu__time_duration"))
    return None if nanoseconds is None else nanoseconds / 1e9


def registers_per_thread(raw: Raw) -> Any:
    return raw("launch__registers_per_thread")


def achieved_occupancy(raw: Raw) -> Any:
    percent = raw("sm__warps_active.avg.pct_of_peak_sustained_active")
    if percent is not None:
        return percent / 100
    return ratio(
        raw("sm__active_warps_avg_per_active_cycle"), raw("device__attribute_max_warps_per_multiprocessor")
    )


def stall_lg_throttle(raw: Raw) -> Any:
    return raw("smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio")


FORMULAS = (
    sectors_per_load,
    l2_hit_rate,
    l2_read_bytes,
    dram_read_bytes,
    shared_load_conflicts,
    wavefronts_per_shared_load,
    issue_rate,
    fma_share,
    duration,
    registers_per_thread,
    achieved_occupancy,
    stall_lg_throttle,
)


def raw_reader(action: Any) -> Raw:
    def raw(name: str) -> Any:
        metric = action.metric_by_name(name.removesuffix("[]"))
        if metric is None:
            return None
        if name.endswith("[]"):
            return instances(metric)
        value = metric.value()
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        return value

    return raw


def test_ten_metrics_equal_hand_written_formulas(corpus: Corpus) -> None:
    module = pytest.importorskip("ncu_report")
    answered = dict.fromkeys((one.__name__ for one in FORMULAS), 0)
    for path in corpus.files():
        profile = perfkit.load(path)
        context = module.load_report(str(path))
        actions = [
            context.range_by_idx(r).action_by_idx(i)
            for r in range(context.num_ranges())
            for i in range(context.range_by_idx(r).num_actions())
        ]
        assert len(actions) == len(profile)
        for action, one in zip(actions, profile, strict=True):
            assert action.name() == one.launch.kernel
            raw = raw_reader(action)
            for formula in FORMULAS:
                expected = formula(raw)
                value = one.metrics[formula.__name__]
                assert value.value == expected, (str(one.launch.id), value)
                answered[formula.__name__] += expected is not None
    # The comparison is of values, not of absences.
    assert min(answered.values()) >= 10
    assert sum(answered.values()) > 500
