"""The one thing reports/ renders: a table whose cells carry value, unit and status."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfkit.model.values import Status


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as it is (SI, fractions 0..1). `unit` overrides the column's; `note` becomes a footnote or tooltip."""

    value: float | int | str | None
    status: Status = Status.OK
    unit: str | None = None
    digits: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is the stable machine key, `title` is for people. `unit` is SI or "fraction" (shown as %).

    `digits`: digits after the point for people; None = chosen by units.py.
    """

    name: str
    title: str
    unit: str = ""
    digits: int | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under columns; `notes` are printed under it (never in csv)."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name}: a row of {len(row)} cells under {len(self.columns)} columns")
