"""What `perfkit show` says of files on stderr, on reports made up here; real ones are in tests/corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfkit.analysis import report as report_module
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.peak_model import check_launches
from perfkit.api import Profile, find_reports, load
from perfkit.commands.show import account, show
from perfkit.errors import CannotError, ReportError, UsageError
from perfkit.model import Launch, LaunchId, Report

SETS = load_metric_sets()


def launch(index: int, collected: bool = True, path: str = "a/x.ncu-rep") -> Launch:
    return Launch(
        LaunchId(path, 0, index),
        "k",
        "k()",
        "GPU",
        (9, 0),
        "2025.3.1.0 (build 1)",
        (1, 1, 1),
        (32, 1, 1),
        collected,
    )


def profile(*reports: Report) -> Profile:
    names = ("duration",)
    evaluated = tuple(SETS.evaluate(one, names) for report in reports for one in report.launches)
    return Profile(evaluated, reports, SETS, names)


def said(capsys: pytest.CaptureFixture[str], whole: Profile, shown: Profile | None = None) -> str:
    account(whole, shown or whole)
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_the_account_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    good = Report("a/x.ncu-rep", (launch(0), launch(1, collected=False)), "2025.3.1.0 (build 1)", 2)
    cut = Report("a/y.ncu-rep", (launch(0, path="a/y.ncu-rep"),), "", 3, 2, True, ("is truncated: ...",))
    bad = Report("a/z.ncu-rep", (), "", error="a/z.ncu-rep: is empty (0 bytes)")
    err = said(capsys, profile(good, cut, bad))
    assert err.splitlines() == [
        "3 launches in 2 reports; 1 not collected: x.ncu-rep:1; at least 2 lost",
        "warning: a/y.ncu-rep: is truncated: ...",
    ]


def test_a_profile_says_what_it_holds() -> None:
    one = profile(Report("a/x.ncu-rep", (launch(0),), "", 1))
    assert repr(one) == "Profile(1 launch of k; 1 report, 0 problems)"


def test_no_account_of_launches_where_nothing_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    bad = Report("a/z.ncu-rep", (), "", error="a/z.ncu-rep: is empty (0 bytes)")
    assert said(capsys, profile(bad)) == ""


def test_the_account_says_how_many_were_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    whole = profile(Report("a/x.ncu-rep", (launch(0), launch(1)), "", 2))
    shown = Profile(whole.evaluated[:1], whole.reports, SETS, whole.names)
    assert said(capsys, whole, shown) == "2 launches in 1 report; 1 shown\n"


@pytest.mark.parametrize(
    ("reader", "warned"), [("2025.3.1", False), ("2025.2.0", True), ("2026.1.0", False), ("", False)]
)
def test_a_report_of_a_newer_ncu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reader: str, warned: bool
) -> None:
    monkeypatch.setattr(report_module, "library_version", lambda: reader)
    err = said(capsys, profile(Report("a/x.ncu-rep", (launch(0),), "2025.3.1.0 (build 1)", 1)))
    assert ("newer than the reader (2025.2.0)" in err) == warned
    assert ("pip install --upgrade ncu-report" in err) == warned


def test_what_a_target_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFKIT_RUNS", str(tmp_path / "runs"))
    inner = tmp_path / "set" / "inner"
    inner.mkdir(parents=True)
    for name in ("b.ncu-rep", "inner/a.ncu-repz", "c.nsight-cuprof-report", "notes.txt"):
        (tmp_path / "set" / name).touch()
    folder = [one.relative_to(tmp_path / "set").as_posix() for one in find_reports(tmp_path / "set")]
    assert folder == ["b.ncu-rep", "c.nsight-cuprof-report", "inner/a.ncu-repz"]
    assert [one.name for one in find_reports(f"{tmp_path}/set/*.ncu-rep")] == ["b.ncu-rep"]
    assert [one.name for one in find_reports(f"{tmp_path}/set/**/a.*")] == ["a.ncu-repz"]
    # A file that is named is never guessed to be something else, there or not.
    assert find_reports(tmp_path / "gone.ncu-rep") == [tmp_path / "gone.ncu-rep"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReportError, match="is a folder without reports"):
        find_reports(tmp_path / "empty")
    with pytest.raises(ReportError, match="matches no file"):
        find_reports(f"{tmp_path}/*.rep")
    with pytest.raises(UsageError, match="no such file, folder or run"):
        find_reports("nothing")
    with pytest.raises(UsageError) as caught:
        find_reports("recorded:k6")
    assert "`recorded --kernel k6`" in caught.value.remedy


def test_options_are_checked_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="unknown format 'xml'"):
        show(["gone.ncu-rep"], fmt="xml")
    with pytest.raises(UsageError, match="--by gpu without --aggregate"):
        show(["gone.ncu-rep"], by="gpu")
    with pytest.raises(UsageError, match="parquet needs a file"):
        show(["gone.ncu-rep"], fmt="parquet")
    with pytest.raises(UsageError, match=r"no metric set or metric 'memmory' \(did you mean memory"):
        show(["gone.ncu-rep"], sets=["memmory"])


def test_without_the_reader_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise CannotError(
            "cannot read reports: the Python module ncu_report is not there", "pip install ncu-report"
        )

    monkeypatch.setattr("perfkit.analysis.reader.library", absent)
    with pytest.raises(CannotError, match="ncu_report is not there"):
        show(["gone.ncu-rep"])


CASES = Path(__file__).parents[2] / "data" / "cases"


@pytest.mark.parametrize("fmt", ["markdown", "latex", "html"])
def test_a_file_says_what_its_report_lost(fmt: str, tmp_path: Path) -> None:
    written = tmp_path / "out"
    show([str(CASES / "kernel_then_graph_cut.ncu-rep")], sets=["duration"], fmt=fmt, output=written)
    assert "has lost 1 of the 2 launches" in written.read_text(encoding="utf-8")


def test_the_same_launch_twice_is_refused() -> None:
    profile = load(CASES / "kernel_then_graph.ncu-rep")
    with pytest.raises(UsageError, match="are the same launch"):
        profile.explain("saxpy", 0)


def test_a_graph_is_called_one_in_the_model() -> None:
    graph = next(one for one in load(CASES / "kernel_then_graph.ncu-rep").launches if one.kind == "graph")
    (check,) = check_launches([graph])
    assert "graph" in check.kernel
