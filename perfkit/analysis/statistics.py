"""Statistics of timings: the median and its interval, when to stop, and whether B differs from A.

Pure functions over numbers; nothing here knows a GPU. Sources:

- interval of the median: order statistics with binomial ranks (Conover, Practical Nonparametric
  Statistics, 3rd ed., 3.2; recommended for benchmark samples by Hoefler and Belli, Scientific Benchmarking
  of Parallel Computing Systems, SC15), on as many samples as the autocorrelated ones are worth (initial
  positive sequence: Geyer, Practical Markov Chain Monte Carlo, Statistical Science 7, 1992).
- estimate and interval of the ratio of pairs: Hodges and Lehmann 1963 (median of the Walsh averages) with
  the ranks of the Wilcoxon signed-rank test (Hollander, Wolfe, Chicken, Nonparametric Statistical Methods,
  3rd ed., 3.2 and 3.3).
- stop rule: as nvbench's `stdrel` (a least time, then a noise threshold) and pyperf's stability checks,
  but on the interval of the median, which outliers do not move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A difference below this is no difference: what placement and clock jitter move a kernel by from one
# process to the next.
FLOOR = 0.005

CONFIDENCE = 0.95

# Fewer samples than this do not tell how they depend on each other.
_LEAST_TO_CORRELATE = 50

_TIME_LIMIT = "time limit"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval. `low` and `high` are NaN where the samples are too few to
    have one.
    """

    value: float
    low: float
    high: float
    samples: int

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width over the value."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else math.nan


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a timing is good enough. Times in seconds; the tolerances are fractions of the median.

    Good: at least `least_time` of kernel time and `least_samples` samples, the 95 % interval of the median
    no wider than +- `half_width`, and the medians of the first and the second half no further apart than
    `drift`. Without the last test a clock that still climbs would pass: the interval is about samples that
    come from one distribution.
    """

    half_width: float = 0.0025
    drift: float = 0.0025
    least_time: float = 0.5
    least_samples: int = 10
    most_time: float = 4.0

    def reason(self, times: Sequence[float], kernel_time: float, elapsed: float) -> str:
        """Why to stop now, in words; "" to go on.

        `times`: s a launch, in the order measured; `kernel_time`: s spent in timed launches; `elapsed`: s
        since the start.
        """
        if len(times) >= self.least_samples and kernel_time >= self.least_time:
            estimate = median_interval(times)
            drift = half_drift(times)
            if estimate.relative_half_width <= self.half_width and drift <= self.drift:
                return (
                    f"95 % interval of the median within ±{estimate.relative_half_width:.3%}, "
                    f"halves within {drift:.3%}"
                )
        if elapsed >= self.most_time:
            limit = f"{_TIME_LIMIT} of {self.most_time:g} s reached before the estimate was good"
            return f"{limit}: {self._lacking(times)}"
        return ""

    def _lacking(self, times: Sequence[float]) -> str:
        if len(times) < self.least_samples:
            return f"{len(times)} samples of at least {self.least_samples}"
        estimate = median_interval(times)
        width = estimate.relative_half_width
        interval = f"95 % interval ±{width:.2%} (wanted {self.half_width:.2%})"
        if math.isnan(width):
            interval = f"no 95 % interval ({len(times)} samples that follow one another)"
        return f"{interval}, halves apart by {half_drift(times):.2%} (wanted {self.drift:.2%})"


def ran_out_of_time(reason: str) -> bool:
    """Whether a `StopRule.reason` says that time ran out before the estimate was good."""
    return reason.startswith(_TIME_LIMIT)


def median(values: Sequence[float]) -> float:
    """The median; NaN of nothing."""
    return float(np.median(np.asarray(values, dtype=np.float64))) if len(values) else math.nan


def percentiles(values: Sequence[float], *percents: float) -> tuple[float, ...]:
    """Percentiles of at least one value, interpolated between neighbours."""
    return tuple(float(value) for value in np.percentile(values, percents))


def last_three_quarters(values: Sequence[float]) -> tuple[float, ...]:
    """The samples without the first quarter (rounded down), the article's way to drop what is left of
    the warm-up.
    """
    return tuple(values[len(values) // 4 :])


def median_interval(values: Sequence[float]) -> Estimate:
    """The median and its distribution-free interval between two order statistics.

    `values` in the order measured: N samples that depend on their neighbours tell as much as N /
    correlation_time(values) that do not, and the ranks are those of so many. They come from the binomial
    distribution: exact up to 200 samples, normal approximation above. The interval is NaN where even the
    extremes do not reach the confidence (fewer than 6 such samples at 95 %).
    """
    data = np.asarray(values, dtype=np.float64)
    ordered = np.sort(data)
    count = ordered.size
    centre = median(ordered.tolist())
    worth = int(count / correlation_time(data))
    rank = _median_rank(worth)
    if rank < 1:
        return Estimate(centre, math.nan, math.nan, count)
    rank = rank * count // worth
    return Estimate(centre, float(ordered[rank - 1]), float(ordered[count - rank]), count)


def correlation_time(values: Sequence[float] | Floats) -> float:
    """How many samples are worth one independent sample of the median: 1 + 2 x the sum of the
    autocorrelations of "above or below the median" (Geyer's initial positive sequence), at least 1.

    1 below 50 samples, which cannot tell. O(n log n).
    """
    data = np.asarray(values, dtype=np.float64)
    count = data.size
    if count < _LEAST_TO_CORRELATE:
        return 1.0
    ordered = np.sort(data)
    side = (data >= ordered[count // 2]).astype(np.float64) - (data <= ordered[(count - 1) // 2])
    side -= side.mean()
    power = float(side @ side)
    if power == 0:
        return 1.0
    spectrum = np.fft.rfft(side, 2 * count)
    lags = np.fft.irfft(spectrum * spectrum.conj(), 2 * count)[1:count] / power
    sums = lags[: lags.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(sums <= 0)
    return max(1.0, 1.0 + 2.0 * float(sums[: ends[0] if ends.size else None].sum()))


def _median_rank(count: int) -> int:
    """Largest rank r (from 1) so that [x(r), x(n+1-r)] holds the median with the confidence; 0 where
    none does.
    """
    tail = (1 - CONFIDENCE) / 2
    if count > 200:
        z = NormalDist().inv_cdf(1 - tail)
        return max(0, math.floor(count / 2 - z * math.sqrt(count) / 2))
    rank, below = 0, 0.0
    while rank < count // 2:
        below += math.comb(count, rank) / 2.0**count
        if below > tail:
            break
        rank += 1
    return rank


def half_drift(values: Sequence[float]) -> float:
    """|median of the second half / median of the first half - 1|; NaN below two samples."""
    middle = len(values) // 2
    if middle == 0:
        return math.nan
    return abs(median(values[middle:]) / median(values[:middle]) - 1)


def log_ratios(a: Sequence[float], b: Sequence[float]) -> Floats:
    """ln(b / a) of each pair. Raises ValueError on lengths that differ and on values that are not
    positive.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"{first.size} values of A for {second.size} of B")
    if first.size and not (np.all(first > 0) and np.all(second > 0)):
        raise ValueError("times must be above 0")
    return np.asarray(np.log(second) - np.log(first), dtype=np.float64)


