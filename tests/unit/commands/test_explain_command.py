"""`perfkit explain` from texts to tables: which launches are meant, and what is printed of them."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from typer.testing import CliRunner

from perfkit.analysis.explain import explain, explain_alone
from perfkit.cli import app
from perfkit.commands import _explain_tables as tables
from perfkit.commands import _verify
from perfkit.commands._sides import Chosen, Sources, choose
from perfkit.commands._wall_clock import wall_clock
from perfkit.errors import ReportError, UsageError
from perfkit.model import Evaluated, GpuInfo, Intervention, KernelRun, MetricValue, RunRecord, Status
from perfkit.profiler.run_store import record_to_dict
from perfkit.reports import render
from tests.unit.analysis.launches import launch

GOLDEN = Path(__file__).parents[2] / "golden" / "explain"
DATA = Path(__file__).parents[2] / "data"
GPU = GpuInfo("GPU A", "GPU-1", (8, 9), 2)


def store_run(
    root: Path,
    sources: Sources,
    name: str,
    launches: list[Evaluated],
    *,
    what: str = "profile",
    registered: bool = True,
    results: tuple[dict[str, Any], ...] = (),
) -> Path:
    """A run folder; its report is one that `sources` has already read."""
    folder = root / name
    folder.mkdir(parents=True)
    kernels = tuple(
        KernelRun(
            key=one.launch.label.split("@")[0],
            label=one.launch.label,
            title="",
            problem=one.launch.problem,
            size=MappingProxyType({"n": 64}),
            flops=2.0 * int(one.launch.problem.partition("=")[2] or 0) ** 3,
            least_bytes=0.0,
        )
        for one in launches
    )
    record = RunRecord(
        id=name,
        what=what,
        status="complete",
        command=("perfkit", what),
        started="2026-01-01T00:00:00Z",
        ended="2026-01-01T00:00:01Z",
        perfkit_version="0",
        gpu=GPU,
        versions={},
        options={"cache_control": "all"},
        kernels=kernels if registered else (),
        reports=("p.ncu-rep",) if what == "profile" else (),
        results=results,
    )
    (folder / "run.json").write_text(json.dumps(record_to_dict(record)))
    if what == "profile":
        report = folder / "p.ncu-rep"
        report.write_bytes(b"")
        sources.read[report] = tuple(launches)
    return folder


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    monkeypatch.setenv("PERFKIT_RUNS", str(tmp_path))
    found = Sources()
    both = [launch(key, problem=problem) for problem in ("n=64", "n=128", "n=1024") for key in ("k6", "k7")]
    store_run(tmp_path, found, "20260101T000000.000Z_profile", [*both, launch("k8", problem="n=64")])
    return found


def test_the_largest_common_problem_is_compared_and_said(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = choose(sources, ["k6", "k7"])
    assert [(s.launches[0].launch.label, s.launches[0].launch.problem) for s in sides] == [
        ("k6", "n=1024"),
        ("k7", "n=1024"),
    ]
    assert "k6 and k7 at n=1024 (also profiled at n=128, n=64: choose with -n)" in capsys.readouterr().err
    assert sides[0].origin.work == 2.0 * 1024**3
    assert sides[0].origin.options["cache_control"] == "all"


def test_a_named_problem_is_taken(sources: Sources) -> None:
    assert choose(sources, ["k6", "k7"], "n=128")[1].launches[0].launch.problem == "n=128"
    with pytest.raises(UsageError, match=r"k8 was not profiled at n=128") as caught:
        choose(sources, ["k6", "k8"], "n=128")
    assert "n=64" in caught.value.remedy


def test_what_is_not_there_is_an_error_that_says_what_is(sources: Sources) -> None:
    with pytest.raises(UsageError, match="no kernel 'k9' in run latest") as caught:
        choose(sources, ["k9"])
    assert "k6, k7, k8" in caught.value.remedy
    with pytest.raises(UsageError, match="recorded is a run and no kernel") as caught:
        choose(sources, ["recorded"])
    assert "recorded:KERNEL" in caught.value.remedy
    with pytest.raises(ReportError, match=r"old\.ncu-rep does not exist"):
        choose(sources, ["old.ncu-rep:0"])


def test_a_launch_of_a_run_by_its_index(tmp_path: Path, sources: Sources) -> None:
    gemms = [launch("gemm", problem="", number=i, duration=1.0 + i) for i in range(2)]
    store_run(tmp_path, sources, "20260104T000000.000Z_profile", [*gemms], registered=False)
    first, second = choose(sources, ["0", "20260104:1"])
    assert [side.launches[0].number("duration") for side in (first, second)] == [1.0, 2.0]
    assert first.kernel is None
    with pytest.raises(UsageError, match="no kernel '2' in run latest"):
        choose(sources, ["2"])
    # Of a kernel that the run knows, its work is known too.
    (held,) = choose(sources, ["20260101:0"], "n=64")
    assert held.origin.work == 2.0 * 64**3


def test_both_sides_come_from_one_run_of_a_collection(tmp_path: Path, sources: Sources) -> None:
    store_run(tmp_path, sources, "20260102T000000.000Z_profile", [launch("k6"), launch("k6@1")])
    store_run(tmp_path, sources, "20260103T000000.000Z_profile", [launch("k6", duration=9.0)])
    texts = [f"{tmp_path}:k6", f"{tmp_path}:k6@1"]
    found = choose(sources, texts, "n=64")
    assert [s.record.id[:8] for s in found if s.record is not None] == ["20260102", "20260102"]


def test_of_several_runs_that_hold_both_sides_the_newest_counts(tmp_path: Path, sources: Sources) -> None:
    # Neither the order in which they were written nor that of their names in the folder decides.
    for day in ("04", "02", "03"):
        both = [launch("k6", duration=float(day)), launch("k7", duration=2 * float(day))]
        store_run(tmp_path, sources, f"202601{day}T000000.000Z_profile", both)
    store_run(tmp_path, sources, "20260105T000000.000Z_profile", [launch("k7", duration=9.0)])
    found = choose(sources, [f"{tmp_path}:k6", f"{tmp_path}:k7"], "n=64")
    assert [side.launches[0].number("duration") for side in found] == [4.0, 8.0]
    assert [side.record.id[:8] for side in found if side.record is not None] == ["20260104", "20260104"]


def test_sides_that_no_run_holds_together_are_each_of_its_newest_run(
    tmp_path: Path, sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in ("04", "02", "03"):
        store_run(tmp_path, sources, f"202601{day}T000000.000Z_profile", [launch("k9", duration=float(day))])
    found = choose(sources, [f"{tmp_path}:k8", f"{tmp_path}:k9"], "n=64")
    assert [side.record.id[:8] for side in found if side.record is not None] == ["20260101", "20260104"]
    assert found[1].launches[0].number("duration") == 4.0
    assert "of 3 runs that hold it, 20260104T000000.000Z_profile is used" in capsys.readouterr().err


def test_launches_of_a_report_by_index_name_and_all(tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"")
    found = Sources()
    same = [launch("gemm", problem="", number=i) for i in range(3)]
    found.read[path] = tuple(same)
    (whole,) = choose(found, [str(path)])
    assert len(whole.launches) == 3
    (one,) = choose(found, [f"{path}:1"])
    assert [held.launch.id.launch for held in one.launches] == [1]
    (named,) = choose(found, [f"{path}:gemm"])
    assert len(named.launches) == 3
    found.read[path] = (*same, launch("softmax", problem="", number=3))
    with pytest.raises(UsageError, match=r"means 2 kinds of launches .*: 0 \(gemm\), 1 \(gemm\)") as caught:
        choose(found, [str(path)])
    assert "made-up.ncu-rep:0" in caught.value.remedy
    with pytest.raises(UsageError, match="holds no launch 7"):
        choose(found, [f"{path}:7"])


def test_launches_of_other_grids_are_no_repetitions(tmp_path: Path, sources: Sources) -> None:
    launches = [launch("k9", grid=64), launch("k9", grid=128, number=1)]
    store_run(tmp_path, sources, "20260102T000000.000Z_profile", launches, registered=False)
    with pytest.raises(UsageError, match="k9 means 2 kinds of launches that are no repetitions"):
        choose(sources, ["k9"])


def test_kernels_of_one_library_call_are_taken_together(
    tmp_path: Path, sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    launches = [launch("cublas", duration=1e-3), launch("cublas", duration=2e-4, grid=8, number=1)]
    store_run(tmp_path, sources, "20260102T000000.000Z_profile", [*launches, launch("k8")])
    one, other = choose(sources, ["cublas", "k8"], "n=64")
    assert "2 kernels of one call taken together (cublas, cublas)" in capsys.readouterr().err
    result = explain(one.launches, other.launches)
    assert result.a.duration == pytest.approx(1.2e-3)
    assert result.residual == pytest.approx(0.0, abs=1e-12)


def bench_result(label: str, time: float, clock: float) -> dict[str, Any]:
    return {"kind": "bench", "label": label, "problem": "n=64", "time": time, "sm_clock": clock}


def test_event_timings_stand_beside_those_of_ncu(tmp_path: Path, sources: Sources) -> None:
    timed = (bench_result("k6", 1.0, 2e9), bench_result("k7", 0.8, 1.6e9))
    store_run(tmp_path, sources, "20260102T000000.000Z_bench", [], what="bench", results=timed)
    one, other = choose(sources, ["k6", "k7"], "n=64")
    held = wall_clock(one, other, None)
    assert held is not None
    assert (held.time_a, held.time_b, held.source) == (1.0, 0.8, "run 20260102T000000.000Z_bench")
    # In time 0.8, and the clock alone would have made 1.25.
    assert held.log_ratio == pytest.approx(-0.2231, abs=1e-4)
    assert held.clock_share == pytest.approx(0.2231, abs=1e-4)
    one, other = choose(sources, ["k6", "k7"], "n=128")
    assert wall_clock(one, other, None) is None
    with pytest.raises(UsageError, match="does not time both"):
        wall_clock(one, other, "20260102")


def test_hot_timings_are_not_mixed_with_cold_ones(tmp_path: Path, sources: Sources) -> None:
    hot = tuple(bench_result(label, time, 2e9) for label, time in (("k6", 1.0), ("k7", 0.8)))
    cold = tuple({**result, "cache": "cold", "time": 2 * result["time"]} for result in hot)
    store_run(tmp_path, sources, "1_bench", [], what="bench", results=hot)
    store_run(tmp_path, sources, "2_bench", [], what="bench", results=cold)
    one, other = choose(sources, ["k6", "k7"], "n=64")
    held = wall_clock(one, other, None)
    assert held is not None
    assert (held.time_a, held.time_b, held.source) == (1.0, 0.8, "run 1_bench")
    held = wall_clock(one, other, "2_bench")
    assert held is not None
    assert (held.time_a, held.time_b) == (2.0, 1.6)


def built(path: Path, source: str) -> Path:
    """The run again, with its kernels built from a source of that hash."""
    document = json.loads((path / "run.json").read_text())
    for kernel in document["kernels"]:
        kernel["build"] = {"source_hash": source, "flags": ["-O3"]}
    (path / "run.json").write_text(json.dumps(document))
    return path


def test_each_of_two_sources_has_its_own_event_timings(tmp_path: Path, sources: Sources) -> None:
    old, new = launch("k6", duration=1e-3), launch("k6", duration=0.8e-3)
    built(store_run(tmp_path, sources, "1_profile", [old]), "old")
    built(store_run(tmp_path, sources, "2_profile", [new]), "new")
    timed = (bench_result("k6", 1.0, 2e9),)
    built(store_run(tmp_path, sources, "3_bench", [old], what="bench", results=timed), "old")
    one, other = choose(sources, ["1_profile:k6", "2_profile:k6"], "n=64")
    # The new source was not timed, and the old one's timing says nothing of it.
    assert wall_clock(one, other, None) is None
    timed = (bench_result("k6", 0.75, 2e9),)
    built(store_run(tmp_path, sources, "4_bench", [new], what="bench", results=timed), "new")
    held = wall_clock(one, other, None)
    assert held is not None
    assert (held.time_a, held.time_b, held.source) == (1.0, 0.75, "run 3_bench and 4_bench")


def test_one_timing_is_no_evidence_for_two_profiles_of_one_source(tmp_path: Path, sources: Sources) -> None:
    for name in ("1_profile", "2_profile"):
        store_run(tmp_path, sources, name, [launch("k6")])
    timed = (bench_result("k6", 1.0, 2e9),)
    store_run(tmp_path, sources, "3_bench", [], what="bench", results=timed)
    one, other = choose(sources, ["1_profile:k6", "2_profile:k6"], "n=64")
    assert wall_clock(one, other, None) is None
    # And the two sides bear one label: they are called as the user called them.
    result = explain(one.launches, other.launches, origin_a=one.origin, origin_b=other.origin)
    assert (result.a.label, result.b.label) == ("1_profile:k6", "2_profile:k6")
    assert result.sentences[0].startswith("2_profile:k6 and 1_profile:k6 take the same time")


def test_interleaved_pairs_are_the_better_evidence(tmp_path: Path, sources: Sources) -> None:
    pairs = {
        "kind": "comparison",
        "a": "k7",
        "b": "k6",
        "problem": "n=64",
        "pairs": 60,
        "ratio": 1.01,
        "low": 1.008,
        "high": 1.012,
        "a_time": 1.0,
        "b_time": 1.01,
        "a_clock": 2e9,
        "b_clock": 2e9,
        "handicap": 0.0,
    }
    timed = (bench_result("k6", 1.0, 2e9), bench_result("k7", 0.8, 1.6e9), pairs)
    store_run(tmp_path, sources, "20260102T000000.000Z_bench", [], what="bench", results=timed)
    one, other = choose(sources, ["k6", "k7"], "n=64")
    held = wall_clock(one, other, None)
    assert held is not None
    # Asked for k6 -> k7, measured k7 -> k6: the ratio turns round.
    assert (held.pairs, held.time_a, held.time_b) == (60, 1.01, 1.0)
    assert held.log_ratio == pytest.approx(-math.log(1.01))
    assert (held.low, held.high) == pytest.approx((-math.log(1.012), -math.log(1.008)))
    # The two launches are alike under ncu; the pairs settle it.
    result = explain(one.launches, other.launches, wall_clock=held)
    assert result.verdict.kind == "faster"
    assert result.verdict.reason.startswith("60 interleaved pairs -1.0% (-1.2% to -0.8%); under ncu")


def pair() -> tuple[Evaluated, Evaluated]:
    a = launch(
        "k6b",
        issue_rate=0.62,
        warps=3.9,
        registers_per_thread=120.0,
        occupancy_limiter="registers",
        l2_hit_rate=0.9,
        l1_hit_rate=0.5,
    )
    b = launch(
        "k6",
        duration=1.5e-3,
        issue_rate=0.41,
        warps=2.0,
        blocks=1,
        registers_per_thread=130.0,
        occupancy_limiter="registers",
        stalls={"long_scoreboard": 2.5, "mio_throttle": 1.0, "barrier": 0.5, "wait": 0.5},
        l2_hit_rate=0.7,
        l1_hit_rate=0.5,
    )
    return a, b


@pytest.mark.parametrize("fmt", ["terminal", "markdown"])
def test_a_comparison_as_text(fmt: str) -> None:
    a, b = pair()
    text = render(tables.comparison_tables(explain([a], [b])), fmt, width=150)
    assert text == (GOLDEN / f"comparison.{fmt}.txt").read_text(encoding="utf-8")


def alone() -> Evaluated:
    one = pair()[0]
    metrics = {"share_of_peak": 0.3, "fma_share": 0.6}
    return Evaluated(
        one.launch, {**one.metrics, **{k: MetricValue(k, v, "fraction") for k, v in metrics.items()}}
    )


def test_a_peak_loss_as_text() -> None:
    text = render(tables.loss_tables(explain_alone([alone()])), "terminal", width=150)
    assert text == (GOLDEN / "peak_loss.terminal.txt").read_text(encoding="utf-8")


def test_the_json_holds_the_whole_tree() -> None:
    a, b = pair()
    document = json.loads(tables.as_json([explain([a], [b]), explain_alone([alone()])]))
    comparison, loss = document["results"]
    assert document["schema_version"] == 1
    assert (comparison["kind"], loss["kind"]) == ("comparison", "peak_loss")
    total = sum(factor["contribution"] for factor in comparison["factors"]) + comparison["residual"]
    assert total == pytest.approx(comparison["log_ratio"], abs=1e-9)
    issue = next(factor for factor in comparison["factors"] if factor["name"] == "issue_rate")
    assert {child["name"] for child in issue["children"]} == {"warps", "latency", "correction"}
    assert loss["share"] + sum(part["contribution"] for part in loss["losses"]) == pytest.approx(1.0)


def test_a_launch_is_not_compared_with_itself(sources: Sources) -> None:
    from perfkit.commands.explain import _compare

    one, other = choose(sources, ["k6", "k6"], "n=64")
    with pytest.raises(UsageError, match="k6 and k6 are the same launch"):
        _compare(one, other, None)


def test_everything_shows_what_the_table_puts_together() -> None:
    a, b = pair()
    result = explain([a], [b])
    few, all_ = (tables.comparison_tables(result, everything=flag)[0].rows for flag in (False, True))
    assert len(all_) > len(few)
    assert not any("others" in str(row[0].value) for row in all_)


def case(label: str, predicted: float, observed: float, simple: float = 2.0) -> Intervention:
    return Intervention(
        label, "n=64", 2, 1, predicted, simple, observed, predicted / observed - 1, 0.4, 0.4, ()
    )


def test_interventions_are_summed_up_with_the_misses() -> None:
    found = [case("k1@1", 1.0, 1.0), case("k2@1", 1.5, 2.0), case("k3@1", 1.26, 1.2), case("k4@1", 1.5, 1.5)]
    first, second = _verify.summary(found)
    assert first.startswith(
        "All: median error 2.5%, 3 of 4 within 10%; with 1-(1-r)^W: median error 50.0%, 1 of 4"
    )
    assert second.startswith("With an effect of more than 2%: median error 5.0%, 2 of 3 within 10%")


def chosen(one: Evaluated, **kernel: Any) -> Chosen:
    from perfkit.analysis.compare import Origin

    run = KernelRun(one.launch.label, one.launch.label, "", "n=64", {"n": 64}, 1.0, 1.0, **kernel)
    return Chosen(one.launch.label, (one,), Origin(), None, run)


def test_verify_needs_a_kernel_that_perfkit_can_launch_and_fewer_blocks() -> None:
    a, b = pair()
    result = explain([a], [b])
    bare = dataclasses.replace(chosen(a), kernel=None)
    with pytest.raises(UsageError, match="k6b is no kernel that perfkit can launch"):
        _verify.intervene(bare, chosen(b), result, registers=False)
    with pytest.raises(UsageError, match="nothing to intervene on: k6b has 2 blocks per SM and k6b 2"):
        _verify.intervene(chosen(a), chosen(a), result, registers=False)


def test_verify_in_every_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launches are those that a GPU made when the recorded kernels were held to one block."""
    held = DATA / "runs" / "held"
    done = {
        (one.launch.label, one.launch.problem): one for one in Sources().launches(held / "profile.ncu-rep")
    }
    monkeypatch.setattr(
        _verify, "_profile", lambda _: ("runs/1", [done["k6b", "n=4096"], done["k6b@1", "n=4096"]])
    )
    arguments = ["explain", "recorded:k6", "recorded:k6b", "-n", "4096", "--verify"]
    done_json = CliRunner().invoke(app, [*arguments, "--format", "json"])
    assert done_json.exit_code == 0, done_json.output
    (result,) = json.loads(done_json.stdout)["results"]
    case = result["verify"]["intervention"]
    assert (case["label"], case["blocks_before"], case["blocks_after"]) == ("k6b@1", 2, 1)
    assert case["observed"] == pytest.approx(1.4652, abs=5e-4)
    assert case["predicted"] / case["observed"] - 1 == pytest.approx(case["error"], abs=1e-12)
    share = math.log(case["observed"]) / abs(result["log_ratio"])
    assert result["verify"]["residency_share"] == pytest.approx(share)
    assert (result["verify"]["run"], result["verify"]["limit"]) == ("runs/1", None)
    text = CliRunner().invoke(app, arguments).stdout
    assert f"Residency alone makes {share:.0%} of the difference of k6 and k6b." in text


