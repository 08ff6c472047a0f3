"""Independent readings of one fact: silent where they agree, and what rests on the wrong one is invalid."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.consistency import RELATIONS, describe
from perfkit.analysis.explain import explain_alone
from perfkit.analysis.facts import facts_of
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.peak_model import check_launches
from perfkit.analysis.report import read_report
from perfkit.errors import UsageError
from perfkit.model import Counter, Evaluated, Launch, LaunchId, Status
from perfkit.model.peak import Closure
from perfkit.profiler.run_store import recorded_root

SETS = load_metric_sets()
OPCODES = "sass__inst_executed_per_opcode"
DATA = Path(__file__).parents[2] / "data"
CASES = DATA / "cases"  # made up, some cut: tested one by one
REAL = [path for path in sorted(DATA.rglob("*.ncu-rep*")) if not path.is_relative_to(CASES)]


def evaluate(counters: Mapping[str, Any], chip: tuple[int, int] = (9, 0)) -> Evaluated:
    held = {}
    for name, value in counters.items():
        instances = tuple(value.items()) if isinstance(value, dict) else ()
        total = sum(value.values()) if isinstance(value, dict) else value
        held[name] = Counter(name, total, "", instances=instances)
    return SETS.evaluate(
        Launch(LaunchId("r", 0, 0), "k", "k()", "GPU", chip, "", (2, 1, 1), (64, 1, 1), True, counters=held)
    )


# 100 FMAs of full warps among 200 instructions of 4 warps; every relation that these counters allow holds.
RIGHT: dict[str, Any] = {
    OPCODES: {"FFMA": 100.0, "LDS": 20.0, "LDG": 10.0, "STG": 4.0, "IADD3": 62.0, "EXIT": 4.0},
    "smsp__inst_executed.sum": 200.0,
    "smsp__inst_issued.sum": 201.0,
    "smsp__issue_active.sum": 201.0,
    "smsp__cycles_active.sum": 400.0,
    "smsp__cycles_active.avg": 100.0,
    "smsp__cycles_elapsed.sum": 500.0,
    "smsp__cycles_elapsed.avg": 1e6,
    "smsp__cycles_elapsed.avg.per_second": 1e9,
    "gpu__time_duration.sum": 1e-3,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 3200.0,
    "smsp__inst_executed_op_shared_ld.sum": 20.0,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 10.0,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 160.0,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": 160.0,
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 4.0,
    "launch__grid_size": 2,
    "launch__block_size": 64,
    "lts__t_sectors.sum": 300.0,
    "lts__t_sectors_lookup_hit.sum": 200.0,
    "sm__warps_active.avg.per_cycle_active": 30.0,
    "sm__maximum_warps_avg_per_active_cycle": 32.0,
}
OFF = {"FFMA": 0.4, "HFMA2": 99.6, "LDS": 20.0, "LDG": 10.0, "STG": 4.0, "IADD3": 62.0, "EXIT": 4.0}


def test_readings_that_agree_are_silent() -> None:
    assert evaluate(RIGHT).contradictions == ()


def test_matrix_loads_have_a_counter_of_their_own() -> None:
    # On an H200 a kernel of 131,072 LDSM and no LDS counts 0 shared loads by the hardware.
    opcodes = {**RIGHT[OPCODES], "LDS": 0.0, "LDSM": 20.0}
    counted = {"smsp__inst_executed_op_shared_ld.sum": 0.0, "smsp__inst_executed_op_ldsm.sum": 20.0}
    assert evaluate({**RIGHT, OPCODES: opcodes, **counted}).contradictions == ()


@pytest.mark.parametrize(
    ("what", "change", "invalid"),
    [
        ("FFMA instructions", {OPCODES: OFF}, "mix_fp32"),
        (
            "instructions executed",
            {"smsp__inst_executed.sum": 205.0, "smsp__inst_issued.sum": 206.0},
            "mix_fp32",
        ),
        ("exits of warps", {"launch__grid_size": 3}, "mix_control"),
        (
            "global load instructions",
            {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 11.0},
            "mix_global",
        ),
        ("shared load instructions", {"smsp__inst_executed_op_shared_ld.sum": 21.0}, "mix_shared"),
        ("shared load instructions", {"smsp__inst_executed_op_shared_ld.sum": 19.0}, "mix_shared"),
        ("instructions", {"smsp__inst_issued.sum": 190.0, "smsp__issue_active.sum": 190.0}, "issue_rate"),
        ("instructions issued", {"smsp__inst_issued.sum": 240.0}, "issue_rate"),
        ("cycles of the SM sub-partitions", {"smsp__cycles_active.avg": 2e6}, "active_fraction"),
        ("elapsed cycles", {"gpu__time_duration.sum": 2e-3}, "duration"),
        ("warps active on an SM", {"sm__warps_active.avg.per_cycle_active": 36.0}, ""),
        ("L2 sectors", {"lts__t_sectors_lookup_hit.sum": 340.0}, "l2_hit_rate"),
        (
            "L1 sectors of global loads",
            {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": 170.0},
            "",
        ),
        (
            "sectors of global loads",
            {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 400.0},
            "sectors_per_load",
        ),
    ],
)
def test_a_reading_that_contradicts_another_counts_no_more(
    what: str, change: dict[str, Any], invalid: str
) -> None:
    found = evaluate({**RIGHT, **change})
    assert what in [one.what for one in found.contradictions]
    one = next(one for one in found.contradictions if one.what == what)
    (_, left), (_, right) = one.readings
    assert abs(left / right - 1) > one.tolerance
    if invalid:
        value = found.metrics[invalid]
        assert value.status is Status.INVALID
        assert value.value is not None, "kept, and flagged"
        assert describe(one) in value.reason
        assert any(invalid in other.metrics for other in found.contradictions)


def test_other_counters_answer_where_they_can() -> None:
    found = evaluate({**RIGHT, OPCODES: OFF})
    assert found.metrics["fma_share"].value == 0.5
    assert found.metrics["fma_share"].status is Status.OK
    assert "not by FFMA instructions: 100 threads / 32" in found.metrics["fma_share"].reason
    assert found.metrics["share_of_peak"].status is Status.OK, "99.6 HFMA2 are no half-precision work here"
    assert facts_of(found).by_opcode is False
    assert found.launch.counters[OPCODES].status is Status.INVALID


def test_the_tolerance_is_that_of_replay_and_wider_for_a_short_launch() -> None:
    time = next(one for one in RELATIONS if one.what == "elapsed cycles")
    assert time.allowed(1e12) == pytest.approx(0.10)
    assert time.allowed(5000) == pytest.approx(0.30)
    assert evaluate({**RIGHT, "gpu__time_duration.sum": 1.09e-3}).contradictions == ()
    assert evaluate({**RIGHT, "gpu__time_duration.sum": 1.12e-3}).contradictions
    short = {"smsp__cycles_elapsed.avg": 5e3, "gpu__time_duration.sum": 5e-6 * 1.12}
    assert evaluate({**RIGHT, **short}).contradictions == ()


def test_what_is_no_necessity_is_no_contradiction() -> None:
    predicated = {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 100.0}
    nothing_on = {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 0.0}
    for change in (predicated, nothing_on):
        reads = {name: value for name, value in RIGHT.items() if "t_sectors_pipe_lsu" not in name}
        assert evaluate({**reads, **change}).contradictions == ()
    assert (
        evaluate({**RIGHT, "smsp__inst_issued.sum": 210.0, "smsp__issue_active.sum": 210.0}).contradictions
        == ()
    )


@pytest.mark.parametrize("path", REAL + sorted(recorded_root().rglob("*.ncu-rep")))
def test_healthy_reports_of_this_repository_are_silent(path: Path) -> None:
    for launch in read_report(path, SETS.reading()).launches:
        found = SETS.evaluate(launch).contradictions
        assert [describe(one) for one in found if not one.likely] == []


@pytest.mark.skipif(not recorded_root().is_dir(), reason="this checkout has no recorded run")
@pytest.mark.parametrize(("kernel", "other"), [("sgemm_k5", "sgemm_k6"), ("sgemm_k8", "sgemm_k7")])
def test_the_listing_of_another_build_is_found_out(tmp_path: Path, kernel: str, other: str) -> None:
    """A listing laid over another kernel's addresses adds up to the launch's instructions all the same."""
    (report,) = recorded_root().glob("*_profile/profile.ncu-rep")
    stored = json.loads(report.with_suffix(".sass.json").read_text(encoding="utf-8"))
    opcodes = {entry["kernel"]: entry["opcodes"] for entry in stored["kernels"]}
    for entry in stored["kernels"]:
        if entry["kernel"] == kernel.removeprefix("sgemm_"):
            entry["opcodes"] = opcodes[other.removeprefix("sgemm_")]
    copy = tmp_path / report.name
    shutil.copy(report, copy)
    copy.with_suffix(".sass.json").write_text(json.dumps(stored), encoding="utf-8")
    right = {one.id.launch: SETS.evaluate(one) for one in read_report(report, SETS.reading()).launches}
    seen = 0
    for launch in read_report(copy, SETS.reading()).launches:
        if launch.label != kernel.removeprefix("sgemm_"):
            continue
        found, healthy = SETS.evaluate(launch), right[launch.id.launch]
        assert OPCODES in launch.counters
        assert found.contradictions
        assert found.metrics["mix_fp32"].status is Status.INVALID
        for name in ("share_of_peak", "fma_share", "model_share_of_peak", "sectors_per_load"):
            assert found.number(name) == pytest.approx(healthy.number(name), rel=1e-12)
            assert found.metrics[name].status is Status.OK
        assert not found.number("fma_lane_fraction") > 1 or (
            found.metrics["fma_lane_fraction"].status is Status.INVALID
        )
        told = explain_alone([found])
        assert not any("half-precision" in said for said in told.sentences)
        assert any("contradict one another" in said for said in told.warnings)
        seen += 1
    assert seen == 3


def test_every_relation_names_counters_that_it_doubts() -> None:
    from fnmatch import fnmatchcase

    for relation in RELATIONS:
        used = {
            name
            for reading in (relation.one, relation.other)
            for expression in reading.expressions
            for name in expression.counters
        }
        assert any(fnmatchcase(name, pattern) for name in used for pattern in relation.doubtful), (
            relation.what
        )


def test_a_contradiction_is_found_again_on_what_was_evaluated() -> None:
    found = evaluate({**RIGHT, OPCODES: OFF})
    again = SETS.evaluate(found.launch)
    assert [one.what for one in again.contradictions] == [one.what for one in found.contradictions]
    assert dataclasses.replace(found.launch) == found.launch


# As RIGHT, but a warp waits at an mbarrier: the pass that counted by opcode looked 62 times, the other 262.
LOOK = "SYNCS.PHASECHK.TRANS64.TRYWAIT"
POLLING: dict[str, Any] = {
    **RIGHT,
    OPCODES: {"FFMA": 100.0, "LDS": 20.0, "LDG": 10.0, "STG": 4.0, "SYNCS": 62.0, "EXIT": 4.0},
    f"{OPCODES}_with_modifier_all": {"FFMA": 100.0, "LDG.E": 10.0, "STG.E": 4.0, LOOK: 62.0, "EXIT": 4.0},
    "smsp__inst_executed.sum": 400.0,
    "smsp__inst_issued.sum": 401.0,
    "smsp__issue_active.sum": 401.0,
    "smsp__cycles_active.sum": 800.0,
    "smsp__cycles_elapsed.sum": 1000.0,
}


def test_shares_of_one_pass_stand_where_a_kernel_polls() -> None:
    found = evaluate(POLLING)
    (one,) = found.contradictions
    assert one.what == "instructions executed"
    assert one.likely == f"likely the kernel polls ({LOOK}), so that no two passes execute the same"
    barrier, fmas = found.metrics["mix_barrier"], found.metrics["fma_share"]
    assert (barrier.number, barrier.status) == (0.31, Status.OK)
    assert "of the pass that counted by opcode alone: instructions executed: 200" in barrier.reason
    assert (fmas.value, fmas.status) == (0.5, Status.OK), "100 of 200 in one pass, not of 400 in another"
    assert found.metrics["issue_rate"].status is Status.OK
    for name in ("instructions", "model_share_of_peak"):  # over two passes
        assert found.metrics[name].status is Status.INVALID
        assert (
            "200 opcodes added up, 400 by the hardware (likely the kernel polls" in found.metrics[name].reason
        )
    assert set(one.metrics) >= {"instructions", "model_share_of_peak"}
    assert not any(name.startswith("mix_") for name in one.metrics)


def test_facts_of_a_kernel_that_polls_are_of_one_pass() -> None:
    facts = facts_of(evaluate(POLLING))
    assert facts.by_opcode
    assert "instructions" in facts.invalid
    assert sum(facts.classes.values()) == 200.0, "what another pass looked more is no class"


def test_without_polling_nothing_is_likely() -> None:
    plain = {name: value for name, value in POLLING.items() if not name.endswith("modifier_all")}
    plain[OPCODES] = {**RIGHT[OPCODES]}
    (one,) = evaluate(plain).contradictions
    assert one.likely == ""
    assert "mix_fp32" in one.metrics


def test_no_share_and_no_closing_from_instructions_of_two_passes() -> None:
    found = evaluate(POLLING)
    with pytest.raises(UsageError, match="since instructions reads 400: contradicted"):
        explain_alone([found])
    (check,) = check_launches([evaluate({**POLLING}).launch], SETS)
    assert check.closure in (Closure.OPEN, Closure.UNKNOWN)
    assert "instructions executed: 200 opcodes added up" in check.reason


FIELD = DATA / "runs" / "field_kernels"


@pytest.mark.parametrize(("kernel", "opcodes", "hardware"), [("load_bulk", 1_391_146, 2_927_069)])
def test_bulk_copies_recorded_on_an_h200(kernel: str, opcodes: int, hardware: int) -> None:
    launches = read_report(FIELD / "kernels" / "profile.ncu-rep", SETS.reading()).launches
    found = SETS.evaluate(next(one for one in launches if one.label == kernel))
    (one,) = found.contradictions
    assert [value for _, value in one.readings] == [opcodes, hardware]
    assert LOOK in one.likely
    assert {name for name, value in found.metrics.items() if value.status is Status.INVALID} == {
        "instructions",
        "model_share_of_peak",
    }
    assert found.number("mix_shared") == pytest.approx(131_072 / opcodes)