def balanced(ratios: Floats, a_first: Sequence[bool]) -> Floats:
    """Means over an (A before B, B before A) couple each, matched in the order measured.

    Whatever going first costs enters the two with opposite signs and cancels, and so does a steady drift
    where the couple is adjacent. A pair without a partner is dropped.
    """
    order = np.asarray(a_first, dtype=bool)
    forward, backward = ratios[order], ratios[~order]
    couples = min(forward.size, backward.size)
    return np.asarray((forward[:couples] + backward[:couples]) / 2, dtype=np.float64)


def hodges_lehmann(values: Sequence[float] | Floats) -> Estimate:
    """Median of all Walsh averages (x_i + x_j) / 2, i <= j, with the interval of the Wilcoxon signed-rank
    test.

    O(n^2) in time and memory. The interval is NaN where even the extremes do not reach the confidence
    (fewer than 6 values at 95 %).
    """
    data = np.asarray(values, dtype=np.float64)
    count = data.size
    if count == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    rows, columns = np.triu_indices(count)
    walsh = np.sort((data[rows] + data[columns]) / 2)
    centre = float(np.median(walsh))
    rank = _signed_rank(count)
    if rank < 1:
        return Estimate(centre, math.nan, math.nan, count)
    return Estimate(centre, float(walsh[rank - 1]), float(walsh[walsh.size - rank]), count)


