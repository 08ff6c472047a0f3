"""A table whose cells can be traced, and the parts of a roofline figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfkit.model.measurements import Traced
from perfkit.model.table import Table

LEVEL_NAMES = {"dram": "DRAM", "l2": "L2", "l1": "L1/shared"}  # how a roofline's levels are written


@dataclass(frozen=True, slots=True)
class TracedTable:
    """A table and what stands behind its cells, by (row key, column name). Row key: the first cell's text."""

    table: Table
    sources: Mapping[tuple[str, str], Traced]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A limit of a roofline: `kind` "compute" (FLOP/s or inst/s) or "memory" (byte/s or transaction/s)."""

    name: str
    kind: str
    value: float
    unit: str
    origin: str  # "counters", "device attributes", "architecture" or "measured", with how
    counters: tuple[str, ...] = ()  # what it was computed from, where that was counters of a launch


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A kernel on a roofline: work per byte of `level` (dram, l2, l1), and work per second."""

    label: str
    problem: str
    level: str
    intensity: float
    rate: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """What a roofline figure shows. `missing` says which kernels or ceilings could not be drawn, and why."""

    title: str
    ceilings: tuple[Ceiling, ...]
    points: tuple[RooflinePoint, ...]
    intensity_unit: str  # "FLOP/byte" or "inst/transaction"
    rate_unit: str  # "FLOP/s" or "inst/s"
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
