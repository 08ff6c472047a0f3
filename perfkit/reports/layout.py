"""From a table of values to the texts people read; the formats only place and escape them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit import units
from perfkit.model import Cell, Column, Status, Table
from perfkit.reports.text import NAME_LIMIT, shorten, visible

STATUS_TEXT = {
    Status.NOT_COLLECTED: "not collected",
    Status.NOT_ON_CHIP: "not on chip",
    Status.UNDEFINED: "undefined",
}
INVALID_NOTE = (
    "! outside its possible range (counters of different replay passes), or contradicted by another counter; "
    "kept as measured."
)
MAX_FOOTNOTES = 20
NAME_COLUMNS = ("kernel", "launch", "name")  # hold kernel names, of up to thousands of characters


@dataclass(frozen=True, slots=True)
class TextCell:
    """What a person sees of a cell. `mark`: the footnote's number or ""; `full`: what was shortened."""

    text: str
    number: bool = False
    missing: bool = False
    invalid: bool = False
    mark: str = ""
    full: str = ""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as people see it. `numeric`: which columns are aligned right; where the rows carry the units
    the numbers of a column have nothing in common.
    """

    title: str
    headers: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[TextCell, ...], ...]
    notes: tuple[str, ...]
    rows_carry_units: bool = False
    lead: tuple[str, ...] = ()


def lay_out(table: Table, limit: int = NAME_LIMIT) -> TextTable:
    """Texts of `table`: one scale a column (or a row, where the rows carry the units), footnotes numbered."""
    by_row = any(column.name == "unit" for column in table.columns)
    headers, grid = _by_rows(table) if by_row else _by_columns(table)
    notes = _Footnotes()
    rows = tuple(
        tuple(
            _text_cell(cell, text, notes, limit if column.name in NAME_COLUMNS else 0)
            for cell, text, column in zip(cells, texts, table.columns, strict=True)
        )
        for cells, texts in zip(table.rows, grid, strict=True)
    )
    numeric = tuple(_is_numeric(column) for column in zip(*table.rows, strict=True))
    return TextTable(
        title=visible(table.title),
        headers=tuple(visible(shorten(header, limit)) for header in headers),
        numeric=numeric or (False,) * len(table.columns),
        rows=rows,
        notes=tuple(visible(note) for note in (*notes.lines(), *table.notes)),
        rows_carry_units=by_row,
        lead=tuple(visible(sentence) for sentence in table.lead),
    )


class _Footnotes:
    """Numbers notes in order of appearance; equal notes share a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.invalid = False

    def mark(self, note: str) -> str:
        if not note:
            return ""
        number = self._numbers.setdefault(note, len(self._numbers) + 1)
        return str(number) if number <= MAX_FOOTNOTES else "*"

    def lines(self) -> list[str]:
        lines = [INVALID_NOTE] if self.invalid else []
        lines += [f"[{number}] {note}" for note, number in self._numbers.items() if number <= MAX_FOOTNOTES]
        left = len(self._numbers) - MAX_FOOTNOTES
        if left > 0:
            lines.append(f"[*] {left} more notes: --format json gives all of them.")
        return lines


def _text_cell(cell: Cell, text: str, notes: _Footnotes, limit: int) -> TextCell:
    invalid = cell.status is Status.INVALID
    notes.invalid = notes.invalid or invalid
    whole = visible(text)
    short = shorten(whole, limit) if limit and not cell.is_number else whole
    return TextCell(
        text=short,
        number=cell.is_number and not cell.text,
        missing=cell.status in STATUS_TEXT,
        invalid=invalid,
        mark=notes.mark(cell.note),
        full=whole if short != whole else "",
    )


def _by_columns(table: Table) -> tuple[list[str], list[list[str]]]:
    headers, columns = [], []
    for index, column in enumerate(table.columns):
        cells = [row[index] for row in table.rows]
        shared = [cell for cell in cells if not cell.text]
        if all(cell.unit in (None, column.unit) for cell in shared):
            written, texts = _one_scale(cells, column.unit, column)
            headers.append(f"{column.title} ({written})" if written else column.title)
        else:
            texts = [
                _alone(cell, cell.unit if cell.unit is not None else column.unit, column) for cell in cells
            ]
            headers.append(column.title)
        columns.append(texts)
    return headers, [[texts[row] for texts in columns] for row in range(len(table.rows))]


def _by_rows(table: Table) -> tuple[list[str], list[list[str]]]:
    at = next(index for index, column in enumerate(table.columns) if column.name == "unit")
    grid = []
    for row in table.rows:
        unit = str(row[at].value or "")
        own = [index for index, cell in enumerate(row) if cell.is_number and cell.unit in (None, unit)]
        written, scaled = _one_scale([row[index] for index in own], unit, None)
        texts = [_alone(cell, cell.unit or "", None) for cell in row]
        for index, text in zip(own, scaled, strict=True):
            texts[index] = text
        texts[at] = written
        grid.append(texts)
    return [column.title for column in table.columns], grid


def _one_scale(cells: Sequence[Cell], unit: str, column: Column | None) -> tuple[str, list[str]]:
    """(unit as written, texts) of cells that share a unit, a prefix and a number of digits."""
    numbers = [
        cell.value
        for cell in cells
        if cell.is_number and not cell.text and isinstance(cell.value, (int, float))
    ]
    divisor, written = units.common_scale(numbers, unit)
    scaled = [number / divisor if divisor != 1.0 else number for number in numbers]
    auto = 1 if unit in (units.FRACTION, units.POINT) else units.decimals(scaled)
    texts = []
    for cell in cells:
        if cell.is_number and not cell.text and isinstance(cell.value, (int, float)):
            digits = _digits(cell, column)
            value = cell.value / divisor if divisor != 1.0 else cell.value
            # A percentage of 0.0034 is 0.0 % to people; of other values a zero that is none would mislead.
            widen = digits is None and unit not in (units.FRACTION, units.POINT)
            texts.append(units.format_number(value, auto if digits is None else digits, widen=widen))
        else:
            texts.append(cell.text or _plain(cell))
    return written, texts


def _alone(cell: Cell, unit: str, column: Column | None) -> str:
    if cell.text:
        return cell.text
    if cell.is_number and isinstance(cell.value, (int, float)):
        return units.format_value(cell.value, unit, _digits(cell, column))
    return _plain(cell)


def _plain(cell: Cell) -> str:
    if cell.status in STATUS_TEXT:
        return STATUS_TEXT[cell.status]
    if isinstance(cell.value, bool):
        return "yes" if cell.value else "no"
    return "" if cell.value is None else str(cell.value)


def _digits(cell: Cell, column: Column | None) -> int | None:
    if cell.digits is not None:
        return cell.digits
    return column.digits if column is not None else None


def _is_numeric(cells: Sequence[Cell]) -> bool:
    texts = sum(1 for cell in cells if isinstance(cell.value, (str, bool)))
    if any(cell.is_number for cell in cells):
        return 2 * texts <= len(cells)
    return texts == 0 and any(cell.status in STATUS_TEXT for cell in cells)
