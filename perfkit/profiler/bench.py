"""The protocols of `perfkit bench`: what is launched, how often, and in which order.

No statistics here: when an estimate is good enough is asked of a callable, so that analysis stays out of
this room.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfkit.errors import ToolError
from perfkit.model import Batch, PairSamples, Timing
from perfkit.profiler.timing import Timer

# (s a launch in the order measured, s of kernel time, s since the start) -> why to stop, "" to go on
Stop = Callable[[Sequence[float], float, float], str]

# Below this an event pair measures the launch as much as the kernel (events tick at about 0.5 us). s.
SHORT_LAUNCH = 20e-6
_BATCH = 0.05  # s of launches between two looks at the stop rule
_PAIR_WINDOW = 250e-6  # s: one side of a pair lasts at least this, so that events and readings weigh little
_HANDICAP_WINDOW = 800e-6  # s: long enough that 1 % is more than the delay kernel's own launch
_PAIRS_PER_REQUEST = 100


@dataclass(frozen=True, slots=True)
class QuickProtocol:
    """Warm-up, then batches until `stop` says that the estimate is good."""

    stop: Stop
    warm_up: float = 0.3  # s
    cold: bool = False
    name: str = "quick"
    rounds: int = 1
    sensor_period: float = 0.02  # s


@dataclass(frozen=True, slots=True)
class ArticleProtocol:
    """0.6 s of warm-up, then launches for 4 s (12 s where a launch takes over 0.2 s); three rounds."""

    warm_up: float = 0.6  # s
    seconds: float = 4.0
    slow_seconds: float = 12.0
    slow_launch: float = 0.2  # s a launch
    cold: bool = False
    name: str = "article"
    rounds: int = 3
    sensor_period: float = 0.1  # s

    def stop(self, times: Sequence[float], _kernel_time: float, elapsed: float) -> str:
        """Time alone ends it."""
        limit = self.slow_seconds if times and max(times) > self.slow_launch else self.seconds
        return f"{limit:g} s of back-to-back launches" if elapsed >= limit else ""


Protocol = QuickProtocol | ArticleProtocol


def time_kernel(timer: Timer, name: str, protocol: Protocol) -> Timing:
    """One round: warm up, then batches until the protocol's stop rule speaks."""
    each = timer.warm(name, protocol.warm_up)
    # Only the first launch after a flush is cold, so cold launches are never timed in groups.
    alone = protocol.cold or each >= SHORT_LAUNCH
    inner = 1 if alone else round(5 * SHORT_LAUNCH / max(each, 1e-7))
    launches = launches_per_batch(each * inner)
    # A spin ahead of every batch would lower the power of long kernels for nothing.
    lead_in = each < 2 * SHORT_LAUNCH and not protocol.cold
    batches: list[Batch] = []
    times: list[float] = []
    kernel_time = 0.0
    start = time.monotonic()
    while True:
        batch = timer.batch(name, launches, inner=inner, cold=protocol.cold, lead_in=lead_in)
        batches.append(batch)
        times.extend(batch.times)
        kernel_time += sum(batch.times) * inner
        elapsed = time.monotonic() - start
        stopped = protocol.stop(times, kernel_time, elapsed)
        if stopped:
            return Timing(batches=tuple(batches), inner=inner, stopped=stopped)


def launches_per_batch(seconds: float) -> int:
    """How many timings of `seconds` each make a batch; at most 200 where the stream could run empty
    otherwise.
    """
    most = 200 if seconds < 5 * SHORT_LAUNCH else 2000
    return max(1, min(most, round(_BATCH / max(seconds, 1e-7))))


def random_order(pairs: int, generator: random.Random) -> tuple[bool, ...]:
    """For each pair whether A goes first: one of each kind in every couple of pairs, in random order."""
    order: list[bool] = []
    for _ in range(pairs // 2):
        first = generator.random() < 0.5
        order += [first, not first]
    return tuple(order)


def window_launches(seconds: float, handicapped: bool = False) -> int:
    """How many launches of `seconds` one side of a pair holds."""
    wanted = _HANDICAP_WINDOW if handicapped else _PAIR_WINDOW
    return max(1, math.ceil(wanted / max(seconds, 1e-7)))


def measure_pairs(
    timer: Timer,
    names: tuple[str, str],
    pairs: int,
    inner: int,
    generator: random.Random,
    spin_cycles: int = 0,
) -> PairSamples:
    """`pairs` fresh pairs of A and B (rounded up to couples), after a short warm-up of both."""
    a, b = names
    order = random_order(pairs + pairs % 2, generator)
    parts = []
    for start in range(0, len(order), _PAIRS_PER_REQUEST):
        part = order[start : start + _PAIRS_PER_REQUEST]
        parts.append(timer.pairs(a, b, part, inner=inner, spin_cycles=spin_cycles))
    return join(parts)


def join(parts: Sequence[PairSamples]) -> PairSamples:
    """Several answers as one."""
    known = [p for p in parts if p.a_cycles]
    complete = len(known) == len(parts)
    return PairSamples(
        a=tuple(x for p in parts for x in p.a),
        b=tuple(x for p in parts for x in p.b),
        a_cycles=tuple(x for p in parts for x in p.a_cycles) if complete else (),
        b_cycles=tuple(x for p in parts for x in p.b_cycles) if complete else (),
        a_first=tuple(x for p in parts for x in p.a_first),
        inner=parts[0].inner,
        a_clock=_mean([p.a_clock for p in known if p.a_clock]),
        b_clock=_mean([p.b_clock for p in known if p.b_clock]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def calibrate_delay(
    timer: Timer, name: str, inner: int, handicap: float, generator: random.Random
) -> tuple[int, int]:
    """(launches a window, cycles to spin) that make a window of `name` longer by `handicap` (a fraction).

    The delay kernel costs its own launch besides the cycles it spins, so the time it adds is measured at
    two lengths and the cycles follow from the line through them. Where its launch alone is too much, the
    window is made longer.
    """
    short, long = 1, 40_000
    for _ in range(8):
        plain = statistics.median(measure_pairs(timer, (name, name), 40, inner, generator).a)
        added = [_added(timer, name, inner, cycles, generator) for cycles in (short, long)]
        wanted = handicap * plain
        slope = (added[1] - added[0]) / (long - short)
        if slope > 0 and wanted > added[0]:
            return inner, round(short + (wanted - added[0]) / slope)
        inner *= 2
    raise ToolError(
        f"{name}: a delay of {handicap:.2%} could not be set",
        "Ask for a larger --handicap, or a larger size.",
    )


def _added(timer: Timer, name: str, inner: int, cycles: int, generator: random.Random) -> float:
    pairs = measure_pairs(timer, (name, name), 40, inner, generator, cycles)
    return statistics.median(b - a for a, b in zip(pairs.a, pairs.b, strict=True))
