"""Tables as JSON: every cell with value (SI), unit, status and note."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from perfkit import __version__
from perfkit.model import Cell, Column, Table
from perfkit.units import stored_unit

SCHEMA_VERSION = 1


def render(tables: Sequence[Table], *, width: int, color: bool) -> str:  # noqa: ARG001 (every format has them)
    """{"schema_version", "perfkit_version", "tables": [{name, title, columns, rows, notes}]}.

    A table that says something above its rows has it in `lead`.
    """
    document = {
        "schema_version": SCHEMA_VERSION,
        "perfkit_version": __version__,
        "tables": [_table(table) for table in tables],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        **({"lead": list(table.lead)} if table.lead else {}),
        "columns": [
            {"name": column.name, "title": column.title, "unit": stored_unit(column.unit), "doc": column.doc}
            for column in table.columns
        ],
        "rows": [
            {column.name: _cell(cell, column) for cell, column in zip(row, table.columns, strict=True)}
            for row in table.rows
        ],
        "notes": list(table.notes),
    }


def _cell(cell: Cell, column: Column) -> Mapping[str, Any]:
    unit = stored_unit(column.unit if cell.unit is None else cell.unit)
    found: dict[str, Any] = {"value": cell.value, "unit": unit, "status": cell.status.value}
    if cell.text:
        found["text"] = cell.text
    if cell.note:
        found["note"] = cell.note
    return found
