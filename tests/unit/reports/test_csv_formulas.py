"""Text that a spreadsheet would take for a formula is made text, wherever it stands."""

from __future__ import annotations

import csv
import io

import pytest

from perfkit.model import Cell, Column, Status, Table
from perfkit.reports import render


def cells(table: Table) -> list[list[str]]:
    text = render([table], "csv", width=80, color=False)
    return list(csv.reader(io.StringIO(text, newline="")))


def of_one(text: str) -> str:
    """How a cell of that text is read back, beside one that keeps the line from being empty."""
    table = Table("t", "", (Column("a", "A"), Column("b", "B")), ((Cell("x"), Cell(text)),))
    return cells(table)[1][1]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
@pytest.mark.parametrize("rest", ["", "1", "cmd|' /C calc'!A1", "SUM(A1:A9)"])
def test_a_text_that_starts_a_formula_gets_an_apostrophe(start: str, rest: str) -> None:
    assert of_one(start + rest) == f"'{start}{rest}"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_within_a_text_they_are_harmless_and_stay(start: str) -> None:
    assert of_one(f"a{start}1") == f"a{start}1"
    assert of_one(f" {start}1") == f" {start}1"


def test_a_carriage_return_starts_no_formula_either() -> None:
    assert of_one("\r=1") == "\\x0d=1"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_the_header_is_text_too(start: str) -> None:
    columns = (Column(f"{start}a", "A", "s"), Column(f"{start}b", "B"))
    table = Table("t", "", columns, ((Cell(1.0, unit="byte"), Cell(None, Status.NOT_COLLECTED)),))
    assert cells(table)[0] == [f"'{start}a", f"'{start}a.unit", f"'{start}b", f"'{start}b.status"]


def test_numbers_keep_their_sign() -> None:
    table = Table("t", "", (Column("a", "A"), Column("b", "B")), ((Cell(-1.5), Cell(-3)),))
    assert cells(table)[1] == ["-1.5", "-3"]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (0x00, "\\x00"), (0x08, "\\x08"), (0x09, None), (0x0A, None), (0x0B, "\\x0b"), (0x1B, "\\x1b"),
        (0x1F, "\\x1f"), (0x20, None), (0x7E, None), (0x7F, "\\x7f"), (0x9F, "\\x9f"), (0xA0, None),
    ],
)  # fmt: skip
def test_control_characters_are_shown_line_breaks_and_tabs_kept(code: int, shown: str | None) -> None:
    assert of_one(f"a{chr(code)}b") == f"a{shown or chr(code)}b"


def test_a_status_and_a_unit_have_columns_only_where_they_say_something() -> None:
    columns = (Column("ok", "OK", "s"), Column("lost", "Lost", "s"), Column("mixed", "Mixed", "s"))
    rows = (
        (Cell(1.0), Cell(None, Status.NOT_ON_CHIP), Cell(2.0)),
        (Cell(3.0), Cell(4.0, Status.INVALID), Cell(5.0, unit="byte")),
    )
    assert cells(Table("t", "", columns, rows)) == [
        ["ok [s]", "lost [s]", "lost.status", "mixed", "mixed.unit"],
        ["1.0", "", "not_on_chip", "2.0", "s"],
        ["3.0", "4.0", "invalid", "5.0", "byte"],
    ]
