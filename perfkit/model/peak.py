"""The peak model checked on one launch: what `perfkit model` prints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from perfkit.model.values import LaunchId, MetricValue


class Closure(StrEnum):
    """Whether the full model meets all that it can be compared with (docs/timing.md)."""

    # Within 0.1 point of ncu's count and of the work model, and 1 point of event timing; one of the last two
    # is known.
    CLOSES = "closes"
    # Within 0.1 point of ncu's count; neither the work nor an event timing is known.
    NCU_ONLY = "closes by ncu only"
    # Between 0.1 and 0.5 points off ncu's count or the work model.
    NEARLY = "within 0.5"
    # Further off one of them, or it rests on counters that cannot be right.
    OPEN = "does not close"
    NO_SHARE = "no FP32 share"  # the work is not scalar FP32
    UNKNOWN = "cannot tell"  # a counter is missing


@dataclass(frozen=True, slots=True)
class TimedShare:
    """Share of peak by event timing. `cache`: hot or cold; `profiled`: the same of the launch under ncu,
    "" where no run tells.
    """

    share: float  # fraction, by the median
    cache: str
    profiled: str
    run: str
    low: float | None = None  # fraction, by the 95th percentile of the launches' times
    high: float | None = None  # by their 5th

    def holds(self, share: float) -> bool:
        """Whether single launches reach `share`: it lies within their 5th and 95th percentile."""
        return self.low is not None and self.high is not None and self.low <= share <= self.high


@dataclass(frozen=True, slots=True)
class PeakCheck:
    """Shares are fractions of FP32 FMA peak; None where a counter is missing or the share has no meaning.

    `two_factor` is issue rate x FMA share, `full` also times active fraction, lane factor and
    predicated-on lane fraction. They are compared with `counted` (FMA lanes that ncu counted, per elapsed
    cycle), with `work` (FLOPs of the work model / (ncu's time x peak at ncu's clock)) and with `timed`
    (the same with the event timing and clock of a bench run).
    """

    launch: LaunchId
    kernel: str  # registry key, else function name
    problem: str
    gpu: str
    factors: dict[str, MetricValue]  # issue_rate, fma_share, active_fraction, lane_factor, lane_fraction
    two_factor: float | None
    full: float | None
    counted: float | None
    work: float | None
    timed: float | None
    closure: Closure
    reason: str
    timing: TimedShare | None = None  # where `timed` is from

    @property
    def residual(self) -> float | None:
        """full - counted, as a fraction; the work model stands in where ncu counted no FMAs."""
        return _difference(self.full, self.counted if self.counted is not None else self.work)

    @property
    def two_factor_error(self) -> float | None:
        """two_factor - counted."""
        return _difference(self.two_factor, self.counted if self.counted is not None else self.work)

    @property
    def work_residual(self) -> float | None:
        """full - work."""
        return _difference(self.full, self.work)

    @property
    def timed_residual(self) -> float | None:
        """full - timed."""
        return _difference(self.full, self.timed)


def _difference(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right
