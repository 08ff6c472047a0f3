"""Every formula of a metric gives the same value where a launch allows several, or says why it can differ."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfkit.analysis.definitions import Alternative, load_devices
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.model import Launch
from tests.unit.analysis.consistent import launch

SETS = load_metric_sets()
CHIPS = list(load_devices())
REPORTS = Path(os.environ.get("PERFKIT_REPORTS", "/nowhere"))
DATA = Path(__file__).parents[2] / "data"
RECORDED = Path(__file__).parents[3] / "perfkit" / "data" / "recorded"

ROUNDING = 1e-6  # counters of one pass differ by the rounding of percentages only
# Counters of different replay passes: the largest difference in the field reports, rounded up. The kernel
# runs again in each, and where blocks race for work or for the cache it does not do the same again.
PASSES = {
    "l2_write_bytes": 0.003,  # a B200: 0.25 %
}


def agree(one: float, other: float, tolerance: float) -> bool:
    return abs(one - other) <= tolerance * max(abs(one), abs(other))


def readings(item: Launch) -> Iterator[tuple[str, tuple[tuple[Alternative, float], ...]]]:
    for name in SETS.metrics:
        yield name, SETS.readings(item, name)


def disagreements(item: Launch, passes: dict[str, float]) -> list[str]:
    found = []
    for name, ways in readings(item):
        exact = [(one.expression.text, value) for one, value in ways if not one.differs]
        for (text, a), (other, b) in itertools.combinations(exact, 2):
            if not agree(a, b, passes.get(name, ROUNDING)):
                found.append(f"{item.id} {item.kernel}: {name}: {text} = {a}, {other} = {b}")
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("chip", CHIPS)
def test_on_made_up_counters(chip: str, seed: int) -> None:
    assert disagreements(launch(chip, seed, rich=True), {}) == []


@pytest.mark.parametrize("chip", CHIPS)
def test_those_that_can_differ_do_not_where_nothing_makes_them(chip: str) -> None:
    for name, ways in readings(launch(chip, 0, rich=False)):
        values = [value for _, value in ways]
        assert all(agree(values[0], value, 1e-9) for value in values[1:]), (name, ways)


@pytest.mark.parametrize("chip", CHIPS)
def test_every_alternative_is_among_them(chip: str) -> None:
    """No formula of a chip escapes for want of a counter, but those with a figure that is not known of it."""
    item = launch(chip, 0, rich=True)
    metrics = SETS.chip_metrics(item.compute_capability)
    figures = load_devices()[chip]
    for name, ways in readings(item):
        wanted = [
            one for one in metrics[name].alternatives if all(f in figures for f in one.expression.device)
        ]
        assert [one for one, _ in ways] == wanted, name


def test_a_reason_that_can_never_show_is_no_reason() -> None:
    """Each alternative that may differ does so on some chip, on counters that make it."""
    excused = {
        (name, one.expression.text)
        for name, metric in SETS.metrics.items()
        for one in metric.alternatives
        if one.differs
    }
    for chip in CHIPS:
        for name, ways in readings(launch(chip, 1, rich=True)):
            for one, value in ways:
                if not agree(ways[0][1], value, ROUNDING):
                    excused.discard((name, one.expression.text))
    by_passes, by_tma = {"sm_clock", "active_warps_per_scheduler"}, {"l2_read_bytes", "l2_write_bytes"}
    assert {name for name, _ in excused} <= by_passes | by_tma


FIELD = sorted(REPORTS.glob("*-rep*")) if REPORTS.is_dir() else []
CASES = DATA / "cases"  # made up: their counters agree in nothing
REAL = [path for path in DATA.rglob("*.ncu-rep") if not path.is_relative_to(CASES)]
OWN = sorted([*REAL, *RECORDED.rglob("*.ncu-rep")])


@pytest.mark.skipif(not FIELD, reason="PERFKIT_REPORTS does not name a folder of field reports")
def test_on_field_reports() -> None:
    reports = read_reports(FIELD, SETS.reading(), keep_going=True)
    assert sum(len(report.launches) for report in reports) > 100
    found = [
        line
        for report in reports
        for item in report.launches
        if item.collected
        for line in disagreements(item, PASSES)
    ]
    assert found == []


def test_on_perfkits_own_reports() -> None:
    reports = read_reports(OWN, SETS.reading())
    assert sum(len(report.launches) for report in reports) > 50
    found = [
        line
        for report in reports
        for item in report.launches
        if item.collected
        for line in disagreements(item, PASSES)
    ]
    assert found == []
