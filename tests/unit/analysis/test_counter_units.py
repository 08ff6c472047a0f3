"""Units of counters: dimensions, exact factors, and which numbers could be taken for others."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.counter_units import convert, scale

# Every unit that the counters of 36 field reports have, and whether a bare number in it could be mistaken.
FIELD = {
    "": False, "%": True, "sector": False, "inst": False, "byte": True, "warp": False, "cycle": False,
    "block": False, "inst/cycle": False, "byte/block": True, "sector/s": True, "sector/cycle": False,
    "hz": True, "byte/s": True, "pass": False, "request": False, "register/thread": False, "ns": True,
    "thread": False, "sectors": False, "branches": False, "byte/sector": True, "SM": False,
    "cluster": False, "byte/cycle": True, "sample": False, "%/register": True, "%/byte": True, "1/s": True,
    "block/s": True, "Kbyte/block": True, "nsecond": True, "Ghz": True, "cycle/nsecond": True,
    "Ksector": True,
}  # fmt: skip


@pytest.mark.parametrize(("unit", "ambiguous"), FIELD.items())
def test_which_units_must_be_stated(unit: str, ambiguous: bool) -> None:
    assert scale(unit).ambiguous is ambiguous


@pytest.mark.parametrize(
    ("value", "stored", "wanted", "expected"),
    [
        (52.1, "%", "%", 52.1),
        (52.1, "%", "fraction", 0.521),
        (52.1, "%", "1", 0.521),
        (0.659, "fraction", "%", 65.9),
        (20000.0, "ns", "us", 20.0),
        (20000.0, "nsecond", "µs", 20.0),
        (57728.0, "ns", "s", 5.7728e-05),
        (2.0, "Kbyte", "byte", 2000.0),
        (2048.0, "byte", "KiB", 2.0),
        (3e9, "byte/s", "GB/s", 3.0),
        (1.5, "cycle/nsecond", "Ghz", 1.5),
        (1.5e9, "hz", "MHz", 1500.0),
        (7.0, "inst", "instruction", 7.0),
        (7.0, "sectors", "sector", 7.0),
        (7.0, "inst", "1", 7.0),
        (7.0, "", "1", 7.0),
        (0.7, "inst/cycle", "1", 0.7),
        (7.0, "inst", "%", None),
        (7.0, "", "inst", None),
        (7.0, "ns", "%", None),
        (7.0, "ns", "1", None),
        (7.0, "byte", "byte/s", None),
        (7.0, "cycle", "ns", None),
        (7.0, "furlong", "furlong", 7.0),
        (7.0, "furlong", "mile", None),
    ],
)
def test_conversions(value: float, stored: str, wanted: str, expected: float | None) -> None:
    assert convert(value, stored, wanted) == expected


@given(st.floats(allow_nan=False), st.sampled_from(sorted(FIELD)))
def test_a_unit_is_itself(value: float, unit: str) -> None:
    assert convert(value, unit, unit) == value


@given(st.floats(1e-9, 1e15), st.sampled_from(["ns", "us", "ms", "s"]), st.sampled_from(["ns", "us", "s"]))
def test_there_and_back(value: float, one: str, other: str) -> None:
    there = convert(value, one, other)
    assert there is not None
    assert convert(there, other, one) == pytest.approx(value, rel=1e-15)


def test_what_is_too_large_is_infinite() -> None:
    assert convert(1e308, "s", "ns") == math.inf