@lru_cache(maxsize=64)
def _signed_rank(count: int) -> int:
    """Which Walsh average (from 1, from either end) bounds the interval; 0 where none does.

    Exact distribution of the signed-rank statistic up to 50 values, normal approximation above.
    """
    tail = (1 - CONFIDENCE) / 2
    if count > 50:
        z = NormalDist().inv_cdf(1 - tail)
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return math.floor(count * (count + 1) / 4 - z * spread)
    # How many of the 2^count sign patterns give each rank sum.
    patterns = np.zeros(count * (count + 1) // 2 + 1)
    patterns[0] = 1.0
    for rank in range(1, count + 1):
        shifted = patterns[:-rank].copy()
        patterns[rank:] += shifted
    below = np.cumsum(patterns) / 2.0**count
    return int(np.searchsorted(below, tail, side="right"))


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """B against A: `time` and `cycles` estimate ln(T_B / T_A); `cycles` is None where they were not
    measured.
    """

    verdict: str  # faster, slower, same, ambiguous
    reason: str
    time: Estimate
    cycles: Estimate | None


def compare_pairs(
    a: Sequence[float],
    b: Sequence[float],
    a_first: Sequence[bool],
    a_cycles: Sequence[float] = (),
    b_cycles: Sequence[float] = (),
) -> PairVerdict:
    """The verdict on B against A from interleaved pairs (seconds; cycles).

    It starts at ambiguous and needs evidence: faster or slower where the whole 95 % interval of ln(T_B /
    T_A) lies beyond the floor and the cycles moved the same way; same where the whole interval lies within
    the floor.
    """
    time = hodges_lehmann(balanced(log_ratios(a, b), a_first))
    cycles = None
    if len(a_cycles) and len(b_cycles):
        cycles = hodges_lehmann(balanced(log_ratios(a_cycles, b_cycles), a_first))
    verdict, reason = _verdict(time, cycles)
    return PairVerdict(verdict, reason, time, cycles)


def _verdict(time: Estimate, cycles: Estimate | None) -> tuple[str, str]:
    limit = math.log1p(FLOOR)
    floor = f"the floor of {FLOOR:.1%}"
    if math.isnan(time.low):
        return "ambiguous", f"{time.samples} couples of pairs are too few for a 95 % interval (6 needed)"
    within = f"95 % interval {_percent(time.low)} to {_percent(time.high)}"
    if -limit <= time.low and time.high <= limit:
        if cycles is not None and (cycles.low > limit or cycles.high < -limit):
            return (
                "ambiguous",
                f"same time ({within}), but cycles differ by {_percent(cycles.value)}: the clock moved",
            )
        return "same", f"{within} lies within {floor}"
    if time.low <= limit and time.high >= -limit:
        return "ambiguous", f"{within} reaches across {floor}; more pairs narrow it"
    slower = time.low > limit
    if cycles is not None and not (cycles.low > 0 if slower else cycles.high < 0):
        moved = (
            f"cycles moved by {_percent(cycles.value)} ({_percent(cycles.low)} to {_percent(cycles.high)})"
        )
        return "ambiguous", f"{within}, but {moved}: the clock made the difference, not the kernel"
    confirmed = "" if cycles is None else f", confirmed in cycles ({_percent(cycles.value)})"
    return ("slower" if slower else "faster"), f"{within} lies beyond {floor}{confirmed}"


def _percent(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio):+.2%}"
