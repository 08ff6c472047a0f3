"""What `perfkit bench` measured: times, clocks, power, comparisons. Kept in `run.json` under `results`.

Every record carries `kind`: "bench" (BenchResult), "comparison" (PairComparison) or "selftest" (SelfTest).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from perfkit.model.runs import Verification


@dataclass(frozen=True, slots=True)
class SensorSample:
    """One reading of the GPU's own sensors. None where the GPU does not offer the sensor."""

    time: float  # s, the host's monotonic clock
    sm_clock: float | None  # Hz
    power: float | None  # W
    temperature: float | None  # degrees Celsius
    throttle: tuple[str, ...]  # clock event reasons that hold the clock down, NVML's names
    energy: float | None  # J since the driver was loaded


@dataclass(frozen=True, slots=True)
class Batch:
    """Back-to-back launches, each (or each group of `inner`) between two CUDA events.

    `times` are seconds a launch. `started` and `ended` are seconds of the host's monotonic clock.
    `sm_clock` (Hz) is cycles over time between a reading of every SM's cycle counter before and after the
    batch; None where that reading made no sense.
    """

    times: tuple[float, ...]
    inner: int
    started: float
    ended: float
    sm_clock: float | None


@dataclass(frozen=True, slots=True)
class Timing:
    """One round of one kernel: its batches in order. `stopped` is the rule that ended it, in words."""

    batches: tuple[Batch, ...]
    inner: int
    stopped: str

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds a launch, in the order measured."""
        return tuple(time for batch in self.batches for time in batch.times)


@dataclass(frozen=True, slots=True)
class SensorSummary:
    """What the sensors said while a kernel was timed. None where they said nothing."""

    sm_clock: float | None  # Hz, median
    power: float | None  # W, median of the power readings
    mean_power: float | None  # W, from the energy counter
    temperature: float | None  # degrees Celsius, highest
    throttle: tuple[str, ...]  # every reason seen
    samples: int


@dataclass(frozen=True, slots=True)
class PairSamples:
    """Interleaved runs of A and B: entry i of every field belongs to pair i.

    `a`, `b`: seconds of a window of `inner` launches. `a_cycles`, `b_cycles`: SM cycles of the same
    window, the readings of the cycle counter included. `a_first`: A ran before B.
    """

    a: tuple[float, ...]
    b: tuple[float, ...]
    a_cycles: tuple[float, ...]
    b_cycles: tuple[float, ...]
    a_first: tuple[bool, ...]
    inner: int
    a_clock: float | None = None  # Hz, mean over the windows
    b_clock: float | None = None


@dataclass(frozen=True, slots=True)
class BenchResult:
    """One kernel at one problem size, timed. `time` is None where verification failed: no speed of a
    wrong result.
    """

    key: str
    label: str
    title: str
    problem: str  # "n=4096"
    size: Mapping[str, int]
    protocol: str  # quick, article
    cache: str  # hot, cold
    time: float | None  # s a launch: median; over rounds the median of their medians
    time_low: float | None = None  # 95 % interval of the median
    time_high: float | None = None
    launch_low: float | None = None  # s: 5th percentile of the samples the median was taken over
    launch_high: float | None = None  # s: their 95th percentile
    round_times: tuple[float, ...] = ()  # s, median of each round
    launches: int = 0  # launches that were timed
    kept: int = 0  # samples the median was taken over
    launches_per_sample: int = 1  # above 1: short kernel, several launches between two events
    stopped: str = ""  # the rule that ended the measurement
    flops: float = 0.0  # a launch, from the work model
    flop_rate: float | None = None  # FLOP/s
    sm_clock: float | None = None  # Hz: the clock that share_of_peak uses
    sm_clock_source: str = ""  # "cycle counter" or "NVML"
    sm_clock_device: float | None = None  # Hz, cycle counter against global timer
    sm_clock_nvml: float | None = None  # Hz, median of the samples while it was timed
    peak_flop_rate: float | None = None  # FLOP/s at sm_clock
    share_of_peak: float | None = None  # fraction
    power: float | None = None  # W: mean by the energy counter; article: median of the readings
    energy_per_launch: float | None = None  # J
    temperature: float | None = None  # degrees Celsius, highest
    throttle_reasons: tuple[str, ...] = ()
    verification: Verification | None = None
    blocks_per_sm: int | None = None
    samples: str = ""  # the file with the raw samples, relative to the run folder
    notes: tuple[str, ...] = ()
    kind: str = "bench"


@dataclass(frozen=True, slots=True)
class PairComparison:
    """B against A from interleaved pairs. Ratios are T_B / T_A: above 1 means that B is slower."""

    a: str
    b: str
    problem: str
    verdict: str  # faster, slower, same, ambiguous: B against A
    reason: str
    pairs: int
    inner: int
    ratio: float
    low: float  # 95 % interval
    high: float
    cycle_ratio: float | None
    cycle_low: float | None
    cycle_high: float | None
    floor: float  # differences below this (0.005 = 0.5 %) are no difference
    a_time: float = 0.0  # s a launch, median
    b_time: float = 0.0
    a_clock: float | None = None  # Hz
    b_clock: float | None = None
    handicap: float = 0.0  # deliberate slow-down of B, fraction (self-test only)
    samples: str = ""
    size: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    kind: str = "comparison"


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A kernel compared with itself, many times: how often the method gave each verdict."""

    label: str
    problem: str
    comparisons: int
    pairs: int
    handicap: float  # 0: every faster or slower is false; above 0: every verdict other than slower is a miss
    verdicts: Mapping[str, int]
    wrong: int
    median_half_width: float  # of ln(ratio), 95 % intervals
    largest_ratio: float  # furthest from 1 (from 1 + handicap)
    gpu_seconds: float
    samples: str = ""
    kind: str = "selftest"
