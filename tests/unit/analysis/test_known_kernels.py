"""Metrics against arithmetic: kernels whose traffic and instructions are counted by hand, on an H200.

tests/data/probe_h200.json holds their counters (ncu 2025.3.1, set full and more). Copies of 64 MiB move 2^26
bytes each way.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfkit.analysis.metrics import load_metric_sets
from perfkit.model import Evaluated, MetricValue, Status
from tests.unit.analysis.test_metrics import launch

SETS = load_metric_sets()
MIB64 = 2**26
KERNELS = json.loads((Path(__file__).parents[2] / "data" / "probe_h200.json").read_text(encoding="utf-8"))


def evaluated(kernel: str, *without: str) -> Evaluated:
    counters = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in KERNELS[kernel].items()
        if not name.startswith(without or ("no counter",))
    }
    return SETS.evaluate(launch(counters, (9, 0)))


def metric(kernel: str, name: str, *without: str) -> MetricValue:
    return evaluated(kernel, *without).metrics[name]


# Bytes to the SMs and from them, by hand.
TRAFFIC = {
    "copy": (MIB64, MIB64),
    "copy_vector": (MIB64, MIB64),
    "scatter_strided": (2**21 * 4, 2**21 * 32),  # each 4-byte store takes a sector
    "transpose_naive": (MIB64, 2**24 * 32),
    "transpose_tiled": (MIB64, MIB64),
    "softmax": (MIB64, MIB64),
    "copy_async": (MIB64, MIB64),
    "copy_async_narrow": (MIB64, MIB64),
    "copy_bulk": (MIB64, MIB64),
    "load_bulk": (MIB64, MIB64),
    "copy_ldmatrix": (MIB64, MIB64),
    "axpy_double": (4 * MIB64, 2 * MIB64),
    "copy_tensor": (MIB64, MIB64),
    "copy_multicast": (2 * MIB64, MIB64),  # both SMs of a cluster receive what one asked for
    "copy_distributed": (MIB64, MIB64),  # and as much again between the SMs, which is not of L2
    "copy_texture": (MIB64, MIB64),
    "exchange": (2 * 2**22, 2 * 2**22),  # ATOM: new values go, old ones return; loads and stores beside them
    "reduce_atomic": (2**22, 2**15 * 32 * 32),  # 32,768 RED of a warp, a sector a lane
}


@pytest.mark.parametrize("kernel", TRAFFIC)
def test_l2_bytes_are_those_of_the_arithmetic(kernel: str) -> None:
    read, written = TRAFFIC[kernel]
    found = evaluated(kernel).metrics
    assert found["l2_read_bytes"].value == read
    assert found["l2_write_bytes"].value == written
    assert {found["l2_read_bytes"].reason, found["l2_write_bytes"].reason} == {""}


def test_what_l1_asked_for_is_another_thing_and_says_so() -> None:
    """One sector of a multicast, or of two SMs' equal reads, is asked of L2 once and arrives twice."""
    for kernel, least in (("copy_multicast", 2.0), ("matmul_wmma", 1.5)):
        asked = metric(kernel, "l2_read_bytes", "l1tex__m_")
        assert metric(kernel, "l2_read_bytes").number / asked.number >= least
        assert "asked of L2" in asked.reason
    stored = metric("reduce_atomic", "l2_write_bytes", "l1tex__m_", "lts__t_sectors_srcunit_tex_op_red")
    assert stored.value == 0
    assert "stores only" in stored.reason


def test_atomics_and_spills_are_in_the_bytes_written() -> None:
    assert metric("reduce_atomic", "l2_atomic_bytes").value == 2**15 * 32 * 32
    assert metric("exchange", "l2_atomic_bytes").value == 2**22
    # Spilled: L1 writes local stores through, 4 sectors a warp store.
    opcodes = KERNELS["spill_r32"]["sass__inst_executed_per_opcode_with_modifier_all"]
    words = {"STL": 1, "STL.64": 2, "STL.128": 4}
    stores = sum(words[name] * count for name, count in opcodes.items() if name.startswith("STL"))
    assert metric("spill_r32", "l2_write_bytes").value == pytest.approx(stores * 4 * 32 + 2**22, rel=1e-3)


