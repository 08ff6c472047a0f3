"""Why B is slower than A, as a tree: what analysis/explain.py finds and reports/ draws.

All contributions of a `Comparison` are natural logarithms that add up to ln(T_B / T_A); a contribution c
is the factor exp(c) on the time, positive where B is slower for it. All contributions of a `PeakLoss` are
shares of FP32 peak that add up, with the share reached, to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from perfkit.model.values import LaunchId


class VerdictKind(StrEnum):
    """What B is against A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict and its reason, in one sentence that names the evidence and the threshold."""

    kind: VerdictKind
    reason: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A counter or metric that speaks for a factor, in SI units (fractions 0..1); None where it was not
    collected. Not `valid`: outside its possible range, or contradicted by other counters, on either side.
    """

    name: str
    title: str
    before: float | str | None
    after: float | str | None
    unit: str = ""
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Factor:
    """One cause. `children` add up to `contribution`. `tied` marks a cause too close to its neighbour to
    rank. Not `valid`: it rests on a value outside its possible range, or contradicted by other counters.
    """

    name: str  # stable key: instructions, issue_rate, warps, stall_lg_throttle, ...
    title: str
    before: float | None
    after: float | None
    unit: str
    contribution: float
    children: tuple[Factor, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    note: str = ""
    tied: bool = False
    valid: bool = True

    @property
    def all_valid(self) -> bool:
        """Whether neither the factor nor anything below it rests on a value that cannot be."""
        return self.valid and all(child.all_valid for child in self.children)


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What can be off although the factors add up by construction: a reading over what it should be.

    1 is right. `contribution` is what the change from A to B makes on ln T, where it makes something. Not
    `valid`: the check itself rests on a value that cannot be right.
    """

    name: str  # stable key: correction, time, warp_states
    title: str
    before: float | None
    after: float | None
    contribution: float | None
    note: str
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two launches (or the only one): what people call it, and what identifies it."""

    label: str
    launch: LaunchId
    kernel: str
    problem: str
    gpu: str
    ncu_version: str
    duration: float  # s, under ncu
    repeats: int = 1  # launches that were given for this side; the factors are those of the median one


@dataclass(frozen=True, slots=True)
class WallClock:
    """Event timings of a bench run beside ncu's, in seconds and Hz; `clock_share` is the part of ln(B/A)
    that is clock.
    """

    time_a: float
    time_b: float
    clock_a: float
    clock_b: float
    log_ratio: float
    clock_share: float
    source: str  # the run the timings come from
    low: float = float("nan")  # 95 % interval of log_ratio
    high: float = float("nan")
    pairs: int = 0  # interleaved pairs behind it (`perfkit bench A B --pairs`); 0: timed one after the other


@dataclass(frozen=True, slots=True)
class SourceLine:
    """An instruction or a source line and the samples that stalled on it, as a share of the launch's
    samples times T/T_A.

    So `after - before` is time: 0.10 means a tenth of A's time more is spent there in B.
    """

    where: str  # "file.cu:42" or the offset in the function; "A: " before a place that only A has
    text: str  # source text (where the report carries it) or SASS
    before: float
    after: float
    top_stall: str
    is_instruction: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """`perfkit explain A B`. sum(factors) + residual = log_ratio; `work_ratio` is B's work over A's (1 for
    the same problem).

    The factors telescope to cycles / clock, so the residual is 0 by construction where ncu takes the clock
    from the duration itself; `checks` are what can be off.
    """

    a: Side
    b: Side
    verdict: Verdict
    log_ratio: float
    factors: tuple[Factor, ...]
    residual: float
    sentences: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    work_ratio: float = 1.0
    wall_clock: WallClock | None = None
    source: tuple[SourceLine, ...] = ()
    checks: tuple[SelfCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class PeakLoss:
    """`perfkit explain A`: share + sum(losses) + residual = 1, all shares of FP32 peak. The residual is
    rounding: the losses are made of the share.

    `fma_slots` are the issue slots whose share of peak one FMA fills: 2 where it takes two cycles of its
    pipe, up to 2 where FMAs are packed.
    """

    a: Side
    share: float
    losses: tuple[Factor, ...]
    residual: float
    sentences: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    fma_slots: float = 1.0


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """A bar: `value` is added to where the one before ended; `text` is printed at it."""

    label: str
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A figure: from `start` (labelled) over the steps to `end`; `unit` labels the axis."""

    title: str
    start_label: str
    start: float
    steps: tuple[WaterfallStep, ...]
    end_label: str
    end: float
    unit: str


@dataclass(frozen=True, slots=True)
class Intervention:
    """A kernel held to fewer blocks per SM: slowdowns in cycles over the kernel as it is, and the relative
    error.

    `demand` and `correction` are what the prediction was calibrated with on the unheld launch: cycles of the
    shared memory pipe per instruction, and measured over modelled issue rate where no demand is small enough
    (1 otherwise).
    """

    label: str
    problem: str
    blocks_before: int
    blocks_after: int
    predicted: float
    simple: float  # predicted with 1 - (1 - r)^W
    observed: float
    error: float  # predicted / observed - 1
    issue_rate_predicted: float
    issue_rate_observed: float
    moved: tuple[str, ...]  # what else than residency moved
    demand: float = 0.0
    correction: float = 1.0


@dataclass(frozen=True, slots=True)
class RegisterLimit:
    """The kernel with more registers, built to the other's count: `ratio` is its time over the faster
    kernel's.
    """

    label: str
    registers: int
    blocks_per_sm: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Verified:
    """What `explain --verify` found: the run it made, the intervention, and the part of ln(T_B/T_A) that
    residency alone makes.
    """

    run: str
    intervention: Intervention
    residency_share: float
    limit: RegisterLimit | None = None
