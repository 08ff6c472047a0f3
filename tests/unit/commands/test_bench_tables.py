"""The tables of bench and model at a fixed width."""

from __future__ import annotations

import dataclasses

from perfkit.commands import _bench_tables
from perfkit.commands._model_table import COLUMNS, peak_table, peak_tables
from perfkit.model import (
    BenchResult,
    GpuInfo,
    LaunchId,
    MetricValue,
    PairComparison,
    SelfTest,
    Status,
    Verification,
)
from perfkit.model.peak import Closure, PeakCheck, TimedShare
from perfkit.reports import render

GPU = GpuInfo("NVIDIA H200", "GPU-0", (9, 0), 132)
RESULT = BenchResult(
    key="k8", label="k8", title="double buffering", problem="n=4096", size={"n": 4096}, protocol="quick",
    cache="hot", time=2.96e-3, time_low=2.958e-3, time_high=2.962e-3, launches=340, kept=340,
    flops=2.0 * 4096**3, flop_rate=46.43e12, sm_clock=1.9758e9, sm_clock_source="cycle counter",
    share_of_peak=0.6955, power=640.0, energy_per_launch=1.8944,
    verification=Verification(True, "cuBLAS SGEMM", True, 0.0),
)  # fmt: skip


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_results() -> None:
    wrong = dataclasses.replace(
        RESULT, label="k9", time=None, time_low=None, time_high=None, launches=0,
        flop_rate=None, sm_clock=None, share_of_peak=None, power=None, energy_per_launch=None,
        stopped="not timed: verification failed",
        verification=Verification(False, "cuBLAS SGEMM", False, 3.0),
    )  # fmt: skip
    table = _bench_tables.results_table([RESULT, wrong], GPU)
    lines = _lines(render([table], "markdown"))
    assert lines[0] == "### bench: quick protocol, hot L2 on NVIDIA H200, 132 SMs"
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| k")]
    assert cells[1] == [
        "k8", "n=4096", "2.960", "0.07", "46.43", "1.976", "640", "1.894", "69.5", "340", "bit-equal",
    ]  # fmt: skip
    assert cells[2] == ["k9", "n=4096", *[""] * 7, "0", "WRONG"], "a wrong kernel shows a speed"


def test_cold_results_have_no_energy_and_the_rule_is_the_one_that_stopped_them() -> None:
    late = dataclasses.replace(RESULT, cache="cold", energy_per_launch=None, stopped="time limit of 4 s ...")
    table = _bench_tables.results_table([late], GPU)
    assert "energy_per_launch" not in [column.name for column in table.columns]
    assert len(table.rows[0]) == len(table.columns)
    assert table.notes[0] == "stopped by time, before the estimate was good: what is said to lack is below"
    assert not any("stopped when" in note for note in table.notes)
    both = _bench_tables.results_table([late, RESULT], GPU)
    assert "energy_per_launch" in [column.name for column in both.columns]


def test_verified_in_words() -> None:
    assert _bench_tables.verified(None) == "not verified"
    assert _bench_tables.verified(Verification(True, "r", False, 7.6e-5)) == "within 7.6e-05"


def test_comparison() -> None:
    found = PairComparison(
        "k6", "k7", "n=1024", "faster", "95 % interval ...", 60, 5, 0.97, 0.969, 0.971, 0.9702, 0.969, 0.972,
        0.005, 1.0e-4, 0.97e-4,
    )  # fmt: skip
    text = render([_bench_tables.comparisons_table([found])], "terminal", width=200)
    assert "0.9700" in text
    assert "faster" in text
    assert "the floor of 0.5%" in text


def test_self_test_counts_over_all_sizes() -> None:
    verdicts = {"faster": 1, "slower": 0, "same": 99, "ambiguous": 0}
    tests = [SelfTest("k6", f"n={n}", 100, 60, 0.0, verdicts, 1, 0.001, 1.006, 4.0) for n in (1024, 2048)]
    table = _bench_tables.self_tests_table(tests)
    assert table.notes == ("2 of 200 comparisons are false verdicts of faster or slower (1.0%)",)
    slowed = dataclasses.replace(tests[0], handicap=0.01, wrong=3)
    notes = _bench_tables.self_tests_table([slowed]).notes
    assert notes == ("3 of 100 comparisons are slow-downs missed (3.0%)",)


def _check(**changes: object) -> PeakCheck:
    def factor(name: str, value: float) -> MetricValue:
        return MetricValue(name, value, "fraction")

    factors = {
        "issue_rate": factor("issue_rate", 0.8164),
        "fma_share": factor("fma_share", 0.8932),
        "active_fraction": factor("active_fraction", 0.9701),
        "lane_factor": factor("lane_factor", 1.0),
        "lane_fraction": factor("lane_fraction", 1.0),
    }
    check = PeakCheck(
        LaunchId("/runs/a/profile.ncu-rep", 0, 8), "k8", "n=4096", "NVIDIA H200", factors, 0.7292, 0.7074,
        0.7074, None, None, Closure.CLOSES, "",
    )  # fmt: skip
    return dataclasses.replace(check, **changes)  # type: ignore[arg-type]  # fields by name


