"""`perfkit article`, `roofline` and `report` from the command line: files, exit codes, messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from perfkit.profiler.run_store import recorded_root, runs_under

pytestmark = pytest.mark.skipif(not runs_under(recorded_root()), reason="no recorded run in this checkout")


def _perfkit(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120", "PYTHONWARNINGS": "error::UserWarning"}
    command = [sys.executable, "-m", "perfkit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


def test_article_writes_every_table_and_figure_in_every_format(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = _perfkit("article", "recorded", "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    tables = ("climb", "counters", "model", "sizes", "roofline")
    expected = {f"{name}.{suffix}" for name in tables for suffix in ("md", "csv", "tex", "html")}
    expected |= {f"{name}.{suffix}" for name in ("climb", "roofline") for suffix in ("svg", "png")}
    assert {path.name for path in out.iterdir()} == expected | {"provenance.json"}
    climb = pd.read_csv(out / "climb.csv")
    first, *_, last = climb["kernel"]
    assert (first, last) == ("k1", "cublas")
    work = climb["flop_rate [FLOP/s]"] * climb["time [s]"]
    assert list(work) == pytest.approx([2 * 4096**3] * len(climb))
    document = json.loads((out / "provenance.json").read_text())
    entry = document["tables"]["counters"]["k6"]["shared_load_conflicts"]
    assert entry["value"] == pytest.approx(268_435_456, abs=100_000)
    assert entry["file"].endswith(".ncu-rep")
    assert len(entry["sha256"]) == 64
    assert next(iter(entry["counters"])).startswith("l1tex__data_bank_conflicts")


def test_a_cell_of_every_table_can_be_traced() -> None:
    for cell in (
        "climb:k8:speedup",
        "counters:k1:sectors_per_load",
        "model:k8:model_error",
        "sizes:k1:n=1024",
        "roofline:k8:intensity",
        "roofline:FP32:rate",
    ):
        done = _perfkit("article", "recorded", "--trace", cell)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(cell)
        assert "sha256" in done.stdout


def test_every_number_in_the_five_tables_has_its_provenance(tmp_path: Path) -> None:
    """Down to files: a derived value names what it came from, until a hash is reached."""
    assert _perfkit("article", "recorded", "-o", str(tmp_path)).returncode == 0
    document = json.loads((tmp_path / "provenance.json").read_text())
    measured = document["measurements"]

    def grounded(entry: dict[str, Any]) -> bool:
        inputs = entry.get("inputs", [])
        return all(grounded(measured[name]) for name in inputs) if inputs else len(entry["sha256"]) == 64

    for name in ("climb", "counters", "model", "sizes", "roofline"):
        table = pd.read_csv(tmp_path / f"{name}.csv", index_col=0)
        for row, cells in table.iterrows():
            for column, value in cells.items():
                if isinstance(value, float) and value == value:
                    assert grounded(document["tables"][name][row][str(column).split(" [")[0]]), (row, column)


def test_a_folder_of_reports_is_read(tmp_path: Path) -> None:
    report = next(Path(recorded_root()).glob("*/profile.ncu-rep"))
    (tmp_path / "a.ncu-rep").write_bytes(report.read_bytes())
    done = _perfkit("roofline", str(tmp_path), "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^k8,dram,2\d\d\.\d+,4[5-9]\d{12}\.", done.stdout, re.MULTILINE)


def test_an_empty_cell_says_so() -> None:
    done = _perfkit("article", "recorded", "--trace", "climb:k1:speedup")
    assert done.returncode == 2
    assert "that cell is empty: it has no value in this row" in done.stderr


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("climb:k8", "is no TABLE:ROW:COLUMN"),
        ("climb:k99:time", "rows: k1, k2"),
        ("climb:k1:speedup", "that cell is empty"),
    ],
)
def test_a_trace_of_nothing_is_wrong_usage(cell: str, says: str) -> None:
    done = _perfkit("article", "recorded", "--trace", cell)
    assert done.returncode == 2
    assert says in done.stderr


def test_on_the_recorded_gpu_every_claim_of_the_article_is_decided() -> None:
    done = _perfkit("article", "recorded", "--claims", "article", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["tables"][0]["rows"]
    outcomes = {row["id"]["value"]: row["outcome"]["value"] for row in rows}
    assert set(outcomes.values()) == {"holds", "not applicable"}
    assert outcomes["sectors-k1"] == outcomes["conflicts-k6"] == outcomes["wavefronts-k7"] == "holds"
    assert outcomes["gflops-k8"] == "not applicable"


def test_a_claim_that_fails_ends_with_1_and_both_values(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text('[[claim]]\nid = "wrong"\ntext = "t"\nexpression = "sectors_per_load(k1) == 4"\n')
    done = _perfkit("article", "recorded", "--claims", str(file))
    assert done.returncode == 1
    assert "fails" in done.stdout
    assert "measured 16.5 sector/request, said == 4 sector/request" in done.stderr
    assert "1 of 1 claims fail or cannot be decided: wrong" in done.stderr


def test_a_template_is_filled_and_an_unknown_placeholder_names_its_line(tmp_path: Path) -> None:
    template = tmp_path / "a.md"
    template.write_text("k1 needs {{ sectors_per_load(k1) | - 1 }} sectors.\n\n{{ table:model }}\n")
    done = _perfkit("article", "recorded", "--template", str(template), "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    filled = (tmp_path / "out" / "a.md").read_text()
    assert filled.startswith("k1 needs 16.5 sectors.\n\n### Model against measurement")
    template.write_text("one\n{{ sectors(k1) }}\n")
    done = _perfkit("article", "recorded", "--template", str(template))
    assert done.returncode == 2
    assert f"{template}, line 2: {{{{ sectors(k1) }}}}: unknown measurement 'sectors'" in done.stderr


def test_roofline_prints_its_numbers_and_draws(tmp_path: Path) -> None:
    figure = tmp_path / "r.svg"
    done = _perfkit("roofline", "recorded", "-o", str(figure), "--levels", "dram,l2,l1", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert figure.read_text().startswith("<?xml")
    assert {"DRAM", "L2", "L1/shared", "FP32"} <= {line.split(",")[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("roofline",), "nothing to draw"),
        (("roofline", "recorded", "--levels", "l3"), "no level l3"),
        (("roofline", "recorded", "-o", "x.pdf"), "a figure is .svg or .png"),
        (("roofline", "recorded", "-n", "3"), "nothing was measured at n=3"),
        (("roofline", "recorded", "--ceilings", "none.json"), "cannot read none.json"),
        (("report", "recorded", "-o", "x.txt"), "the page is HTML"),
        (("report", "no-such-run"), "there is no run 'no-such-run'"),
        (("article", "recorded", "--reference", "k99"), "no kernel 'k99'"),
        (("article", "recorded", "--claims", "none.toml"), "cannot read none.toml"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    done = _perfkit(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_the_report_is_one_file_without_a_gpu(tmp_path: Path) -> None:
    page = tmp_path / "deep" / "report.html"
    done = _perfkit("report", "recorded", "-o", str(page), "--title", "My <ladder>")
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "<h1>My &lt;ladder&gt;</h1>" in text
    assert len(text) < 1_500_000
    for section in ("summary", "counters", "stalls", "roofline", "model", "explain", "provenance"):
        assert f'<section id="{section}"' in text
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = _perfkit("article", "recorded", "-o", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "is a file" in done.stderr
