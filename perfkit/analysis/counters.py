"""Counters of one launch as they come from the reader, made into `Counter` objects only when asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from perfkit.model import Counter, Status

# value, unit, instances: what travels from the reading process
Raw = tuple[float | int | str | None, str, tuple[tuple[str | int, float], ...]]

# Units that ncu writes -> (multiply by, divide by) to be in the SI unit. Dividing keeps 61312 ns / 1e9 exact
# to the last digit.
_UNITS: Final[Mapping[str, tuple[float, float]]] = {
    "%": (1.0, 100.0),
    "nsecond": (1.0, 1e9),
    "ns": (1.0, 1e9),
    "usecond": (1.0, 1e6),
    "us": (1.0, 1e6),
    "msecond": (1.0, 1e3),
    "ms": (1.0, 1e3),
    "second": (1.0, 1.0),
    "s": (1.0, 1.0),
    "hz": (1.0, 1.0),
    "Hz": (1.0, 1.0),
    "cycle/second": (1.0, 1.0),
    "cycle/nsecond": (1e9, 1.0),
    "cycle/usecond": (1e6, 1.0),
    "Khz": (1e3, 1.0),
    "Mhz": (1e6, 1.0),
    "Ghz": (1e9, 1.0),
    "Kbyte": (1e3, 1.0),
    "Mbyte": (1e6, 1.0),
    "Gbyte": (1e9, 1.0),
    "Tbyte": (1e12, 1.0),
    "Kbyte/block": (1e3, 1.0),
    "Ksector": (1e3, 1.0),
    "Kinst": (1e3, 1.0),
    "Kcycle": (1e3, 1.0),
}


def to_si(value: float, unit: str) -> float:
    """`value`, which ncu gave in `unit`, in the SI unit; a percentage as a fraction."""
    known = _UNITS.get(unit)
    return value if known is None else value * known[0] / known[1]


class CounterMap(Mapping[str, Counter]):
    """Name -> Counter over raw tuples. A launch has hundreds of counters, of which most readers look at a
    few.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[str, Raw]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> Counter:
        value, unit, instances = self._raw[name]
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return Counter(name, None, unit, Status.NOT_COLLECTED, instances)
        if isinstance(value, float) and math.isinf(value):
            return Counter(name, value, unit, Status.INVALID, instances)
        return Counter(name, value, unit, Status.OK, instances)

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, name: object) -> bool:
        return name in self._raw

    def __repr__(self) -> str:
        return f"CounterMap({len(self._raw)} counters)"