def test_model_leaves_out_what_no_row_has() -> None:
    table = peak_table([_check()])
    names = [column.name for column in table.columns]
    assert "lane_factor" not in names
    assert "work" not in names
    assert names[:4] == ["kernel", "problem", "launch", "verdict"]
    timed = peak_table([_check(timed=0.6799, work=0.7073)])
    row = dict(zip([c.name for c in timed.columns], timed.rows[0], strict=True))
    assert row["launch"].value == "8"
    assert row["two_factor_error"].value == 0.7292 - 0.7074
    assert row["timed_residual"].value == 0.7074 - 0.6799
    assert row["work_residual"].value == 0.7074 - 0.7073


def test_reports_of_the_same_name_are_told_apart() -> None:
    one = LaunchId("/runs/a/profile.ncu-rep", 0, 1)
    other = LaunchId("/runs/b/profile.ncu-rep", 0, 1)
    table = peak_table(
        [_check(launch=one), _check(launch=other), _check(launch=LaunchId("/x.ncu-rep", 1, 2))]
    )
    where = [row[2].value for row in table.rows]
    assert where == ["a/profile.ncu-rep:1", "b/profile.ncu-rep:1", "x.ncu-rep:1.2"]


def test_model_says_each_reason_once_over_many_launches() -> None:
    checks = [
        _check(launch=LaunchId("r.ncu-rep", 0, i), closure=Closure.UNKNOWN, reason="not collected")
        for i in range(20)
    ]
    assert peak_table(checks).notes == ("0, 1 and 18 more: not collected",)


def test_many_launches_without_a_share_are_a_line_a_report_and_none_is_lost() -> None:
    missing = {
        name: MetricValue(name, None, "fraction", Status.NOT_COLLECTED, f"not in the report: {name}")
        for name in ("issue_rate", "fma_share", "active_fraction", "lane_factor", "lane_fraction")
    }
    blank: dict[str, object] = {"two_factor": None, "full": None, "counted": None, "factors": missing}
    blank |= {"closure": Closure.UNKNOWN, "reason": "missing: issue rate (the notes name the counters)"}
    lost = [_check(launch=LaunchId("a.ncu-rep", 0, i), **blank) for i in (0, 1, 2, 5)]
    lost += [_check(launch=LaunchId("b.ncu-rep", 1, i), kernel=f"k{i}", **blank) for i in range(9)]
    checks = [*lost, _check()]
    told, untold = peak_tables(checks)
    assert len(told.rows) == 1
    assert [[cell.value for cell in row] for row in untold.rows] == [
        ["a.ncu-rep", "0-2, 5", 4, "cannot tell", "k8"],
        ["b.ncu-rep", "1.0-1.8", 9, "cannot tell", "k0, k1 and 7 more"],
    ]
    assert untold.rows[0][3].note == "missing: issue rate"
    assert untold.notes[0] == "issue rate: not in the report: issue_rate"
    (whole,) = peak_tables(checks, fold=False)
    assert len(whole.rows) == 14
    assert [column.name for column in whole.columns] == [column.name for column in COLUMNS]
    assert "point" not in render([whole], "csv").splitlines()[0]
    assert [row[2].value for row in whole.rows][3:5] == ["a.ncu-rep:5", "b.ncu-rep:1.0"]
    assert len(peak_tables(checks[10:])) == 1, "a few stay in the table"


def test_the_caches_of_a_timing_are_said_once_a_kind() -> None:
    cold, hot = (TimedShare(0.7, cache, "cold", "run") for cache in ("cold", "hot"))
    checks = [
        _check(kernel="k1", timed=0.7074, timing=cold),
        _check(kernel="k2", timed=0.7, timing=hot),
        _check(kernel="k3", timed=0.6, timing=hot),
        _check(kernel="k4", timed=0.65, timing=hot, problem="n=1024"),
    ]
    table = peak_table(checks)
    index = [column.name for column in table.columns].index("timed_cache")
    assert [row[index].value for row in table.rows] == ["cold", "hot", "hot", "hot"]
    assert table.notes[0] == "timed cold (1 launches): caches flushed before each launch, as under ncu"
    assert table.notes[1].startswith("timed hot (3 launches): launches back to back, where ncu flushed them")
    assert len(table.notes) == 2, "which launches are off is said in their own reasons"
    (alone,) = (peak_table(checks[:1]).notes,)
    assert alone == ("timed cold: caches flushed before each launch, as under ncu",)
