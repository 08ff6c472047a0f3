"""Tables, rooflines and pages of real field reports: every launch is in them, and the counted FLOPs agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfkit.analysis import flops
from perfkit.analysis.measurements import gather
from perfkit.analysis.roofline import COUNTERS, Options, roofline
from perfkit.commands._inputs import read_inputs
from perfkit.commands._report_page import build_page, counters_to_read
from perfkit.errors import UsageError
from perfkit.reports.article import article_tables
from perfkit.reports.page_html import render_page

FOLDER = os.environ.get("PERFKIT_REPORTS", "")
REPORTS = sorted(Path(FOLDER).glob("*rep")) + sorted(Path(FOLDER).glob("*-report")) if FOLDER else []
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not REPORTS, reason="PERFKIT_REPORTS names no folder with field reports"),
]
# Of every generation one report; all of them go through `show` in their own test.
SOME = (
    "cc61",
    "cc75_rtx-2070",
    "cc80_a100-sxm4",
    "cc80_a100-pcie-40gb_905ff7",
    "cc86_a10g",
    "cc89_rtx-4090_f88",
    "cc90_h800",
)


def _some() -> list[Path]:
    return [path for path in REPORTS if path.name.startswith(SOME)]


@pytest.mark.parametrize("path", _some(), ids=lambda path: path.name)
def test_a_page_and_the_tables_hold_every_launch(path: Path) -> None:
    inputs = read_inputs([str(path)], counters_to_read())
    measurements = gather(inputs.evaluated, (), inputs.files)
    page = build_page(inputs, measurements, measurements.main_problem, "")
    assert all(len(table.rows) == len(inputs.evaluated) for table in page.counters)
    assert len(render_page(page)) < 2e6
    for item in article_tables(measurements):
        labels = {str(cells[0].value) for cells in item.table.rows}
        assert set(measurements.kernels) <= labels


@pytest.mark.parametrize("prefix", ["cc75_gtx-1660-super_7bc2a7", "cc90_h800", "cc90_gh200-480gb_a99f4d"])
def test_three_ways_to_count_flops_agree(prefix: str) -> None:
    path = next(path for path in REPORTS if path.name.startswith(prefix))
    checked = 0
    for item in read_inputs([str(path)], flops.COUNTERS).evaluated:
        if not item.launch.collected:
            continue
        by_opcode, by_rates = flops._by_opcode(item), flops._by_rates(item)
        assert by_opcode is not None
        assert by_rates is not None
        # Clocks of different replay passes differ by a per mille or two.
        assert by_rates.value == pytest.approx(by_opcode.value, rel=0.01)
        checked += 1
    assert checked


def test_the_roofline_of_the_gemm_pair_counts_two_n_cubed() -> None:
    path = next(path for path in REPORTS if path.name.startswith("cc75_gtx-1660-super_7bc2a7"))
    inputs = read_inputs([str(path)], COUNTERS)
    data = roofline(gather(inputs.evaluated, (), inputs.files), "", Options(levels=("dram", "l2", "l1")))
    ceilings = {ceiling.name: ceiling for ceiling in data.ceilings}
    clock = 1.53e9
    assert ceilings["FP32"].value == pytest.approx(2 * 1408 * clock, rel=0.05)  # 22 SMs x 64 lanes
    assert ceilings["DRAM"].value == pytest.approx(335.6e9, rel=0.01)  # 48 byte a cycle x 6.99 GHz
    assert ceilings["DRAM"].origin.startswith("counters")
    work = data.points[0].rate * inputs.evaluated[0].number("duration")
    n = round((work / 2) ** (1 / 3))
    assert work == pytest.approx(2 * n**3, rel=0.01)


def test_every_report_has_a_roofline_or_says_what_is_missing() -> None:
    drawn = 0
    for path in _some():
        inputs = read_inputs([str(path)], COUNTERS)
        measurements = gather(inputs.evaluated, (), inputs.files)
        counted = [measurements.number("counted_flops", kernel, "") > 0 for kernel in measurements.kernels]
        if not any(counted):
            with pytest.raises(UsageError, match=r"nothing to draw: .*(not collected|was executed|counted)"):
                roofline(measurements, "")
            continue
        data = roofline(measurements, "")
        drawn += 1
        named = {point.label for point in data.points} | {text.split(":")[0] for text in data.missing}
        assert set(measurements.kernels) <= named
    assert drawn
