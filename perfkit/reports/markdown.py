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
    from tabulate import tabulate

    lines = [f"### {escape(text.title)}", ""] if text.title else []
    for sentence in text.lead:
        lines += [escape(sentence), ""]
    # Numbers arrive as the texts that people read: tabulate must place them, not parse them.
    lines += tabulate(
        [[_cell(cell) for cell in row] for row in text.rows],
        headers=[escape(header) for header in text.headers],
        tablefmt="pipe",
        colalign=["right" if right else "left" for right in text.numeric],
        disable_numparse=True,
    ).splitlines()
    if text.notes:
        lines += ["", *[f"- {escape(note)}" for note in text.notes]]
    return "\n".join(lines) + "\n"


def _cell(cell: TextCell) -> str:
    return escape(cell.text + (" !" if cell.invalid else "") + (f" [{cell.mark}]" if cell.mark else ""))
