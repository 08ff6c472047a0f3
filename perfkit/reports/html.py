"""Tables as HTML fragments: raw values in `data-value`, documentation as tooltips, no script, no style."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from perfkit.model import Cell, Column, Table
from perfkit.reports.layout import TextCell, TextTable, lay_out
from perfkit.reports.text import shorten, visible

_NAME_LIMIT = 36  # of a launch in the HTML report
_TOOLTIP_LIMIT = 400  # an 8,000-character name in 500 tooltips is 4 MB


def render(tables: Sequence[Table], *, width: int, color: bool) -> str:  # noqa: ARG001 (every format has them)
    """Each table as `<table class="perfkit" id=NAME>`, notes in a list below."""
    return "\n".join(fragment(table) for table in tables)


def fragment(table: Table) -> str:
    """One table, its lead as paragraphs above it and its notes below."""
    body, notes = table_parts(table)
    lead = "".join(f"<p>{escape(visible(sentence))}</p>\n" for sentence in table.lead)
    body = lead + body
    return f"{body}\n{notes}\n" if notes else f"{body}\n"


def table_parts(table: Table, *, sortable: bool = False, prefix: str = "") -> tuple[str, str]:
    """(table, notes below it). With `sortable` the headers hold buttons for the HTML report's script."""
    text = lay_out(table)
    kind = "perfkit sortable" if sortable else "perfkit"
    lines = [
        f'<table class="{kind}" id="{_attribute(prefix + table.name)}">',
        f"<caption>{escape(text.title)}</caption>",
    ]
    heads = [
        _header(column, header, right, sortable)
        for column, header, right in zip(table.columns, text.headers, text.numeric, strict=True)
    ]
    lines.append(f"<thead><tr>{''.join(heads)}</tr></thead>")
    lines.append("<tbody>")
    for cells, row in zip(table.rows, text.rows, strict=True):
        tds = [
            _cell(cell, _short(shown) if sortable and index == 0 else shown, right, first=index == 0)
            for index, (cell, shown, right) in enumerate(zip(cells, row, text.numeric, strict=True))
        ]
        lines.append(f"<tr>{''.join(tds)}</tr>")
    lines += ["</tbody>", "</table>"]
    return "\n".join(lines), "\n".join(_notes(text))


def _short(shown: TextCell) -> TextCell:
    """A launch's name where its end is seen, which tells it from others; the tooltip holds all of it."""
    text = shorten(shown.text, _NAME_LIMIT)
    return shown if text == shown.text else replace(shown, text=text, full=shown.full or shown.text)


def _header(column: Column, header: str, right: bool, sortable: bool) -> str:
    title = f' title="{_attribute(column.doc)}"' if column.doc else ""
    kind = ' class="num"' if right else ""
    # Long units are short here and break after their stroke, so that a page shows more columns.
    brief = re.sub(r"\([^()]*\)$", lambda unit: unit.group().replace("instruction", "inst"), header)
    broken = escape(brief).replace("/", "/<wbr>")
    inner = f'<button type="button">{broken}</button>' if sortable else escape(header)
    return f'<th scope="col"{kind}{title}>{inner}</th>'


def _cell(cell: Cell, shown: TextCell, right: bool, *, first: bool) -> str:
    kinds = [
        name
        for name, is_so in (("num", right), ("missing", shown.missing), ("invalid", shown.invalid))
        if is_so
    ]
    tag = "th" if first else "td"
    attributes = ' scope="row"' if first else ""
    if kinds:
        attributes += f' class="{" ".join(kinds)}"'
    if cell.is_number:
        attributes += f' data-value="{cell.value!r}"'
    tooltip = " · ".join(part for part in (shown.full, cell.note) if part)
    if tooltip:
        attributes += f' title="{_attribute(tooltip)}"'
    flag = " !" if shown.invalid else ""
    mark = f"<sup>{escape(shown.mark)}</sup>" if shown.mark else ""
    return f"<{tag}{attributes}>{escape(shown.text)}{flag}{mark}</{tag}>"


def _notes(text: TextTable) -> list[str]:
    if not text.notes:
        return []
    return ['<ul class="notes">', *[f"<li>{escape(note)}</li>" for note in text.notes], "</ul>"]


def _attribute(text: str) -> str:
    return escape(shorten(visible(text), _TOOLTIP_LIMIT), quote=True)