def test_only_a_comparison_has_something_to_verify() -> None:
    a, b = pair()
    (comparison,) = json.loads(tables.as_json([explain([a], [b])]))["results"]
    assert comparison["verify"] is None
    for arguments, said in (
        (["k6", "--verify"], "--verify needs two kernels"),
        (["k6", "k6b", "--registers"], "--registers is a part of --verify"),
    ):
        done = CliRunner().invoke(app, ["explain", *arguments])
        assert isinstance(done.exception, UsageError)
        assert done.exception.message.startswith(said)


def test_long_function_names_are_shortened_for_people_and_whole_for_machines() -> None:
    name = (
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize{}_stage3_warpsize2x4x1_ffma_aligna4_alignc4_execute"
    )
    sides = [
        dataclasses.replace(one, launch=dataclasses.replace(one.launch, key="", kernel=name.format(tile)))
        for one, tile in zip(pair(), ("128x128x8", "256x128x8"), strict=True)
    ]
    result = explain(sides[:1], sides[1:])
    assert "128x128x8" in result.a.label
    assert "256x128x8" in result.b.label
    assert max(len(result.a.label), len(result.b.label)) <= 50
    assert (result.a.kernel, result.b.kernel) == tuple(one.launch.kernel for one in sides)
    assert not any(name[:60] in said for said in result.sentences)


