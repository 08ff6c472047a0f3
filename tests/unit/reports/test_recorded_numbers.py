"""Every number of the article's five tables, computed a second time from the recorded report and samples.

Nothing of perfkit's reading, metrics or formulas is used on the second way: only ncu_report, gzip and csv.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from perfkit.analysis.measurements import without_held
from perfkit.analysis.roofline import COUNTERS, roofline
from perfkit.commands._inputs import read_measurements
from perfkit.model import Table
from perfkit.profiler.run_store import recorded_root
from perfkit.reports.article import article_tables
from perfkit.reports.figures import roofline_table

ncu_report = pytest.importorskip("ncu_report")
ROOT = Path(recorded_root())
LADDER = ("k1", "k2", "k3", "k4", "k5", "k6", "k6b", "k7", "k8", "cublas")
SMS, LANES = 132, 128  # H200: NVIDIA's data sheet and the CUDA programming guide, compute capability 9.0
pytestmark = pytest.mark.skipif(not list(ROOT.glob("*_bench")), reason="no recorded run in this checkout")
Counter = Callable[[str], float]
STALL = "smsp__average_warps_issue_stalled_"
PER_ISSUE = "_per_issue_active.ratio"


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    measurements = without_held(read_measurements(["recorded"], COUNTERS))
    found = {item.table.name: item.table for item in article_tables(measurements, "n=4096")}
    found["roofline"] = roofline_table(roofline(measurements, "n=4096"))
    return found


@pytest.fixture(scope="module")
def launches() -> dict[str, Any]:
    """ncu_report's actions at n = 4096 by kernel; the sizes were profiled in order."""
    (report,) = ROOT.glob("*_profile/profile.ncu-rep")
    context = ncu_report.load_report(str(report))
    actions = [context[0][index] for index in range(len(context[0]))]
    last = actions[-len(LADDER) :]
    assert [action.name() for action in last[:-1]] == [f"sgemm_{kernel}" for kernel in LADDER[:-1]]
    held = dict(zip(LADDER, last, strict=True))
    held["context"] = context  # actions die with it
    return held


def _counter(action: Any) -> Counter:
    return lambda name: float(action[name].value())


def _shown(table: Table, kernel: str) -> dict[str, Any]:
    cells = next(row for row in table.rows if row[0].value == kernel)
    return {column.name: cell.value for column, cell in zip(table.columns, cells, strict=True)}


def _fmas(action: Any) -> float:
    """Warp instructions, from thread instructions: every lane of these kernels' FMAs is on."""
    return _counter(action)("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum") / 32


def _fma_share(action: Any) -> float:
    return _fmas(action) / _counter(action)("smsp__inst_executed.sum")


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as stream:
        return list(csv.DictReader(stream))


def _is_hot(record: Path) -> bool:
    return bool(json.loads(record.read_text())["options"]["cache"] == "hot")


def _timed(kernel: str, n: int) -> dict[str, float]:
    """Time, speed, clock, power and share of peak from the samples and the sensors' log."""
    (folder,) = (one.parent for one in ROOT.glob("*_bench/run.json") if _is_hot(one))
    samples = _rows(folder / f"samples_{kernel}_n{n}.csv.gz")
    time = median(float(row["seconds_per_launch"]) for row in samples)
    # The clock of each batch by the device's cycle counter counts for as long as the batch ran.
    batches = [*{row["batch"]: row for row in samples}.values()]
    lasted = [float(row["batch_ended_s"]) - float(row["batch_started_s"]) for row in batches]
    cycles = [float(row["batch_sm_clock_hz"]) * spent for row, spent in zip(batches, lasted, strict=True)]
    # Joule over seconds between the first and the last reading, while batches ran, at which the counter
    # had moved.
    start, end = float(batches[0]["batch_started_s"]), float(batches[-1]["batch_ended_s"])
    sensors = _rows(folder / f"sensors_{kernel}_n{n}.csv.gz")
    energy = [(float(row["time_s"]), float(row["energy_j"])) for row in sensors]
    energy = [reading for reading in energy if start <= reading[0] <= end]
    moved = [late for early, late in pairwise(energy) if late[1] > early[1]]
    (first, low), (last, high) = moved[0], moved[-1]
    speed, clock = 2.0 * n**3 / time, sum(cycles) / sum(lasted)
    return {
        "time": time,
        "flop_rate": speed,
        "clock": clock,
        "power": (high - low) / (last - first),
        "timed_share_of_peak": speed / (SMS * LANES * 2 * clock),
    }


@pytest.mark.parametrize("kernel", LADDER)
def test_climb(tables: dict[str, Table], kernel: str) -> None:
    mine, shown = _timed(kernel, 4096), _shown(tables["climb"], kernel)
    mine["share_of_reference"] = _timed("cublas", 4096)["time"] / mine["time"]
    for name, value in mine.items():
        # The samples' times are rounded to 10 ps, the sensors' to 0.1 us.
        assert shown[name] == pytest.approx(value, rel=1e-5), name
    if kernel in ("k1", "cublas"):
        assert shown["speedup"] is None
    else:
        before = LADDER[LADDER.index(kernel) - 1]
        assert shown["speedup"] == pytest.approx(_timed(before, 4096)["time"] / mine["time"], rel=1e-6)


