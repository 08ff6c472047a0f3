"""SI units: parsing what people and tools write, and formatting values for people.

Values are kept in SI (s, Hz, byte, W, J, FLOP/s) and fractions as 0..1; prefixes and percent signs exist only
in text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

FRACTION = "fraction"
POINT = "point"  # a difference of two fractions, shown in percentage points

# Units that take an SI prefix in text, and how they are written there.
_PREFIXED = {
    "s": "s",
    "Hz": "Hz",
    "byte": "B",
    "W": "W",
    "J": "J",
    "FLOP": "FLOP",
    "inst": "inst",
    "transaction": "transaction",
}
# Units that are never below one: no milli-bytes.
_WHOLE = {"byte", "FLOP", "inst", "transaction"}
_PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_FACTORS = {
    "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "": 1.0,
    "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
# Spellings of base units, among them those of Nsight Compute ("nsecond", "Kbyte", "Ghz").
_SPELLINGS = {
    "s": "s", "sec": "s", "second": "s", "seconds": "s",
    "Hz": "Hz", "hz": "Hz",
    "B": "byte", "byte": "byte", "bytes": "byte",
    "W": "W", "J": "J",
    "FLOP": "FLOP", "FLOPs": "FLOP",
}  # fmt: skip
_NUMBER = re.compile(
    r"\s*([+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\d,.])\s*(.*?)\s*\Z",
    re.DOTALL,
)


def parse(text: str) -> tuple[float | int, str]:
    """(value in SI, unit) of `text`.

    "1.5 ms" -> (0.0015, "s"), "268,435,456" -> (268435456, ""), "65.9 %" -> (0.659, "fraction").
    An integer without a unit stays an int. Raises ValueError for anything else, naming the text.
    """
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit (such as '1.5 ms', '17.18 GB', '65.9 %')")
    plain = match.group(1).replace(",", "")
    factor, unit = parse_unit(match.group(2))
    if not unit and re.fullmatch(r"[+-]?\d+", plain):
        return int(plain), ""
    value = float(plain)
    # Dividing by an exact power keeps 1.5 ms at 0.0015, where multiplying by 1e-3 would not always.
    return (value / round(1 / factor) if factor < 1 else value * factor), unit


def parse_unit(text: str) -> tuple[float, str]:
    """(factor, SI unit): "GB/s" -> (1e9, "byte/s"), "nsecond" -> (1e-9, "s"), "%" -> (0.01, "fraction").

    A unit that is not SI ("sector", "register/thread", "cycle") is returned as it is, with factor 1.
    """
    text = text.strip()
    if text in ("%", "pct"):
        return 0.01, FRACTION
    if text in ("point", "points"):
        return 0.01, POINT
    if text.endswith("FLOPS"):
        text = text[:-1] + "/s"
    head, slash, rest = text.partition("/")
    factor, unit = _split(head)
    if not slash:
        return factor, unit
    below, per = _split(rest)
    return factor / below, f"{unit}/{per}"


def _split(text: str) -> tuple[float, str]:
    if text in _SPELLINGS:
        return 1.0, _SPELLINGS[text]
    for length in (2, 1):
        prefix, base = text[:length], text[length:]
        if prefix in _FACTORS and base in _SPELLINGS:
            return _FACTORS[prefix], _SPELLINGS[base]
    return 1.0, text


def stored_unit(unit: str) -> str:
    """The unit for machines: a difference in points is stored as the fraction that it is."""
    return FRACTION if unit == POINT else unit


def common_scale(values: Iterable[float], unit: str) -> tuple[float, str]:
    """(divisor, unit as written) that suits all of `values`: ([0.0012, 0.3], "s") -> (0.001, "ms").

    The prefix is the one of the median magnitude, so that one outlier does not push the others to zeros.
    """
    if unit == FRACTION:
        return 0.01, "%"
    if unit == POINT:
        return 0.01, "points"
    head, slash, rest = unit.partition("/")
    if head not in _PREFIXED:
        return 1.0, unit
    sizes = sorted(abs(value) for value in values if value and math.isfinite(value))
    exponent = 0
    if sizes:
        exponent = 3 * math.floor(math.log10(sizes[len(sizes) // 2]) / 3 + 1e-12)
        exponent = max(0 if head in _WHOLE else -12, min(18, exponent))
    return 10.0**exponent, f"{_PREFIXES[exponent]}{_PREFIXED[head]}{slash}{rest}"


def decimals(values: Iterable[float], significant: int = 4) -> int:
    """Digits after the point, 0 to 3, for values (scaled) that stand under each other.

    The largest gets `significant` digits and the smallest one less, whichever asks for more.
    """
    sizes = [abs(value) for value in values if math.isfinite(value)]
    if all(value == int(value) for value in sizes):
        return 0
    smallest = min(value for value in sizes if value)
    needed = max(
        significant - 1 - _magnitude(max(sizes), significant), significant - 2 - _magnitude(smallest, 3)
    )
    return max(0, min(significant - 1, needed))


def _magnitude(value: float, significant: int) -> int:
    """Power of ten of `value` as it prints: 9.9996 at four digits is 10.00."""
    return math.floor(math.log10(float(f"{value:.{significant}g}")))


def format_number(value: float | int, digits: int, *, widen: bool = True) -> str:
    """`value` with thousands separators and `digits` after the point; `widen`: more where it would be 0."""
    if isinstance(value, int):
        return f"{value:,}" if digits == 0 else f"{value:,.{digits}f}"
    if widen and value and abs(value) < 0.5 * 10.0**-digits:
        # Two significant digits beat a zero that is none.
        shown = max(digits, 1 - math.floor(math.log10(abs(value))))
        return f"{value:.{shown}f}" if shown <= 6 else f"{value:.1e}"
    if abs(value) >= 1e15:
        return f"{value:.4g}"
    text = f"{value:,.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


def format_value(value: float | int, unit: str = "", digits: int | None = None) -> str:
    """A value with its unit for people: (0.0015, "s") -> "1.5 ms", (0.659, "fraction") -> "65.9 %"."""
    if not math.isfinite(value):
        return "undefined"
    divisor, written = common_scale([value], unit)
    scaled: float | int = value if divisor == 1.0 else value / divisor
    if digits is None:
        digits = 1 if unit == FRACTION else decimals([scaled])
    text = format_number(scaled, digits)
    if digits and unit != FRACTION and "." in text and "e" not in text and not text.endswith("."):
        text = text.rstrip("0").rstrip(".")
    return f"{text} {written}".rstrip()
