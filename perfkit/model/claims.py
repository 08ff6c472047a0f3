"""Statements about measurements, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Where:
    """On what a claim is made. Empty: on anything. `gpu` is a regular expression, searched without case."""

    gpu: str = ""
    compute_capability: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement: a number that must meet `expected`, or, without it, a comparison that must hold.

    `tolerance`: absolute where it is a number or has a unit, relative where it ends in %.
    """

    id: str
    text: str
    expression: str
    expected: float | str | None = None
    tolerance: float | str = 0.0
    where: Where = Where()
    file: str = ""


class Outcome(StrEnum):
    """What became of a claim. UNDECIDED: it applies, but a value it needs was not collected."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_APPLICABLE = "not applicable"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A claim decided: `measured` and `stated` are the two sides as people read them."""

    claim: Claim
    outcome: Outcome
    measured: str = ""
    stated: str = ""
    reason: str = ""
