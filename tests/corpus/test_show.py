"""`perfkit show` on the field reports: a table or a clear error for each, in every format."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import perfkit
from perfkit.analysis.metrics import load_metric_sets
from perfkit.commands.show import show

if TYPE_CHECKING:
    from .conftest import Corpus


def run(*arguments: str | Path, width: int = 120) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": str(width), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "perfkit", "show", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_every_report_gives_tables(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process: a Python start for each of 36 files would cost half a minute."""
    for path in corpus.files():
        show([str(path)])
        out, err = capsys.readouterr()
        assert out.startswith("Launches")
        launches = int(corpus.index[path.name]["launches"])
        assert f"{launches} launch{'es' if launches > 1 else ''} in 1 report" in err
        for name in {one.kernel for one in perfkit.load(path, sets=["duration"]).launches}:
            assert name[:12] in out, (path.name, name)


def test_the_whole_folder_as_json(corpus: Corpus, tmp_path: Path) -> None:
    target = tmp_path / "all.json"
    done = run(corpus.folder, "--format", "json", "-o", target, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert "147 launches in 36 reports" in done.stderr
    assert "4 not collected: " in done.stderr
    document = json.loads(target.read_text(), parse_constant=lambda name: pytest.fail(name))
    names = set(load_metric_sets().names())
    assert len(document["launches"]) == 147
    assert sum(one["launches_read"] for one in document["reports"]) == 147
    for launch in document["launches"]:
        assert set(launch["metrics"]) == names
        for metric in launch["metrics"].values():
            assert {"value", "unit", "status"} <= set(metric)
            assert (metric["value"] is None) == (metric["status"] not in ("ok", "invalid"))
    assert len({(one["report"], one["range"], one["launch"]) for one in document["launches"]}) == 147


def test_formats_agree(corpus: Corpus, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = corpus.find("cc89_rtx-4090_a6f4af")
    table = pandas.read_csv(io.StringIO(run(path, "--format", "csv").stdout))
    frame = perfkit.load(path).frame()
    assert list(table.columns) == list(frame.columns)
    both = table.merge(frame, on=["report", "range", "launch", "metric"], suffixes=("_csv", ""))
    assert len(both) == len(frame) == len(table)
    pandas.testing.assert_series_equal(both["value_csv"], both["value"], check_names=False, check_exact=True)
    for fmt in ("markdown", "latex", "html"):
        done = run(path, "--format", fmt, "--set", "memory")
        assert done.returncode == 0
        assert "DRAM bytes read" in done.stdout
    pytest.importorskip("pyarrow")
    target = tmp_path / "a.parquet"
    assert run(path, "--format", "parquet", "-o", target).returncode == 0
    assert pandas.read_parquet(target)["value"].equals(frame["value"])


def test_filters_and_their_account(corpus: Corpus) -> None:
    path = corpus.find("cc86_rtx-3070_8399c7")
    done = run(path, "--nvtx", "daxpy", "--set", "launch")
    assert "daxpy_kernel" in done.stdout
    assert "init_data_kernel" not in done.stdout
    assert "3 launches in 1 report; 1 shown" in done.stderr
    done = run(path, "--kernel", "gemm")
    assert done.returncode == 2
    assert "no launch matches --kernel 'gemm'" in done.stderr
    assert "init_data_kernel (1)" in done.stderr


def test_one_bad_file_among_good_ones(corpus: Corpus, tmp_path: Path) -> None:
    bad = tmp_path / "bad.ncu-rep"
    bad.write_bytes(b"")
    good = corpus.find("cc86_rtx-3070_8399c7")
    done = run(bad, good, "--set", "launch")
    assert done.returncode == 2
    assert "daxpy_kernel" in done.stdout
    assert f"perfkit: error: {bad}: is empty (0 bytes)" in done.stderr
    assert "3 launches in 1 report" in done.stderr
    assert run(tmp_path / "no.ncu-rep").returncode == 2
    assert run("no-such-run").returncode == 2


def test_a_truncated_file_shows_what_is_left(corpus: Corpus, tmp_path: Path) -> None:
    cut = tmp_path / "cut.nsight-cuprof-report"
    cut.write_bytes(corpus.find("cc75_rtx-2070_14efcd").read_bytes()[:-100])
    done = run(cut, "--set", "launch")
    assert done.returncode == 0
    assert "7 launches in 1 report; at least 1 lost" in done.stderr
    assert f"warning: {cut}: is truncated" in done.stderr
    strict = run(cut, "--set", "registers_per_thread", "--strict")
    assert strict.returncode == 1
    assert "--strict: 1 lost" in strict.stderr


def test_strict_fails_on_a_missing_value(corpus: Corpus) -> None:
    path = corpus.find("cc86_rtx-3070_8399c7")
    assert run(path, "--set", "registers_per_thread", "--strict").returncode == 0
    done = run(path, "--set", "memory", "--strict")
    assert done.returncode == 1
    assert "sectors_per_load" in done.stderr
    assert "ncu --metrics" in done.stderr


def test_aggregates_name_what_they_left_out(corpus: Corpus) -> None:
    path = corpus.find("cc120_rtx-5060-ti_bf1d76")
    done = run(path, "--aggregate", "median", "--by", "kernel,block", "--set", "launch")
    assert done.returncode == 0
    rows = [
        line.split()
        for line in done.stdout.splitlines()
        if line.startswith("transposeMatrixOccupancyOptimized")
    ]
    assert [row[-2:] for row in rows[:5]] == [["11", "0"]] * 4 + [["0", "1"]]


def test_raw_counters_of_a_report(corpus: Corpus) -> None:
    path = corpus.find("cc75_gtx-1660-super_164f98")
    done = run(path, "--raw", "^gpu__time_duration", "--format", "csv")
    assert done.returncode == 0
    assert "gpu__time_duration.sum" in done.stdout


def test_a_set_of_ones_own(corpus: Corpus, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'title = "Own"\ndoc = "D."\n[metrics.threads]\n'
        'title = "Threads in all"\nunit = "thread"\ndoc = "D."\n'
        'formula = "{launch__block_size} * {launch__grid_size}"\n'
    )
    done = run(corpus.find("cc75_rtx-2070_14efcd"), "--set", own, "--launch", "0")
    assert done.returncode == 0, done.stderr
    assert "Threads in all" in done.stdout
    assert "204,800" in done.stdout
    own.write_text(own.read_text().replace("{launch__block_size} *", "blok_size *"))
    done = run(corpus.find("cc75_rtx-2070_14efcd"), "--set", own)
    assert done.returncode == 2
    assert "did you mean block_size" in done.stderr


def test_load_in_python(corpus: Corpus) -> None:
    profile = perfkit.load(
        [corpus.find("cc75_gtx-1660-super_7bc2a7"), corpus.find("cc75_gtx-1660-super_957240")]
    )
    assert len(profile) == 4
    assert repr(profile) == (
        "Profile(4 launches of naive_gemm, sgemm_global_mem_coalesce; 2 reports, 0 problems)"
    )
    assert profile.metrics("memory").shape == (4, 3 + len(profile.sets.sets["memory"].metrics))
    assert profile.select(kernel="naive").launches == profile.launches[:2]
    assert "<table" in profile._repr_html_()
    with pytest.raises(perfkit.errors.UsageError, match="not loaded"):
        perfkit.load(corpus.find("cc75_gtx-1660-super_7bc2a7"), sets=["memory"]).metrics("issue")
