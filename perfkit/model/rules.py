"""The rules of a CI gate on counters, and what checking them gave."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: `metric` of the kernels that `kernel` (a pattern of labels) matches, `op` against a value
    or baseline.

    `op`: <=, <, >=, >, ==, != against `value`; unchanged, not_above, not_below against the baseline,
    within `tolerance` (relative) or `margin` (absolute), whichever allows more. `value` and `margin` are in
    `unit`; without one in the metric's SI unit, fractions 0..1. A rule on a raw counter must state its unit
    where the counter has one that could be mistaken.
    """

    name: str
    kernel: str
    metric: str
    op: str
    value: float | str | None = None
    problem: str = ""  # "" every problem
    gpu: str = ""  # a pattern of GPU names; the rule does not apply to others
    tolerance: float = 0.0
    margin: float = 0.0
    allow_missing: bool = False
    allow_invalid: bool = False  # a value that its counters contradict, or outside its range, is compared
    unit: str = ""

    @property
    def needs_baseline(self) -> bool:
        """Whether it compares with the baseline instead of a value."""
        return self.value is None


class RuleOutcome(StrEnum):
    """What a rule came to on one launch."""

    PASSED = "ok"
    FAILED = "FAILED"
    MISSING = "MISSING"  # a failure: the metric has no value, or no launch matched
    INVALID = "INVALID"  # a failure: the value contradicts other counters, or lies outside its range
    ALLOWED = "missing, allowed"
    NOT_APPLICABLE = "not for this GPU"


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule on one launch. `required` and `measured` are the two values in `unit`, None where there is none.

    `where` is the report and the launch's number in it, "" for a launch that is only in the baseline.
    """

    rule: Rule
    launch: str  # "k7 n=4096"
    outcome: RuleOutcome
    required: float | str | None
    measured: float | str | None
    unit: str = ""
    reason: str = ""
    where: str = ""

    @property
    def failed(self) -> bool:
        """Whether it fails the gate."""
        return self.outcome in (RuleOutcome.FAILED, RuleOutcome.MISSING, RuleOutcome.INVALID)
