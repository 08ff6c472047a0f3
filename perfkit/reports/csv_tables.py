"""Tables as CSV: raw values in SI, units in the header, statuses wherever a value is missing or doubtful.

Header cells are `name [unit]`. A column whose cells have units of their own gets a column `name.unit` beside
it, unless the table has a column `unit`. A column with a cell that is not `ok` gets `name.status`; missing
values are empty, so that pandas reads numbers. One table is one plain CSV file; several are separated by an
empty line and `# NAME`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from perfkit.model import Cell, Status, Table
from perfkit.units import stored_unit

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# A spreadsheet takes text that starts so for a formula; a leading apostrophe makes it text (OWASP, "CSV
# injection").
_FORMULA = ("=", "+", "-", "@", "\t")


def render(tables: Sequence[Table], *, width: int, color: bool) -> str:  # noqa: ARG001 (every format has them)
    """The tables as CSV; see the module's docstring for the columns."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for index, table in enumerate(tables):
        if len(tables) > 1:
            stream.write(("\n" if index else "") + f"# {table.name}\n")
        writer.writerows(_lines(table))
    return stream.getvalue()


def _lines(table: Table) -> list[list[str]]:
    rows_carry_units = any(column.name == "unit" for column in table.columns)
    header: list[str] = []
    columns: list[list[str]] = []
    for index, column in enumerate(table.columns):
        cells = [row[index] for row in table.rows]
        mixed = any(cell.unit not in (None, column.unit) for cell in cells)
        unit = stored_unit(column.unit)
        header.append(column.name if mixed or not unit else f"{column.name} [{unit}]")
        columns.append([_value(cell) for cell in cells])
        if mixed and not rows_carry_units:
            header.append(f"{column.name}.unit")
            columns.append([unit if cell.unit is None else stored_unit(cell.unit) for cell in cells])
        if any(cell.status is not Status.OK for cell in cells):
            header.append(f"{column.name}.status")
            columns.append([cell.status.value for cell in cells])
    lines = [[_safe(name) for name in header]]
    lines += [[column[row] for column in columns] for row in range(len(table.rows))]
    return lines


def _value(cell: Cell) -> str:
    if cell.value is None:
        return ""
    if isinstance(cell.value, str):
        return _safe(cell.value)
    # repr of a float is the shortest text that reads back to the same number.
    return repr(cell.value)


def _safe(text: str) -> str:
    # Line breaks and tabs are data; an escape sequence would act on the terminal that shows the file.
    text = _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)
    return f"'{text}" if text.startswith(_FORMULA) else text
