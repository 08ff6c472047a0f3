"""units.py: what people and tools write, read back and forth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit import units


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("1.5 ms", 0.0015, "s"),
        ("1.5ms", 0.0015, "s"),
        ("268,435,456", 268435456, ""),
        ("17.18 GB", 17.18e9, "byte"),
        ("65.9 %", 0.659, "fraction"),
        ("1.5 points", 0.015, "point"),
        ("1 point", 0.01, "point"),
        ("-3 °C", -3.0, "°C"),
        ("2,175 MHz", 2.175e9, "Hz"),
        ("1.98 Ghz", 1.98e9, "Hz"),
        ("5,057 GFLOPS", 5.057e12, "FLOP/s"),
        ("936 GB/s", 936e9, "byte/s"),
        ("64 KiB", 65536, "byte"),
        ("12 usecond", 12e-6, "s"),
        ("3 Kbyte/block", 3000.0, "byte/block"),
        ("1.2 cycle/nsecond", 1.2e9, "cycle/s"),
        ("16.5 sector/request", 16.5, "sector/request"),
        (".5", 0.5, ""),
        ("1e3 W", 1000.0, "W"),
    ],
)
def test_parse(text: str, value: float, unit: str) -> None:
    number, found = units.parse(text)
    assert found == unit
    assert number == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize("text", ["", "ms", "fast", "1,23 s", "--1", "e5", "."])
def test_what_is_no_number_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        units.parse(text)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0015, "s", "1.5 ms"),
        (1.38, "s", "1.38 s"),
        (60e-6, "s", "60 µs"),
        (17.18e9, "byte", "17.18 GB"),
        (512, "byte", "512 B"),
        (268435456, "", "268,435,456"),
        (0.659, "fraction", "65.9 %"),
        (1.0, "fraction", "100.0 %"),
        (6.105e12, "FLOP/s", "6.105 TFLOP/s"),
        (1.98e9, "Hz", "1.98 GHz"),
        (0.0, "s", "0 s"),
        (1.50447e11, "transaction/s", "150.4 Gtransaction/s"),
        (16.5, "", "16.5"),
        (5.0, "", "5"),
        (0.00012, "", "0.00012"),
        (float("nan"), "s", "undefined"),
        (999.96e6, "byte", "1,000 MB"),
    ],
)
def test_format_value(value: float, unit: str, text: str) -> None:
    assert units.format_value(value, unit) == text


def test_one_scale_for_many_values_follows_the_median() -> None:
    divisor, written = units.common_scale([1.4, 0.003, 0.0031], "s")
    assert (round(1 / divisor), written) == (1000, "ms")
    assert units.common_scale([], "byte") == (1.0, "B")
    assert units.common_scale([0.3], "byte") == (1.0, "B")


def test_decimals_look_at_the_rounded_number() -> None:
    assert units.decimals([9.9996]) == 2
    assert units.decimals([32.0, 16.5]) == 2
    assert units.decimals([276.0, 2.77]) == 2  # 2.8 would hide the second digit of the fastest kernel
    assert units.decimals([8518.2, 396.41]) == 0
    assert units.decimals([4096.0, 1.0]) == 0
    assert units.decimals([]) == 0


def test_a_number_too_small_for_its_digits_is_not_shown_as_zero() -> None:
    assert units.format_number(0.0004, 1) == "0.00040"
    assert units.format_number(3e-9, 2) == "3.0e-09"
    assert units.format_number(-0.0, 1) == "0.0"
    assert units.format_number(0.0, 1) == "0.0"


@given(
    st.floats(min_value=1e-9, max_value=1e15),
    st.sampled_from(["s", "Hz", "byte", "W", "J", "FLOP/s", "byte/s", "fraction", "", "cycle"]),
)
def test_what_is_formatted_reads_back_to_the_digits_shown(value: float, unit: str) -> None:
    number, found = units.parse(units.format_value(value, unit))
    assert found == unit
    if unit == "fraction":
        assert number == pytest.approx(value, abs=0.00051, rel=0.06)
    elif value >= 1e-9 and (unit != "byte" or value >= 1):
        assert math.isclose(number, value, rel_tol=0.06 if value < 1 else 6e-4)


@given(st.integers(min_value=-(10**30), max_value=10**30))
def test_integers_read_back_exactly(value: int) -> None:
    assert units.parse(units.format_value(value)) == (value, "")
