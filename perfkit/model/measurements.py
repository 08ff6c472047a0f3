"""Everything a set of runs measured, by name, kernel and problem, each value with where it comes from.

Made by analysis/measurements.py; the article's tables, the claims and the HTML report are all read off it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfkit.model.runs import RunRecord
from perfkit.model.values import Evaluated, Status


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from.

    `kind`: "counters" (a launch of a report), "bench" (a timing of a run) or "derived" (a formula over other
    measurements, named in `inputs` as `name(kernel, problem)`). `counters` holds what the formula read, as
    (name, value as stored, unit as stored).
    """

    kind: str
    file: str = ""  # the report, or the run.json, as RUN/FILE
    sha256: str = ""
    launch: str = ""  # range.launch in the report
    kernel: str = ""  # full, demangled
    formula: str = ""
    counters: tuple[tuple[str, float | int | str | None, str], ...] = ()
    inputs: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Traced:
    """A value (SI, fractions 0..1) that can be traced; None with a reason where there is none."""

    value: float | str | None
    unit: str
    source: Source
    status: Status = Status.OK
    reason: str = ""

    @property
    def number(self) -> float:
        """The value as a float, NaN where there is none."""
        return float(self.value) if isinstance(self.value, (int, float)) else float("nan")


@dataclass(frozen=True, slots=True)
class Measurements:
    """Values by (name, kernel label, problem). Kernels are in ladder order, problems from small to large."""

    gpu: str
    compute_capability: tuple[int, int] | None
    kernels: tuple[str, ...]
    problems: tuple[str, ...]
    values: Mapping[tuple[str, str, str], Traced]
    launches: Mapping[tuple[str, str], Evaluated]  # the launch whose counters stand for (kernel, problem)
    reference: str = ""  # the kernel that the others are measured against, "" for none
    runs: tuple[RunRecord, ...] = ()
    warnings: tuple[str, ...] = ()

    def get(self, name: str, kernel: str, problem: str) -> Traced | None:
        """The value, or None where nothing of that name was looked for."""
        return self.values.get((name, kernel, problem))

    def number(self, name: str, kernel: str, problem: str) -> float:
        """The value as a float, NaN where there is none."""
        found = self.get(name, kernel, problem)
        return found.number if found is not None else float("nan")

    def doubtful(self, name: str, problem: str) -> dict[str, str]:
        """Kernel -> why its value cannot be right. Nothing is drawn by such a value."""
        held = {kernel: self.get(name, kernel, problem) for kernel in self.kernels}
        return {k: one.reason for k, one in held.items() if one is not None and one.status is Status.INVALID}

    @property
    def main_problem(self) -> str:
        """The problem most kernels have values for; of several, the largest."""
        counts = dict.fromkeys(self.problems, 0)
        for kernel in self.kernels:
            for problem in self.problems:
                held = (kernel, problem) in self.launches or self.get("time", kernel, problem) is not None
                counts[problem] += held
        return max(reversed(self.problems), key=lambda problem: counts[problem], default="")
