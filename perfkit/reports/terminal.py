"""Tables at a terminal, by rich: aligned decimals, wide tables in blocks of columns under their first."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfkit.model import Table
from perfkit.reports.layout import TextCell, TextTable, lay_out
from perfkit.reports.text import NAME_LIMIT

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

_GAP = 2  # blanks between columns
_UNBOUNDED = 100_000  # rich must not wrap or shrink what was laid out to fit


def render(tables: Sequence[Table], *, width: int, color: bool) -> str:
    """The tables one under the other, in lines of at most `width` where a key and one column fit in that."""
    from rich.console import Console

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=_UNBOUNDED,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for index, table in enumerate(tables):
        if index:
            console.print()
        text = lay_out(table, limit=max(16, min(NAME_LIMIT, width // 3)))
        # The unit column stays beside the metric's name when the columns go on in a further block.
        sticky = 2 if len(table.columns) > 2 and table.columns[1].name == "unit" else 1
        _print(console, text, sticky, max(width, 20))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _print(console: Console, text: TextTable, sticky: int, width: int) -> None:
    from rich.text import Text

    if text.title:
        console.print(Text(text.title, style="bold"))
    for sentence in text.lead:
        for line in textwrap.wrap(sentence, width, subsequent_indent="  ") or [""]:
            console.print(Text(line))
    if text.lead:
        console.print()
    columns = [_column(text, index) for index in range(len(text.headers))]
    widths = [max(cells(line) for line in column) for column in columns]
    for number, block in enumerate(_blocks(widths, sticky, width)):
        if number:
            console.print()
        console.print(_grid(text, columns, block))
    if not text.rows:
        console.print(Text("(no rows)", style="dim"))
    for note in text.notes:
        for line in textwrap.wrap(note, width, subsequent_indent="  ") or [""]:
            console.print(Text(line, style="dim"))


def _grid(text: TextTable, columns: list[list[str]], block: list[int]) -> Grid:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    # Rich's own right alignment strips the blanks that put decimal points under each other.
    aligned = {index: _align(columns[index], right=text.numeric[index]) for index in block}
    for index in block:
        grid.add_column(Text(aligned[index][0]), no_wrap=True)
    for row, line in enumerate(text.rows, start=1):
        grid.add_row(*[Text(aligned[index][row], style=_style(line[index])) for index in block])
    return grid


def _column(text: TextTable, index: int) -> list[str]:
    """Header and cells of a column; numbers padded so that their decimal points stand under each other."""
    column = [row[index] for row in text.rows]
    numbers = [cell for cell in column if cell.number]
    points_meet = not text.rows_carry_units
    fraction = max((_after_point(cell.text) for cell in numbers), default=0) if points_meet else 0
    suffix = max((len(_suffix(cell)) for cell in numbers), default=0)
    lines = [text.headers[index]]
    for cell in column:
        if cell.number and text.numeric[index]:
            padded = cell.text + " " * (fraction - _after_point(cell.text) if points_meet else 0)
            lines.append(padded + _suffix(cell).ljust(suffix))
        else:
            lines.append(cell.text + _suffix(cell))
    return lines


def _align(column: list[str], *, right: bool) -> list[str]:
    width = max(cells(line) for line in column)
    return [" " * (width - cells(line)) + line for line in column] if right else column


def _suffix(cell: TextCell) -> str:
    return (" !" if cell.invalid else "") + (f" [{cell.mark}]" if cell.mark else "")


def _after_point(number: str) -> int:
    """Characters from the decimal point on, a unit included."""
    whole, point, _ = number.partition(".")
    if not point:
        whole = number.partition(" ")[0]
    return len(number) - len(whole)


def _blocks(widths: list[int], sticky: int, width: int) -> list[list[int]]:
    """Indices of the columns of each block: the sticky ones, then as many as fit."""
    head = list(range(min(sticky, len(widths))))
    room = width - sum(widths[index] + _GAP for index in head)
    blocks: list[list[int]] = []
    used = 0
    for index in range(len(head), len(widths)):
        need = widths[index] + _GAP
        if not blocks or used + need - _GAP > room:
            blocks.append(list(head))
            used = 0
        blocks[-1].append(index)
        used += need
    return blocks or [head]


def _style(cell: TextCell) -> str:
    if cell.missing:
        return "dim"
    return "yellow" if cell.invalid else ""


def cells(text: str) -> int:
    """Terminal cells that `text` takes (wide characters take two)."""
    from rich.cells import cell_len

    return cell_len(text)
