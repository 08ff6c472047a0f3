"""Units of counters as reports and rules write them: their dimensions, and the factor between two."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

# Counted things, with the plural or short form that some ncu release or person writes.
_COUNTS = {
    "inst": ("instruction", "instructions"),
    "sector": ("sectors",),
    "request": ("requests",),
    "wavefront": ("wavefronts",),
    "warp": ("warps",),
    "thread": ("threads",),
    "block": ("blocks",),
    "cycle": ("cycles",),
    "branch": ("branches",),
    "pass": ("passes",),
    "sample": ("samples",),
    "cluster": ("clusters",),
    "register": ("registers",),
    "launch": ("launches",),
    "SM": ("SMs",),
}
_COUNT_OF = {name: count for count, more in _COUNTS.items() for name in (count, *more)}
_SECONDS = ("s", "sec", "second", "seconds")
_BYTES = ("B", "byte", "bytes")
_HERTZ = ("Hz", "hz")
_SMALL = {
    "m": Fraction(1, 10**3),
    "u": Fraction(1, 10**6),
    "µ": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
    "p": Fraction(1, 10**12),
}
_LARGE = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit: its dimension as (base, power) pairs, how many of the base it is, and whether a number in it
    could be taken for one at another scale (a percentage for a fraction, ns for s), which counts cannot.
    """

    dimension: tuple[tuple[str, int], ...]
    factor: Fraction
    ambiguous: bool

    @property
    def plain(self) -> bool:
        """Whether it is a bare number, or a count of things."""
        return not self.ambiguous and all(base in _COUNTS for base, _ in self.dimension)


@lru_cache(maxsize=256)
def scale(unit: str) -> Scale:
    """The scale of a unit such as "%", "nsecond", "Kbyte/s", "inst/cycle"; "" and "1" are a bare number.

    A word that is not known is a base of its own, of factor 1: it equals only itself.
    """
    above, *below = unit.strip().split("/")
    powers: dict[str, int] = {}
    factor, ambiguous = Fraction(1), False
    for sign, text in ((1, above), *((-1, one) for one in below)):
        bases, size, scaled = _base(text.strip())
        for base, power in bases.items():
            powers[base] = powers.get(base, 0) + sign * power
        factor *= size**sign
        ambiguous = ambiguous or scaled
    return Scale(tuple(sorted((b, p) for b, p in powers.items() if p)), factor, ambiguous)


def _base(text: str) -> tuple[dict[str, int], Fraction, bool]:
    if text in ("", "1"):
        return {}, Fraction(1), False
    if text in ("%", "pct"):
        return {}, Fraction(1, 100), True
    if text == "fraction":
        return {}, Fraction(1), True
    if text in _COUNT_OF:
        return {_COUNT_OF[text]: 1}, Fraction(1), False
    for prefix, size in (("", Fraction(1)), *_prefixes(text)):
        rest = text[len(prefix) :]
        if rest in _SECONDS:
            return {"s": 1}, size, True
        if rest in _BYTES:
            return {"byte": 1}, size, True
        if rest in _HERTZ:
            return {"cycle": 1, "s": -1}, size, True
        if prefix and size > 1 and rest in _COUNT_OF:
            return {_COUNT_OF[rest]: 1}, size, True
    return {text: 1}, Fraction(1), False


def _prefixes(text: str) -> list[tuple[str, Fraction]]:
    known = {**_SMALL, **{name: Fraction(size) for name, size in (_LARGE | _BINARY).items()}}
    return [(name, size) for name, size in known.items() if text.startswith(name)]


def convert(value: float, stored: str, wanted: str) -> float | None:
    """`value`, which is in `stored`, in the unit `wanted`; None where they do not measure the same.

    "1" asks for the bare number: a percentage becomes a fraction, a count stays as it is. The result is the
    float nearest to the exact product. Infinity and NaN stay what they are.
    """
    have, want = scale(stored), scale(wanted)
    counts = not want.dimension and not want.ambiguous and have.plain
    if have.dimension != want.dimension and not counts:
        return None
    if value != value or value in (float("inf"), float("-inf")):
        return value
    try:
        return float(Fraction(value) * have.factor / want.factor)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
