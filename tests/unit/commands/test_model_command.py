"""`perfkit model` from its arguments on: what it reads, what it refuses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perfkit.cli import app
from perfkit.commands import model
from perfkit.errors import CheckFailedError, UsageError
from perfkit.model import GpuInfo, LaunchId, RunRecord
from perfkit.model.peak import Closure, PeakCheck
from perfkit.profiler.run_store import RunStore, recorded_root

GPU = GpuInfo("NVIDIA H200", "GPU-0", (9, 0), 132)


def _store(root: Path, what: str, gpu: GpuInfo = GPU, status: str = "complete", reports: int = 1) -> Path:
    folder = RunStore(root).create(what)
    names = tuple(f"{i}.ncu-rep" for i in range(reports if what == "profile" else 0))
    for name in names:
        (folder.path / name).write_bytes(b"")
    folder.finish(
        RunRecord(folder.id, what, status, (), "2026-01-01", "", "0.1", gpu, {}, {}, (), reports=names)
    )
    return folder.path


def test_a_run_brings_its_reports_and_the_timings_beside_it(tmp_path: Path) -> None:
    profile = _store(tmp_path, "profile", reports=2)
    bench = _store(tmp_path, "bench")
    _store(tmp_path, "bench", dataclasses.replace(GPU, uuid="GPU-other"))
    _store(tmp_path, "bench", status="failed")
    records, paths = model.find_inputs([str(profile)])
    assert paths == [profile / "0.ncu-rep", profile / "1.ncu-rep"]
    assert [record.id for record in records] == [profile.name, bench.name]


def test_a_bench_run_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    profile, bench = _store(tmp_path, "profile"), _store(tmp_path, "bench")
    _store(tmp_path, "bench")
    records, _ = model.find_inputs([str(profile), str(bench)])
    assert [record.id for record in records] == [profile.name, bench.name]


def test_a_bench_run_alone_has_no_counters(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no report"):
        model.find_inputs([str(_store(tmp_path, "bench"))])


def test_no_run_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFKIT_RUNS", str(tmp_path))
    with pytest.raises(UsageError, match="no complete profile run"):
        model.find_inputs([])


def test_a_regex_that_is_none() -> None:
    with pytest.raises(UsageError, match="regular expression"):
        model._pattern("(")


@pytest.mark.skipif(not recorded_root().is_dir(), reason="this checkout has no recorded run")
def test_a_regex_that_fits_nothing_names_what_is_there() -> None:
    with pytest.raises(UsageError, match="'k9' fits none of the 30 launches") as caught:
        model.model(["recorded"], strict=False, kernel="k9", jobs=1, output_format="csv", output=None)
    assert caught.value.remedy == "Kernels: k1, k2, k3, k4, k5, k6, k6b, k7, k8, cublas."


def test_strict_names_what_does_not_close() -> None:
    check = PeakCheck(LaunchId("r", 0, 3), "k5", "", "", {}, 0.5, 0.5, 0.4, None, None, Closure.OPEN, "why")
    model._fail_on_open([dataclasses.replace(check, closure=Closure.NEARLY)])
    with pytest.raises(CheckFailedError, match=r"k5 \(r:3\)"):
        model._fail_on_open([check])


@pytest.mark.skipif(not recorded_root().is_dir(), reason="this checkout has no recorded run")
def test_the_recorded_ladder_closes(capsys: pytest.CaptureFixture[str]) -> None:
    """All but cuBLAS at 1024, 2.33 points off its event timing: more than its launches scatter."""
    with pytest.raises(CheckFailedError, match=r"does not close: cublas \(.*profile.ncu-rep:9\)$"):
        model.model(["recorded"], strict=True, kernel="", jobs=1, output_format="csv", output=None)
    shown = capsys.readouterr()
    assert shown.out.count("does not close") == 1
    assert shown.out.count("closes") == 29
    model.model(["recorded"], strict=True, kernel="^k", jobs=1, output_format="csv", output=None)


@pytest.mark.skipif(not recorded_root().is_dir(), reason="this checkout has no recorded run")
def test_a_bare_report_closes_by_ncu_only(capsys: pytest.CaptureFixture[str]) -> None:
    (report,) = recorded_root().glob("*_profile/*.ncu-rep")
    model.model([str(report)], strict=True, kernel="^k8$", jobs=1, output_format="json", output=None)
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert {row["verdict"]["value"] for row in table["rows"]} == {"closes by ncu only"}


def test_only_the_sizes_asked_for() -> None:
    arguments = ["model", "recorded", "--kernel", "^k8$", "--format", "json"]
    done = CliRunner().invoke(app, [*arguments, "-n", "4096", "-n", "1024"])
    (table,) = json.loads(done.stdout)["tables"]
    assert [row["problem"]["value"] for row in table["rows"]] == ["n=1024", "n=4096"]
    refused = CliRunner().invoke(app, [*arguments, "-n", "4096", "-n", "5"]).exception
    assert isinstance(refused, UsageError)
    assert refused.message == "no launch was profiled at n=5"
    assert refused.remedy == "Problems: n=1024, n=2048, n=4096."
