"""The peak model on reports from the field: it closes, or says why not; and the list in docs/ is current."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import pytest

from perfkit.analysis.peak_model import check_launches, counters
from perfkit.analysis.report import read_reports
from perfkit.commands._model_table import peak_tables
from perfkit.model.peak import Closure, PeakCheck
from perfkit.reports import render

pytestmark = pytest.mark.corpus

DOC = Path(__file__).parents[2] / "docs" / "peak-model-field-reports.md"


@pytest.fixture(scope="module")
def folder() -> Path:
    named = os.environ.get("PERFKIT_REPORTS", "")
    if not named or not Path(named).is_dir():
        pytest.skip("set PERFKIT_REPORTS to the folder of field reports")
    return Path(named)


@pytest.fixture(scope="module")
def paths(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if "rep" in path.suffix)


@pytest.fixture(scope="module")
def checks(paths: list[Path]) -> list[PeakCheck]:
    reports = read_reports(paths, counters(), jobs=2)
    return check_launches([launch for report in reports for launch in report.launches])


def test_every_launch_has_a_check(folder: Path, checks: list[PeakCheck]) -> None:
    with (folder / "index.csv").open(encoding="utf-8", newline="") as stream:
        expected = {row["file"]: int(row["launches"]) for row in csv.DictReader(stream)}
    assert Counter(Path(check.launch.report).name for check in checks) == expected


def test_it_closes_within_half_a_point_or_says_why(checks: list[PeakCheck]) -> None:
    compared = [check for check in checks if check.residual is not None]
    assert len(compared) >= 16
    for check in compared:
        assert check.residual is not None
        assert abs(check.residual) <= 0.005 or check.reason, check.launch
    assert sum(abs(check.residual or 0) <= 0.001 for check in compared) >= 15


def test_what_is_not_compared_has_a_reason(checks: list[PeakCheck]) -> None:
    for check in checks:
        if check.residual is None:
            assert check.reason, check.launch
            assert check.closure in (Closure.NO_SHARE, Closure.UNKNOWN)


def test_tensor_half_and_fp64_kernels_get_no_share(checks: list[PeakCheck]) -> None:
    reasons = {Path(c.launch.report).name: c.reason for c in checks if c.closure is Closure.NO_SHARE}
    assert "half-precision" in reasons["cc100_b200_7937f6.ncu-rep"]
    assert "tensor-core" in reasons["cc86_a40_317662.ncu-rep"]
    assert "FP64" in reasons["cc80_a100-pcie-40gb_b4f3b5.ncu-rep"]


def test_every_launch_is_in_one_of_the_tables(checks: list[PeakCheck]) -> None:
    told, untold = peak_tables(checks)
    count = [column.name for column in untold.columns].index("count")
    assert len(told.rows) + sum(int(str(row[count].value)) for row in untold.rows) == len(checks)
    (whole,) = peak_tables(checks, fold=False)
    assert len(whole.rows) == len(checks)


def test_the_list_in_the_docs_is_current(checks: list[PeakCheck]) -> None:
    text = DOC.read_text(encoding="utf-8")
    made = render(peak_tables(checks), "markdown")
    assert _rows(text) == _rows(made), "see the page for the command that makes it"
    tally = Counter(str(check.closure) for check in checks)
    for closure, count in tally.items():
        assert f"{closure}: {count}" in text


def _rows(text: str) -> list[str]:
    """Rows of the tables; the wording of the notes may change without a figure changing."""
    return [line for line in text.splitlines() if line.startswith("|")]
