"""Every format: golden text at a fixed width, read back by the format's own reader where it has one."""

from __future__ import annotations

import csv
import html.parser
import importlib.util
import io
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from perfkit import units
from perfkit.errors import UsageError
from perfkit.model import Cell, Column, Status, Table
from perfkit.reports import FORMATS, SUFFIXES, render
from perfkit.reports.markdown import escape as escape_markdown
from perfkit.reports.text import shorten, visible

GOLDEN = Path(__file__).parents[2] / "golden"


def _tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("report_tables", Path(__file__).with_name("tables.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = _tables()


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", ["climb", "side", "hostile"])
def test_golden(name: str, fmt: str) -> None:
    table = {"climb": tables.CLIMB, "side": tables.SIDE_BY_SIDE, "hostile": tables.HOSTILE_TABLE}[name]
    text = render([table], fmt, width=80, color=False)
    golden = GOLDEN / "tables" / f"{name}.{SUFFIXES[fmt]}"
    if os.environ.get("PERFKIT_UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_bytes(text.encode())
    assert text.encode() == golden.read_bytes()


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        render([tables.CLIMB], "pdf", width=80, color=False)
    assert "terminal, markdown, csv, json, latex, html" in caught.value.remedy


# Terminal


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_terminal_lines_fit_the_width(width: int) -> None:
    text = render([tables.CLIMB, tables.SIDE_BY_SIDE], "terminal", width=width, color=False)
    assert max(map(len, text.splitlines())) <= width


def test_terminal_has_no_control_characters_and_aligns_decimals() -> None:
    text = render([tables.HOSTILE_TABLE], "terminal", width=100, color=False)
    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert "\u202e" not in text
    columns = (Column("kernel", "Kernel"), Column("value", "Value"))
    cells = (
        Cell(1.5, digits=1),
        Cell(16.25, digits=2, note="n"),
        Cell(3, digits=0),
        Cell(2.25, Status.INVALID),
    )
    table = Table("t", "", columns, tuple((Cell("k"), cell) for cell in cells))
    rows = render([table], "terminal", width=100, color=False).splitlines()[2:6]
    assert [row[row.index(" ") :].lstrip() for row in rows] == ["1.5", "16.25 [1]", "3", "2.25 !"]
    ones = {row.index(digits) for row, digits in zip(rows, ("1.5", "6.25", "3", "2.25"), strict=True)}
    assert len(ones) == 1


def test_terminal_colours_only_when_asked() -> None:
    assert "\x1b[" not in render([tables.CLIMB], "terminal", width=80, color=False)
    assert "\x1b[" in render([tables.CLIMB], "terminal", width=80, color=True)


def test_a_table_without_rows_says_so() -> None:
    empty = Table("none", "Nothing", (Column("kernel", "Kernel"), Column("time", "Time", "s")), ())
    assert "(no rows)" in render([empty], "terminal", width=80, color=False)
    for fmt in FORMATS:
        assert render([empty], fmt, width=80, color=False)


# Markdown


def _markdown_rows(text: str) -> list[list[str]]:
    """Cell texts of the only table, as a CommonMark parser with the table extension sees them."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    rows: list[list[str]] = []
    for position, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        if token.type in ("th_open", "td_open"):
            inline = tokens[position + 1]
            assert all(child.type in ("text", "text_special") for child in inline.children or []), (
                inline.content
            )
            rows[-1].append("".join(child.content for child in inline.children or []))
    return rows


def test_markdown_is_a_table_to_a_parser_and_shows_hostile_text_as_it_is() -> None:
    rows = _markdown_rows(render([tables.HOSTILE_TABLE], "markdown", width=80, color=False))
    assert rows[0] == ["Kernel | <i>", "Time (ms)"]
    assert [row[0] for row in rows[1:]] == [shorten(visible(name)).strip() for name in tables.HOSTILE]
    assert {len(row) for row in rows} == {2}


@given(st.text(min_size=1, max_size=40))
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    table = Table("t", "", (Column("a", "A"), Column("b", "B")), ((Cell("x"), Cell(text)),))
    shown = _markdown_rows(render([table], "markdown", width=80, color=False))[1][1]
    assert shown.split() == shorten(visible(text)).split()


def test_markdown_leaves_kernel_names_readable() -> None:
    assert escape_markdown("sgemm_k6b_n_4096") == "sgemm_k6b_n_4096"


# CSV


def test_csv_reads_back_with_pandas_to_the_same_numbers_and_units() -> None:
    frame = pd.read_csv(io.StringIO(render([tables.CLIMB], "csv", width=80, color=False)))
    for index, column in enumerate(tables.CLIMB.columns):
        name = f"{column.name} [{column.unit}]" if column.unit else column.name
        for row, cells in enumerate(tables.CLIMB.rows):
            cell, read = cells[index], frame[name][row]
            if cell.value is None:
                assert pd.isna(read)
            else:
                assert read == cell.value
            if f"{column.name}.status" in frame:
                assert frame[f"{column.name}.status"][row] == cell.status.value
    assert list(frame["share.status"]) == ["ok", "invalid", "ok"]
    assert frame["conflicts"].dtype == "int64"


def test_csv_with_units_in_the_rows_adds_no_unit_columns() -> None:
    frame = pd.read_csv(io.StringIO(render([tables.SIDE_BY_SIDE], "csv", width=80, color=False)))
    assert list(frame.columns) == [column.name for column in tables.SIDE_BY_SIDE.columns]
    assert float(frame["launch_3"][0]) == 1.718e10 / 3
    assert frame["metric"][0] == "l2_read_bytes"


def test_csv_with_units_of_their_own_has_a_unit_column() -> None:
    columns = (Column("name", "Name"), Column("value", "Value", "byte"))
    table = Table("mixed", "", columns, ((Cell("a"), Cell(1.0)), (Cell("b"), Cell(2.5, unit="byte/s"))))
    frame = pd.read_csv(io.StringIO(render([table], "csv", width=80, color=False)))
    assert list(frame["value"]) == [1.0, 2.5]
    assert list(frame["value.unit"]) == ["byte", "byte/s"]


def test_csv_holds_whole_names_and_no_formulas() -> None:
    rows = list(csv.reader(io.StringIO(render([tables.HOSTILE_TABLE], "csv", width=80, color=False))))[1:]
    assert rows[2][0] == "'=cmd()"
    assert rows[-1][0] == tables.HOSTILE[-1]
    assert len(rows[-1][0]) > 8000
    assert all(not row[0].startswith(("=", "+", "-", "@")) for row in rows)
    assert "\x1b" not in rows[7][0]


def test_several_tables_in_a_csv_are_named() -> None:
    text = render([tables.CLIMB, tables.HOSTILE_TABLE], "csv", width=80, color=False)
    first, second = text.split("\n\n# ")
    assert first.startswith("# climb\nkernel,")
    assert second.startswith("hostile\nkernel,")


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=True, allow_infinity=True), st.integers(-(2**60), 2**60), st.text(max_size=30)
        ),
        min_size=1,
        max_size=5,
    )
)
def test_csv_and_json_keep_any_value(values: list[Any]) -> None:
    columns = tuple(Column(f"c{index}", "C") for index in range(len(values)))
    table = Table("t", "", columns, (tuple(map(Cell, values)),))
    found = json.loads(render([table], "json", width=80, color=False))["tables"][0]["rows"][0]
    for index, cell in enumerate(table.rows[0]):
        assert found[f"c{index}"]["value"] == cell.value
        assert found[f"c{index}"]["status"] == cell.status.value
    text = render([table], "csv", width=80, color=False)
    header, row = list(csv.reader(io.StringIO(text, newline="")))
    for index, cell in enumerate(table.rows[0]):
        read = row[header.index(f"c{index}")]
        if isinstance(cell.value, (int, float)):
            assert type(cell.value)(read) == cell.value
        elif cell.value is None:
            assert read == ""


# JSON


def test_json_says_value_unit_status_and_note() -> None:
    document = json.loads(render([tables.CLIMB], "json", width=80, color=False))
    assert document["schema_version"] == 1
    rows = document["tables"][0]["rows"]
    assert rows[1]["time"] == {"value": 0.00406, "unit": "s", "status": "ok", "note": "one round only"}
    assert rows[0]["read"] == {"value": None, "unit": "byte", "status": "not_on_chip"}
    assert rows[1]["share"]["status"] == "invalid"


# LaTeX


def _balanced(text: str) -> bool:
    depth = 0
    escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth < 0:
                return False
    return depth == 0


def test_latex_rows_have_as_many_cells_as_columns() -> None:
    text = render([tables.HOSTILE_TABLE], "latex", width=80, color=False)
    body = text[text.index("\\midrule") : text.index("\\bottomrule")].splitlines()[1:]
    assert len(body) == len(tables.HOSTILE)
    for line in body:
        assert line.endswith(" \\\\")
        assert line.replace("\\&", "").count("&") == 1
    assert _balanced(text)
    assert "%" not in text.replace("\\%", "").replace("% needs", "").replace("{!}{%", "")


@given(st.text(max_size=40))
def test_latex_of_any_text_is_ascii_balanced_and_has_no_bare_specials(text: str) -> None:
    from perfkit.reports.latex import escape

    shown = escape(visible(text))
    assert shown.isascii()
    assert _balanced(shown)
    bare = shown.replace("\\\\", "")
    for special in "%&#_$":
        assert bare.count(special) == bare.count("\\" + special)


def test_a_long_table_is_several_floats_of_latex() -> None:
    rows = tuple((Cell(f"row{number}"), Cell(number)) for number in range(100))
    table = Table("long", "Long", (Column("a", "A"), Column("b", "B")), rows, notes=("the note",))
    text = render([table], "latex", width=80, color=False)
    floats = text.split("\\end{table}")[:-1]
    assert [part.count("row") for part in floats] == [45, 45, 10]
    assert text.count("\\label{tab:long}") == 1
    assert "(continued)" in floats[1]
    assert "the note" in floats[2]
    assert "the note" not in floats[0]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_compiles(tmp_path: Path) -> None:
    body = render([tables.CLIMB, tables.SIDE_BY_SIDE, tables.HOSTILE_TABLE], "latex", width=80, color=False)
    head = "\\documentclass{article}\\usepackage{booktabs,graphicx,textcomp}\\begin{document}"
    document = f"{head}{body}\\end{{document}}"
    (tmp_path / "t.tex").write_text(document)
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


# HTML


class _Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in ("td", "th"):
            self.cells.append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells[-1] += data


def test_html_holds_hostile_text_as_text() -> None:
    reader = _Reader()
    reader.feed(render([tables.HOSTILE_TABLE], "html", width=80, color=False))
    assert set(reader.tags) == {"table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert reader.cells[2::2] == [shorten(visible(name)) for name in tables.HOSTILE]
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("src", "href")]


def test_html_carries_raw_values() -> None:
    text = render([tables.CLIMB], "html", width=80, color=False)
    assert 'data-value="268435456"' in text
    assert 'data-value="0.00734"' in text
    assert '<td class="num missing"' in text
    assert 'title="Median of event timings."' in text


# Cells


def test_a_cell_holds_no_nan() -> None:
    cell = Cell(float("nan"))
    assert (cell.value, cell.status) == (None, Status.UNDEFINED)
    assert Cell(float("inf"), Status.NOT_COLLECTED).status is Status.NOT_COLLECTED


def test_numpy_scalars_become_python_numbers() -> None:
    scalars: list[Any] = [np.int64(3), np.float32(0.5)]
    assert [Cell(scalar).value for scalar in scalars] == [3, 0.5]
    assert [type(Cell(scalar).value) for scalar in scalars] == [int, float]


def test_one_scale_a_column_unless_cells_have_their_own_units() -> None:
    text = render([tables.CLIMB], "markdown", width=80, color=False)
    assert "Time (ms)" in text
    assert "Speed (TFLOP/s)" in text
    assert "268,435,456" in text
    assert units.format_value(3.87e9, "byte") == "3.87 GB"