@pytest.mark.parametrize("kernel", LADDER)
def test_counters(tables: dict[str, Table], launches: dict[str, Any], kernel: str) -> None:
    action, shown = launches[kernel], _shown(tables["counters"], kernel)
    of = _counter(action)
    issued = of("smsp__issue_active.sum") / of("smsp__cycles_active.sum")
    loads = "l1tex__t_{}_pipe_lsu_mem_global_op_ld{}.sum"
    stalls = {
        name.removeprefix(STALL).removesuffix(PER_ISSUE): of(name)
        for name in action.metric_names()
        if name.startswith(STALL) and name.endswith(PER_ISSUE)
    }
    del stalls["selected"], stalls["not_selected"]
    held = set(action.metric_names())
    # Runs recorded before perfkit collected what reached L1, and the loads that a thread executed.
    older = "l1tex__m_xbar2l1tex_read_bytes.sum" not in held
    reads = of(f"smsp__{'' if older else 'sass_'}inst_executed_op_shared_ld.sum")
    port = "l1tex__m_xbar2l1tex_read_bytes"
    received = (
        32 * of("lts__t_sectors_srcunit_tex_op_read.sum")
        if older
        else of(f"{port}.sum") - of(f"{port}_mem_dshared.sum")
    )
    waves = of("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum")
    sectors = of(loads.format("sectors", ""))
    expected = {
        "registers_per_thread": of("launch__registers_per_thread"),
        "achieved_occupancy": of("sm__warps_active.avg.pct_of_peak_sustained_active") / 100,
        "sectors_per_load": sectors / of(loads.format("requests", "")),
        "l1_hit_rate": of("l1tex__t_sectors_lookup_hit.sum") / of("l1tex__t_sectors.sum"),
        "l2_hit_rate": of("lts__t_sectors_lookup_hit.sum") / of("lts__t_sectors.sum"),
        "l2_read_bytes": received,
        "dram_bytes": of("dram__bytes_read.sum") + of("dram__bytes_write.sum"),
        "fma_per_shared_load": _fmas(action) / reads if reads else None,
        "wavefronts_per_shared_load": waves / reads if reads else None,
        "shared_load_conflicts": of("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"),
        "issue_rate": issued,
        "fma_share": _fma_share(action),
    }
    assert shown.pop("kernel") == kernel
    assert shown.pop("top_stall") == max(stalls, key=lambda name: stalls[name])
    assert shown.keys() == expected.keys()
    for name, value in expected.items():
        assert shown[name] == (None if value is None else pytest.approx(value, rel=1e-9)), name


@pytest.mark.parametrize("kernel", LADDER)
def test_model(tables: dict[str, Table], launches: dict[str, Any], kernel: str) -> None:
    of, shown = _counter(launches[kernel]), _shown(tables["model"], kernel)
    issue = of("smsp__issue_active.sum") / of("smsp__cycles_active.sum")
    fma, active = _fma_share(launches[kernel]), of("smsp__cycles_active.sum") / of("smsp__cycles_elapsed.sum")
    timed = _timed(kernel, 4096)["timed_share_of_peak"]
    seconds = of("gpu__time_duration.sum") / 1e9
    threads = of("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum")
    by_ncu = threads / (SMS * LANES * of("smsp__cycles_elapsed.avg.per_second") * seconds)
    assert shown["issue_rate"] == pytest.approx(issue)
    assert shown["fma_share"] == pytest.approx(fma)
    assert shown["two_factor_model"] == pytest.approx(issue * fma)
    assert shown["measured_share"] == pytest.approx(timed, rel=1e-5)
    assert shown["two_factor_error"] == pytest.approx(issue * fma - timed, abs=1e-5)
    assert shown["active_fraction"] == pytest.approx(active)
    assert shown["model_share_of_peak"] == pytest.approx(issue * fma * active, abs=2e-5)
    assert shown["share_of_peak"] == pytest.approx(by_ncu, rel=1e-3)
    assert shown["model_error"] == pytest.approx(0.0, abs=1e-4)
    assert shown["timed_model_error"] == pytest.approx(issue * fma * active - timed, abs=3e-5)


def test_sizes(tables: dict[str, Table]) -> None:
    table = tables["sizes"]
    timed = {(kernel, n): _timed(kernel, n) for kernel in LADDER for n in (1024, 2048, 4096)}
    for kernel in LADDER:
        for n in (1024, 2048, 4096):
            assert _shown(table, kernel)[f"n={n}"] == pytest.approx(timed[kernel, n]["flop_rate"], rel=1e-6)
    for index, n in enumerate((1024, 2048, 4096), start=1):
        cell = table.rows[-1][index]
        shares = [timed[kernel, n]["timed_share_of_peak"] for kernel in ("cublas", "k8")]
        assert cell.value == pytest.approx(shares[0], rel=1e-5)
        assert cell.text == f"{100 * shares[0]:.1f} % ({100 * shares[1]:.1f} %)"


def test_roofline(tables: dict[str, Table], launches: dict[str, Any]) -> None:
    clocks = []
    for kernel in LADDER:
        of, shown = _counter(launches[kernel]), _shown(tables["roofline"], kernel)
        moved = of("dram__bytes_read.sum") + of("dram__bytes_write.sum")
        work = sum(
            each * of(f"smsp__sass_thread_inst_executed_op_{kind}_pred_on.sum")
            for kind, each in (("ffma", 2), ("fadd", 1), ("fmul", 1))
        )
        assert shown["intensity"] == pytest.approx(work / moved)
        assert shown["rate"] == pytest.approx(1e9 * work / of("gpu__time_duration.sum"))
        clocks.append(of("smsp__cycles_elapsed.avg.per_second"))
    assert _shown(tables["roofline"], "FP32")["rate"] == pytest.approx(SMS * LANES * 2 * median(clocks))
    # NVIDIA's data sheet says 4.8 TB/s.
    assert _shown(tables["roofline"], "DRAM")["rate"] == pytest.approx(4.8e12, rel=0.005)