def test_slots_that_no_chip_with_two_cycle_fmas_needs_are_no_loss() -> None:
    """Were lanes to give back what slots seem to lose, slots could lose more than all ("106.9 % of peak")."""
    one = alone()
    share = MappingProxyType({**one.metrics, "share_of_peak": MetricValue("share_of_peak", 0.5, "fraction")})
    turing = dataclasses.replace(one.launch, compute_capability=(7, 5))
    loss = explain_alone([dataclasses.replace(one, launch=turing, metrics=share)])
    assert loss.fma_slots == 2
    assert all(factor.contribution >= 0 for factor in loss.losses)
    assert sum(factor.contribution for factor in loss.losses) == pytest.approx(0.5)
    assert loss.sentences[-1].startswith("An FMA fills its pipe for 2 slots here, so 50% of the slots would")
    assert not any("fills its pipe" in said for said in explain_alone([alone()]).sentences)


@pytest.mark.parametrize("name", ["issue_rate", "active_fraction", "fma_share", "share_of_peak"])
def test_a_share_made_of_what_cannot_be_is_not_split(name: str) -> None:
    one = alone()
    bad = MetricValue(name, 1.04, "fraction", Status.INVALID, "outside its possible range 0 to 1")
    with pytest.raises(UsageError, match=rf"{name.replace('_', ' ')} reads 104.0%: outside"):
        explain_alone([dataclasses.replace(one, metrics={**one.metrics, name: bad})])