@pytest.mark.parametrize("kernel", ["copy", "softmax", "copy_distributed", "gather"])
def test_a_default_report_gives_them_too(kernel: str) -> None:
    """`ncu` without --set holds shares of peak: what they are shares of is known."""
    full, default = evaluated(kernel), evaluated(kernel, "l1tex__m_xbar2l1tex_read_bytes", "lts__", "smsp__")
    read, counted = default.metrics["l2_read_bytes"], full.number("l2_read_bytes")
    assert read.number == pytest.approx(counted, rel=1e-9)
    assert "share of the peak" in read.reason
    instructions = default.metrics["instructions"]
    assert instructions.number == pytest.approx(KERNELS[kernel]["smsp__inst_executed.sum"], rel=1e-9)
    # Of SMs, not SMSPs, and of other passes: near, and said to be so.
    rate = default.metrics["issue_rate"]
    assert rate.number == pytest.approx(full.number("issue_rate"), rel=0.1)
    assert "of SMs, not SMSPs" in rate.reason
    product = full.number("issue_rate") * full.number("active_fraction")
    assert rate.number * default.number("active_fraction") == pytest.approx(product, rel=0.01)


def test_small_blocks_have_no_issue_rate_of_sms() -> None:
    """With a warp a block three of an SM's schedulers may idle: a rate of SMs would be four times off."""
    default = evaluated("copy_bulk", "smsp__")
    for name in ("issue_rate", "active_fraction"):
        assert default.metrics[name].status is Status.NOT_COLLECTED


# By hand: the ideal is what the width of each access takes.
SECTORS = {
    "copy": (4, 4),
    "copy_vector": (16, 16),
    "copy_async": (16, 16),
    "copy_async_narrow": (4, 4),
    "axpy_double": (8, 8),
    "matmul_wmma": (8, 4),
}


@pytest.mark.parametrize("kernel", SECTORS)
def test_requests_of_cp_async_are_loads(kernel: str) -> None:
    load, ideal = SECTORS[kernel]
    assert metric(kernel, "sectors_per_load").value == load
    assert metric(kernel, "ideal_sectors_per_load").value == ideal


def test_bulk_copies_make_no_requests() -> None:
    for kernel in ("copy_bulk", "copy_tensor"):
        assert metric(kernel, "sectors_per_load").status is Status.UNDEFINED


# Wavefronts per instruction that a thread executed, by hand; arbitration adds up to 14 % where LDGSTS writes.
WAVEFRONTS = {
    "reduce_tree": 1,
    "softmax": 2,  # LDS.128 of neighbours: 4; of one address: 1
    "transpose_tiled": 32,
    "copy_async": 4,
    "copy_async_narrow": 1,
    "load_bulk": 4,
    "copy_ldmatrix": 4,
}


@pytest.mark.parametrize("kernel", WAVEFRONTS)
def test_wavefronts_per_load_that_a_thread_executed(kernel: str) -> None:
    found = metric(kernel, "wavefronts_per_shared_load")
    assert found.status is Status.OK
    assert WAVEFRONTS[kernel] <= found.number <= 1.15 * WAVEFRONTS[kernel]


def test_a_count_with_predicated_off_instructions_is_told_from_it() -> None:
    """17 LDS a thread of which 3 execute: 0.2 wavefronts a load are impossible."""
    sass = ("smsp__sass_inst", "sass__")
    found = metric("reduce_tree", "wavefronts_per_shared_load", *sass)
    assert found.number < 0.25
    assert found.status is Status.INVALID
    assert "predicated off" in found.reason
    assert "more than different replay passes explain" in found.reason
    assert metric("reduce_tree", "wavefronts_per_shared_store", *sass).status is Status.INVALID
    assert metric("reduce_tree", "wavefronts_per_shared_store").number == pytest.approx(1.03, abs=0.01)


def test_a_hair_over_the_bound_is_flagged_with_the_passes() -> None:
    found = metric("transpose_naive", "sectors_per_store")
    assert (found.status, round(found.number, 2)) == (Status.INVALID, 32.09)
    assert "1 to 32: the counters come from different passes" in found.reason


def test_hits_of_global_loads_are_not_the_l1_hit_rate() -> None:
    only = ("l1tex__t_sectors.sum", "l1tex__t_sectors_lookup_hit")
    assert metric("matmul_wmma", "l1_hit_rate", *only).status is Status.NOT_COLLECTED
    of_loads = metric("matmul_wmma", "l1_global_load_hit_rate", *only)
    assert of_loads.number == pytest.approx(0.698, abs=0.001)
