"""The one thing reports/ renders: a table whose cells carry value, unit and status."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from perfkit.model.values import Status


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as it is (SI, fractions 0..1). `unit` overrides the column's; `note` becomes a footnote.

    `text` is what people see instead of the formatted value, where a number alone would not say it. NaN and
    infinity are no values: they become None, and OK becomes UNDEFINED. None with OK is an empty cell.
    """

    value: float | int | str | bool | None
    status: Status = Status.OK
    unit: str | None = None
    digits: int | None = None
    note: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        value = self.value
        if not isinstance(value, (float, int, str, type(None))) and hasattr(value, "item"):
            value = value.item()  # numpy scalars
            object.__setattr__(self, "value", value)
        if isinstance(value, float) and not math.isfinite(value):
            object.__setattr__(self, "value", None)
            if self.status is Status.OK:
                object.__setattr__(self, "status", Status.UNDEFINED)

    @property
    def is_number(self) -> bool:
        """Whether it holds a number to show (an INVALID one is shown, and flagged)."""
        return (
            isinstance(self.value, (int, float))
            and not isinstance(self.value, bool)
            and self.status in (Status.OK, Status.INVALID)
        )


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is the stable machine key, `title` is for people. `unit` is SI or "fraction" (shown as %).

    `digits`: digits after the point for people; None = chosen by units.py. A column named `unit` says that
    the rows carry the units (metrics as rows, launches as columns): people then see one scale a row, and
    the scaled unit in that column.
    """

    name: str
    title: str
    unit: str = ""
    digits: int | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns; `lead` is said above it and `notes` under it (neither in csv)."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())
    lead: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.name}: a row of {len(row)} cells under {len(self.columns)} columns"
                )