def test_a_value_that_cannot_be_is_flagged_in_sentence_and_table() -> None:
    a, b = pair()
    rate = dataclasses.replace(b.metrics["issue_rate"], status=Status.INVALID)
    hits = dataclasses.replace(b.metrics["l2_hit_rate"], value=1.001, status=Status.INVALID)
    result = explain(
        [a], [dataclasses.replace(b, metrics={**b.metrics, "issue_rate": rate, "l2_hit_rate": hits})]
    )
    assert any("by counters that cannot be right" in said for said in result.sentences)
    text = render(tables.comparison_tables(result, everything=True), "terminal", width=150)
    assert next(line for line in text.splitlines() if line.startswith("issue rate")).count("!") >= 1
    assert next(line for line in text.splitlines() if "L2 hit rate" in line).count("!") >= 1


def test_time_that_contradicts_the_cycles_gives_no_verdict() -> None:
    a, b = pair()
    bad = dataclasses.replace(
        b.metrics["duration"], status=Status.INVALID, reason="contradicted: elapsed cycles"
    )
    result = explain([a], [dataclasses.replace(b, metrics={**b.metrics, "duration": bad})])
    assert explain([a], [b]).verdict.kind != "ambiguous"
    assert result.verdict.kind == "ambiguous"
    assert "duration contradicted: elapsed cycles" in result.verdict.reason


def test_what_can_be_off_is_printed_and_in_the_json() -> None:
    a, b = pair()
    result = explain([a], [b])
    checks = {check.name: check for check in result.checks}
    factor = next(f for f in result.factors if f.name == "issue_rate")
    k = next(child for child in factor.children if child.name == "correction")
    assert (checks["correction"].before, checks["correction"].after) == (k.before, k.after)
    assert checks["correction"].contribution == pytest.approx(k.contribution, abs=1e-12)
    assert checks["time"].contribution == pytest.approx(result.residual, abs=1e-12)
    document = json.loads(tables.as_json([result]))
    assert [one["name"] for one in document["results"][0]["checks"]] == ["correction", "time", "warp_states"]
