"""The meter on a virtual GPU: windows, orders and clocks come out as they went in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from perfkit.kernels.measuring import Meter, PairPlan

_SPEC = importlib.util.spec_from_file_location("fake_gpu", Path(__file__).with_name("fake_gpu.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
fake_gpu = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fake_gpu)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A virtual GPU in CuPy's place."""
    virtual = fake_gpu.VirtualGpu()
    monkeypatch.setitem(sys.modules, "cupy", virtual.cupy())
    return virtual


def test_batch_times_each_launch_and_reads_the_clock(gpu: Any) -> None:
    batch = Meter().batch(gpu.kernel(1e-3), 50)
    assert batch.times == pytest.approx([1e-3] * 50, rel=1e-9)
    assert batch.sm_clock == pytest.approx(1.98e9, rel=1e-4)
    assert batch.ended >= batch.started


def test_groups_are_divided_by_their_launches(gpu: Any) -> None:
    batch = Meter().batch(gpu.kernel(2e-6), 10, inner=25)
    assert batch.inner == 25
    assert batch.times == pytest.approx([2e-6] * 10, rel=1e-6)


def test_cold_flushes_before_each_launch_outside_the_events(gpu: Any) -> None:
    meter = Meter()
    batch = meter.batch(gpu.kernel(1e-3), 20, cold=True)
    assert gpu.flushes == 20
    assert batch.times == pytest.approx([1.5e-3] * 20, rel=1e-9), (
        "every launch finds L2 clean and empty of it"
    )
    assert meter.batch(gpu.kernel(1e-3), 2).times == pytest.approx([1e-3] * 2, rel=1e-9)


def test_only_the_first_launch_after_a_flush_is_cold(gpu: Any) -> None:
    with pytest.raises(ValueError, match="only the first"):
        Meter().batch(gpu.kernel(1e-3), 20, inner=5, cold=True)


def test_the_lead_in_is_outside_the_events_and_the_clock(gpu: Any) -> None:
    before = gpu.now
    batch = Meter().batch(gpu.kernel(5e-6), 100, lead_in=True)
    assert gpu.now - before > 100 * 25e-6, "the GPU did not wait for the host"
    assert batch.times == pytest.approx([5e-6] * 100, rel=1e-6)
    assert batch.sm_clock == pytest.approx(1.98e9, rel=1e-2)


def test_the_clock_is_that_of_the_batch(gpu: Any) -> None:
    meter = Meter()
    gpu.clock = 1.425e9
    assert meter.batch(gpu.kernel(1e-3), 50).sm_clock == pytest.approx(1.425e9, rel=1e-4)


def test_nonsense_from_the_counters_is_no_clock(gpu: Any) -> None:
    meter = Meter()
    gpu.clock = 1e12
    assert meter.batch(gpu.kernel(1e-3), 5).sm_clock is None


def test_pairs_keep_sides_apart_in_either_order(gpu: Any) -> None:
    order = [True, False, False, True]
    samples = Meter().pairs(PairPlan(gpu.kernel(1e-3), gpu.kernel(3e-3), order, 2))
    assert samples.a == pytest.approx([2e-3] * 4, rel=1e-9)
    assert samples.b == pytest.approx([6e-3] * 4, rel=1e-9)
    assert samples.a_cycles == pytest.approx([2e-3 * 1.98e9] * 4, rel=2e-3)
    assert samples.b_cycles == pytest.approx([6e-3 * 1.98e9] * 4, rel=2e-3)
    assert samples.a_first == tuple(order)
    assert samples.a_clock == pytest.approx(1.98e9, rel=1e-3)


def test_the_handicap_falls_into_b_only(gpu: Any) -> None:
    samples = Meter().pairs(PairPlan(gpu.kernel(1e-3), gpu.kernel(1e-3), [True, False], 1, 19_800))
    assert samples.a == pytest.approx([1e-3] * 2, rel=1e-9)
    assert samples.b == pytest.approx([1e-3 + 1.5e-6 + 1e-5] * 2, rel=1e-6)


def test_warm_reports_the_time_of_a_launch(gpu: Any) -> None:
    launches, each = Meter().warm(gpu.kernel(1e-3), 0.002)
    assert launches >= 1
    assert each > 0
