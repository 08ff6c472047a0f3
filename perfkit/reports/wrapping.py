"""How wide the columns of a table are at a terminal, and texts on several lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

GAP = 2  # blanks between columns
_WHOLE_WORD = 30  # a word of at most so many cells is not broken
# A long word breaks behind punctuation, and between camelCase's humps.
_BREAK = re.compile(r"(?<=[_:,;/<>.=&-])(?![_:,;/<>.=&-])|(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Width:
    """Terminal cells of a column: its widest line, and what it can be squeezed to by wrapping texts."""

    natural: int
    least: int


def cells(text: str) -> int:
    """Terminal cells that `text` takes (wide characters take two)."""
    from rich.cells import cell_len

    return cell_len(text)


def width_of(header: str, numbers: Sequence[str], texts: Sequence[str], room: int) -> Width:
    """Numbers are never broken, headers only between parts of words, texts not below a fifth of `room`, and
    no word of theirs that is short enough to be copied (a run's id, a counter).
    """
    number = max(map(cells, numbers), default=0)
    text = max(map(cells, texts), default=0)
    natural = max(cells(header), number, text)
    parts = [part for word in header.split(" ") for part in _BREAK.split(word)]
    shortest_header = min(max(14, *map(cells, parts)) if parts else 0, 20, cells(header))
    words = [size for line in texts for size in map(cells, line.split(" ")) if size <= _WHOLE_WORD]
    return Width(natural, max(shortest_header, number, min(text, max(16, room // 5, *words)), 1))


def fit(widths: Sequence[Width], room: int) -> list[int] | None:
    """A width for each column so that all fit in `room`, the widest squeezed first; None if they cannot."""
    left = room - GAP * (len(widths) - 1)
    if sum(width.least for width in widths) > left:
        return None
    low, high = 0, max((width.natural for width in widths), default=0)
    while low < high:
        cap = (low + high + 1) // 2
        if sum(max(width.least, min(width.natural, cap)) for width in widths) <= left:
            low = cap
        else:
            high = cap - 1
    return [max(width.least, min(width.natural, low)) for width in widths]


def blocks(widths: Sequence[Width], sticky: int, room: int) -> list[list[int]]:
    """Indices of the columns of each block: the sticky ones, then as many as fit when squeezed."""
    if fit(widths, room) is not None:
        return [list(range(len(widths)))]
    head = list(range(min(sticky, len(widths))))
    left = room - sum(widths[index].least + GAP for index in head)
    found: list[list[int]] = []
    used = 0
    for index in range(len(head), len(widths)):
        need = widths[index].least + GAP
        if not found or used + need - GAP > left:
            found.append(list(head))
            used = 0
        found[-1].append(index)
        used += need
    return found or [head]


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at blanks, else behind punctuation, else anywhere.

    Further lines of a tree's entry ("· · words") stand under its words.
    """
    if cells(text) <= width:
        return [text]
    marks = len(text) - len(text.lstrip("· "))
    if 0 < marks <= width - 8:
        first, *more = wrap(text[marks:], width - marks)
        return [text[:marks] + first, *(" " * marks + line for line in more)]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cells(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        *full, line = _pieces(word, width)
        lines += full
    return [*lines, line]


def _pieces(word: str, width: int) -> list[str]:
    pieces, piece = [], ""
    for part in _BREAK.split(word):
        for atom in [part] if cells(part) <= width else part:
            if piece and cells(piece + atom) > width:
                pieces.append(piece)
                piece = ""
            piece += atom
    return [*pieces, piece]
