"""The page of `perfkit report` about a damaged report."""

from __future__ import annotations

from html import unescape
from pathlib import Path

from typer.testing import CliRunner

from perfkit.cli import app

CASES = Path(__file__).parents[2] / "data" / "cases"


def page_of(report: Path, folder: Path) -> str:
    page = folder / "page.html"
    done = CliRunner().invoke(app, ["report", str(report), "-o", str(page)])
    assert done.exit_code == 0, done.output
    return " ".join(unescape(page.read_text()).split())


def test_the_page_says_what_the_report_lost(tmp_path: Path) -> None:
    """It can be mailed: whoever reads it has not seen what the command wrote to stderr."""
    page = page_of(CASES / "kernel_then_graph_cut.ncu-rep", tmp_path)
    assert "kernel_then_graph_cut.ncu-rep is truncated: its last block holds 1 workload" in page
    assert "kernel_then_graph_cut.ncu-rep has lost 1 of the 2 launches that it declares." in page
    assert "launches lost" in page
    assert "at least 1" in page


def test_the_page_of_a_whole_report_does_not_speak_of_it(tmp_path: Path) -> None:
    page = page_of(CASES / "kernel_then_graph.ncu-rep", tmp_path)
    assert "launches lost" not in page
    assert "truncated" not in page


def test_the_tables_of_an_article_say_what_the_report_lost(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["article", str(CASES / "kernel_then_graph_cut.ncu-rep"), "-o", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    for name in ("climb.md", "climb.html", "climb.tex", "provenance.json"):
        assert "has lost 1 of the 2 launches that it declares" in (tmp_path / "out" / name).read_text()
