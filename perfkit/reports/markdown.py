"""Tables as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfkit.model import Table
from perfkit.reports.layout import TextCell, TextTable, lay_out

_SPECIAL = re.compile(r"([\\`*\[\]|~$])")
_UNDERSCORE = re.compile(r"(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def render(tables: Sequence[Table], *, width: int, color: bool) -> str:  # noqa: ARG001 (every format has them)
    """The tables, each under a heading of level 3, notes as a list below."""
    return "\n".join(_table(lay_out(table)) for table in tables)


def escape(text: str) -> str:
    """`text` so that a Markdown reader shows it as it is; HTML in it stays text."""
    text = re.sub(r"[&<>]", lambda match: _ENTITIES[match.group()], text)
    # An underscore inside a word is no emphasis, and kernel names are full of them: those stay readable.
    return _UNDERSCORE.sub(r"\\_", _SPECIAL.sub(r"\\\1", text))


def _table(text: TextTable) -> str:
    lines = [f"### {escape(text.title)}", ""] if text.title else []
    for sentence in text.lead:
        lines += [escape(sentence), ""]
    grid = [
        [escape(header) for header in text.headers],
        *[[_cell(cell) for cell in row] for row in text.rows],
    ]
    widths = [max(3, *(len(row[index]) for row in grid)) for index in range(len(text.headers))]
    for number, row in enumerate(grid):
        padded = [
            cell.rjust(size) if right else cell.ljust(size)
            for cell, size, right in zip(row, widths, text.numeric, strict=True)
        ]
        lines.append(f"| {' | '.join(padded)} |")
        if number == 0:
            rule = [
                "-" * (size - 1) + (":" if right else "-")
                for size, right in zip(widths, text.numeric, strict=True)
            ]
            lines.append(f"| {' | '.join(rule)} |")
    if text.notes:
        lines += ["", *[f"- {escape(note)}" for note in text.notes]]
    return "\n".join(lines) + "\n"


def _cell(cell: TextCell) -> str:
    return escape(cell.text + (" !" if cell.invalid else "") + (f" [{cell.mark}]" if cell.mark else ""))
