"""The article's tables from measurements made by hand: each value, each trace, and what is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perfkit.analysis.measurements import gather
from perfkit.model import Status, Table
from perfkit.model.traced import TracedTable
from perfkit.reports import render
from perfkit.reports.article import NEEDS_BENCH, NEEDS_PROFILE, article_tables, trace
from perfkit.reports.provenance import explain_trace, provenance

AT = "n=1000"


def _cells(table: Table, row: str) -> dict[str, Any]:
    cells = next(cells for cells in table.rows if cells[0].value == row)
    return {column.name: cell for column, cell in zip(table.columns, cells, strict=True)}


def _by_name(tables: tuple[TracedTable, ...]) -> dict[str, Table]:
    return {item.table.name: item.table for item in tables}


def test_the_four_tables_hold_what_was_measured(measurements: Any) -> None:
    tables = _by_name(article_tables(measurements))
    assert list(tables) == ["climb", "counters", "model", "sizes"]
    climb = _cells(tables["climb"], "k2")
    assert [cell.value for cell in climb.values()] == ["k2", 1.25e-3, 1.6e12, 0.8, 2e9, 300.0, 0.4, 2.0]
    assert tables["climb"].columns[3].title == "Share of cublas"
    counters = _cells(tables["counters"], "k1")
    assert counters["sectors_per_load"].value == 16.5
    assert counters["top_stall"].value == "lg_throttle"
    assert counters["dram_bytes"].value == 8e6
    model = _cells(tables["model"], "cublas")
    assert model["two_factor_model"].value == 0.4
    assert model["two_factor_error"].value == pytest.approx(0.4 - 0.5)


def test_the_last_row_of_the_sizes_has_both_shares_of_peak(measurements: Any) -> None:
    sizes = _by_name(article_tables(measurements))["sizes"]
    last = _cells(sizes, "share of peak: cublas (k2)")[AT]
    assert (last.value, last.unit, last.text) == (0.5, "fraction", "50.0 % (40.0 %)")
    assert _cells(sizes, "k1")[AT].value == 8e11


def test_without_timings_the_tables_that_need_them_say_so(made: Any) -> None:
    tables = _by_name(article_tables(gather(made.ladder())))
    climb = _cells(tables["climb"], "k1")
    assert climb["time"].status is Status.NOT_COLLECTED
    assert climb["time"].note == NEEDS_BENCH
    assert "bench run" in render([tables["climb"]], "markdown", width=80, color=False)
    assert _cells(tables["counters"], "k1")["sectors_per_load"].value == 16.5
    assert _cells(tables["model"], "k1")["measured_share"].value == pytest.approx(0.09)


def test_without_counters_the_tables_that_need_them_say_so(made: Any) -> None:
    tables = _by_name(article_tables(gather([], [made.bench()])))
    assert _cells(tables["counters"], "k1")["issue_rate"].note == NEEDS_PROFILE
    assert _cells(tables["climb"], "k1")["time"].value == 2.5e-3


def test_another_reference_and_none(made: Any) -> None:
    found = gather(made.ladder(), [made.bench()], reference="k1")
    climb = _by_name(article_tables(found))["climb"]
    assert climb.columns[3].title == "Share of k1"
    assert _cells(climb, "k2")["share_of_reference"].value == 2.0
    alone = gather([], [made.run("bench", labels=("mine",), mine=1e-3)])
    names = [column.name for column in _by_name(article_tables(alone))["climb"].columns]
    assert "share_of_reference" not in names


def test_every_number_in_every_table_can_be_traced_to_a_file(measurements: Any) -> None:
    tables = article_tables(measurements)
    traced = 0
    for item in tables:
        for cells in item.table.rows:
            for column, cell in zip(item.table.columns[1:], cells[1:], strict=True):
                if cell.value is None:
                    continue
                steps = trace(measurements, tables, item.table.name, str(cells[0].value), column.name)
                assert steps[0][1].value == cell.value
                assert any(step.source.file and step.source.sha256 for _, step in steps), (cells[0], column)
                traced += 1
    assert traced > 60


def test_a_trace_shows_the_chain(measurements: Any) -> None:
    tables = article_tables(measurements)
    text = explain_trace(trace(measurements, tables, "model", "k2", "two_factor_error"))
    lines = text.splitlines()
    assert lines[0] == "model:k2:two_factor_error = -20 points  [-0.2 fraction]"
    assert lines[1] == "  formula: two_factor_model - measured_share"
    assert "  issue_rate(k2, n=1000) = 40.0 %  [0.4 fraction]" in lines
    assert any(line.endswith("run/p.ncu-rep  sha256 " + "a" * 64) for line in lines)
    assert any("bench/run.json" in line for line in lines)
    assert any("launch:  0.1  kernel(float*)" in line for line in lines)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (("nope", "k1", "time"), "tables: climb, counters, model, sizes"),
        (("climb", "k7", "time"), "rows: k1, k2, cublas"),
        (("climb", "k1", "tim"), "columns: time, flop_rate"),
    ],
)
def test_a_trace_of_no_cell_says_what_there_is(
    measurements: Any, cell: tuple[str, str, str], says: str
) -> None:
    with pytest.raises(KeyError, match=says):
        trace(measurements, article_tables(measurements), *cell)


def test_provenance_lists_every_cell_and_resolves_every_input(measurements: Any) -> None:
    document = json.loads(provenance(measurements, article_tables(measurements)))
    entry = document["tables"]["climb"]["k2"]["speedup"]
    assert entry["value"] == 2.0
    assert entry["formula"] == "time(k1) / time(k2)"
    for name in entry["inputs"]:
        assert document["measurements"][name]["file"] == "bench/run.json"
    entries = [cell for rows in document["tables"].values() for row in rows.values() for cell in row.values()]
    for cell in (*entries, *document["measurements"].values()):
        for name in cell.get("inputs", ()):
            assert name in document["measurements"]
    assert document["runs"][1]["gpu_uuid"] == "GPU-1"
