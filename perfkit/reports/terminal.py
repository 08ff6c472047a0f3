"""Tables at a terminal, by rich: aligned decimals, long texts on several lines, wide tables in blocks."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfkit.model import Table
from perfkit.reports.layout import TextCell, TextTable, lay_out
from perfkit.reports.wrapping import Width, blocks, cells, fit, width_of, wrap

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

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
        _print(console, lay_out(table), _sticky(table), max(width, 20))
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
    widths = [_width(text, index, column, width) for index, column in enumerate(columns)]
    found = blocks(widths, sticky, width)
    for number, block in enumerate(found if text.rows else found[:1]):
        if number:
            console.print()
        chosen = [widths[index] for index in block]
        # A terminal narrower than the key and one column squeezed: the lines run over.
        room = fit(chosen, width) or [one.least for one in chosen]
        console.print(_grid(text, columns, dict(zip(block, room, strict=True))))
    if not text.rows:
        console.print(Text("(no rows)", style="dim"))
    for note in text.notes:
        for line in textwrap.wrap(note, width, subsequent_indent="  ") or [""]:
            console.print(Text(line, style="dim"))


def _sticky(table: Table) -> int:
    """Leading columns that every block repeats: as many as it takes to tell the rows apart, at most 3."""
    if len(table.columns) > 2 and table.columns[1].name == "unit":
        return 2
    most = min(3, len(table.columns) - 1)
    keys = [{tuple(cell.value for cell in row[:count]) for row in table.rows} for count in range(1, most + 1)]
    return next((count for count, key in enumerate(keys, start=1) if len(key) == len(table.rows)), 1)


def _width(text: TextTable, index: int, column: list[str], room: int) -> Width:
    is_number = [row[index].number and text.numeric[index] for row in text.rows]
    numbers = [line for line, number in zip(column[1:], is_number, strict=True) if number]
    texts = [line for line, number in zip(column[1:], is_number, strict=True) if not number]
    return width_of(column[0], numbers, texts, room)


def _grid(text: TextTable, columns: list[list[str]], block: dict[int, int]) -> Grid:
    """The columns of `block` in the widths it gives them."""
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    # Rich's own right alignment strips the blanks that put decimal points under each other.
    lines = {
        index: _align([wrap(line, room) for line in columns[index]], right=text.numeric[index])
        for index, room in block.items()
    }
    tallest = max(len(column[0]) for column in lines.values())
    for column in lines.values():
        grid.add_column(Text("\n".join([""] * (tallest - len(column[0])) + column[0])), no_wrap=True)
    for row, line in enumerate(text.rows, start=1):
        grid.add_row(*[Text("\n".join(lines[index][row]), style=_style(line[index])) for index in block])
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


def _align(column: list[list[str]], *, right: bool) -> list[list[str]]:
    if not right:
        return column
    width = max(cells(line) for lines in column for line in lines)
    return [[" " * (width - cells(line)) + line for line in lines] for lines in column]


def _suffix(cell: TextCell) -> str:
    return (" !" if cell.invalid else "") + (f" [{cell.mark}]" if cell.mark else "")


def _after_point(number: str) -> int:
    """Characters from the decimal point on, a unit included."""
    whole, point, _ = number.partition(".")
    if not point:
        whole = number.partition(" ")[0]
    return len(number) - len(whole)


def _style(cell: TextCell) -> str:
    if cell.missing:
        return "dim"
    return "yellow" if cell.invalid else ""
