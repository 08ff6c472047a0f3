"""Where LaTeX floats break and shrink, and what HTML says of a cell, to the character."""

from __future__ import annotations

import pytest

from perfkit.model import Cell, Column, Status, Table
from perfkit.reports import render
from perfkit.reports.html import table_parts


def latex(table: Table) -> str:
    return render([table], "latex", width=80, color=False)


def of_rows(count: int, long: int | None = None, **more: tuple[str, ...]) -> Table:
    """`count` rows of a name and a number; the name of row `long` is a sentence."""
    names = ["a sentence of over forty characters in all" if i == long else f"k{i}" for i in range(count)]
    rows = tuple((Cell(name), Cell(i)) for i, name in enumerate(names))
    return Table("some_table.1é", "Title", (Column("a", "A"), Column("b", "B")), rows, **more)


@pytest.mark.parametrize(
    ("rows", "long", "floats"),
    [(45, None, [45]), (46, None, [45, 1]), (30, 3, [30]), (31, 3, [30, 1]), (60, 3, [30, 30])],
)
def test_a_float_holds_what_fits_a_page(rows: int, long: int | None, floats: list[int]) -> None:
    """45 rows, and 30 where one of them (not all) is so long that it wraps."""
    parts = latex(of_rows(rows, long)).split("\\end{table}")[:-1]
    assert [part[part.index("\\midrule") :].count(" \\\\") for part in parts] == floats


def test_a_column_wraps_where_one_text_is_long() -> None:
    assert "\\begin{tabular}{p{50mm}r}" in latex(of_rows(3, 1))
    assert "\\begin{tabular}{lr}" in latex(of_rows(3))


@pytest.mark.parametrize(("columns", "size"), [(8, "\\small"), (9, "\\scriptsize")])
def test_a_table_of_many_columns_is_set_small(columns: int, size: str) -> None:
    heads = tuple(Column(f"c{i}", f"C{i}") for i in range(columns))
    text = latex(Table("t", "", heads, (tuple(Cell(i) for i in range(columns)),)))
    assert f"\\centering{size}\n" in text


def test_the_lead_stands_above_the_first_float_and_the_notes_below_the_last() -> None:
    first, last = latex(of_rows(50, lead=("the lead",), notes=("the note",))).split("\\end{table}")[:-1]
    assert ("the lead" in first, "the lead" in last) == (True, False)
    assert ("the note" in first, "the note" in last) == (False, True)
    assert "\\caption{Title}\n\\label{tab:some-table-1-}" in first
    assert "\\caption{Title (continued)}\n\\parbox" not in last


ROW = (Cell('k"1"'), Cell(2.5, Status.INVALID, note='of "one"'), Cell(None, Status.NOT_COLLECTED))
ONE = Table("o'ne", "T", (Column("a", "A", doc='say "a"'), Column("b", "B"), Column("c", "C")), (ROW,))


def test_html_to_the_character() -> None:
    lines = render([ONE], "html", width=80, color=False).splitlines()
    assert lines[0] == '<table class="perfkit" id="o&#x27;ne">'
    assert '<th scope="col" title="say &quot;a&quot;">A</th>' in lines[2]
    (row,) = (line for line in lines if line.startswith("<tr><"))
    assert row.startswith('<tr><th scope="row">k&quot;1&quot;</th><td class="num invalid" data-value="2.5"')
    assert 'title="of &quot;one&quot;"' in row
    assert ">2.500 !<sup>1</sup>" in row
    assert row.count("<th") == 1


def test_only_the_first_cell_of_a_sortable_row_is_shortened_with_all_of_it_as_tooltip() -> None:
    fits, long = "k" * 36, "n" * 37
    columns = (Column("a", "A"), Column("b", "B"))
    table = Table("t", "", columns, ((Cell(fits), Cell(long)), (Cell(long), Cell(fits))))
    body, _ = table_parts(table, sortable=True)
    plain, _ = table_parts(table)
    assert f'<th scope="row">{fits}</th><td>{long}</td>' in body
    assert f'title="{long}"' in body
    assert f">{long}</th>" not in body
    assert f'<th scope="row">{long}</th>' in plain
    assert body.count('<button type="button">') == 2
    assert "button" not in plain
    assert '<table class="perfkit sortable" id="t">' in body
