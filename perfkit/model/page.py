"""The parts of the HTML report, before a format is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from perfkit.model.explain import Waterfall
from perfkit.model.table import Table
from perfkit.model.traced import Roofline


@dataclass(frozen=True, slots=True)
class BarRow:
    """A kernel's bar; `second` marks what the others are measured against."""

    name: str
    value: float
    second: bool = False


@dataclass(frozen=True, slots=True)
class BarChart:
    """Speeds (or durations) of kernels in a unit; `how` says where they come from."""

    title: str
    unit: str
    rows: tuple[BarRow, ...]
    how: str = ""


@dataclass(frozen=True, slots=True)
class StallRow:
    """Cycles per issued instruction of a kernel by stall reason; `group` is its problem size, if known."""

    name: str
    stalls: tuple[tuple[str, float], ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What changed from one kernel to the next; no waterfall where the two cannot be compared."""

    title: str
    verdict: str
    sentences: tuple[str, ...]
    waterfall: Waterfall | None


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Everything `perfkit report` shows, in order."""

    title: str
    subtitle: str
    facts: tuple[tuple[str, str], ...]  # (name, value)
    bars: tuple[BarChart, ...]
    counters: tuple[Table, ...]
    stalls: tuple[StallRow, ...]
    rooflines: tuple[Roofline, ...]
    model: tuple[Table, ...]
    explanations: tuple[Explanation, ...]
    provenance: tuple[Table, ...]
    notes: tuple[tuple[str, str], ...] = ()  # (section, sentence): what a section leaves out, and why
