"""Timing on the GPU itself: launches between CUDA events, and the SM clock from the device's own counters.
Needs CuPy.

The clock: a kernel with a block on every SM writes that SM's cycle counter and the GPU's global timer,
before and after a batch. Cycles over time between the two rows is the mean SM clock under the very load
that was timed, idle gaps included. Limits: the global timer ticks in steps (32 ns to about 1 us, by chip),
so a batch should last some milliseconds; an SM that lands in only one of the two rows is left out; a GPU
that resets its counters in between gives nonsense, which is dropped and reported as no reading.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfkit.model import Batch, PairSamples

Launch = Callable[[], None]

# Columns of the stamp table: %smid is below this on every GPU so far (at most 192 SMs).
_COLUMNS = 512
# Outside of this a reading of the clock is nonsense. Hz.
_POSSIBLE_CLOCK = (5e7, 5e9)
# Host time to put one launch and its events into the stream, with a margin. s.
_HOST_COST = 25e-6


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Windows of `inner` launches of A and B in the order `a_first` says; `spin_cycles` slow B down
    (self-test).
    """

    a: Launch
    b: Launch
    a_first: Sequence[bool]
    inner: int
    spin_cycles: int = 0


class Meter:
    """Times launches on the current device's current stream."""

    def __init__(self) -> None:
        import cupy
        import numpy

        self._cupy = cupy
        self._numpy = numpy
        source = Path(__file__).with_name("clock_probe.cu").read_text(encoding="utf-8")
        module = cupy.RawModule(code=source, options=("--std=c++17",))
        self._stamp_kernel = module.get_function("perfkit_stamp")
        self._spin_kernel = module.get_function("perfkit_spin")
        self._read_kernel = module.get_function("perfkit_read")
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self._stamp_grid = (4 * int(properties["multiProcessorCount"]),)
        self._read_grid = (8 * int(properties["multiProcessorCount"]),)
        self._l2_bytes = int(properties["l2CacheSize"])
        self._columns = numpy.int32(_COLUMNS)
        self._events: list[Any] = []
        self._table: Any = None
        self._flush_buffer: Any = None
        self._clock = (
            1e9  # Hz; a low guess until the first reading, so that a lead-in is never too short by much
        )
        self._warm_probe()

    def warm(self, launch: Launch, seconds: float) -> tuple[int, float]:
        """Launch for at least `seconds` (host time); launches made and s a launch in the last group."""
        group, total, spent, latest = 1, 0, 0.0, 0.0
        while total == 0 or spent < seconds:
            start = time.monotonic()
            for _ in range(group):
                launch()
            self._wait()
            took = time.monotonic() - start
            latest = took / group
            total, spent = total + group, spent + took
            group = max(1, min(2000, round(0.05 / max(latest, 1e-7))))
        return total, latest

    def batch(
        self, launch: Launch, launches: int, inner: int = 1, *, cold: bool = False, lead_in: bool = False
    ) -> Batch:
        """`launches` timings of `inner` launches each, back to back.

        `cold`: the caches are flushed before each, outside the events; only the first of `inner` launches
        is cold, so `inner` must be 1 (ValueError). `lead_in`: the GPU first waits until the host
        has filled the stream; needed where a launch is shorter than what it costs the host to ask for it.
        """
        if cold and inner != 1:
            raise ValueError(f"{inner} launches after a flush: only the first of them is cold")
        marks = self._take_events(2 * launches)
        flush = self._flush if cold else None
        self._prepare_table(2)
        started = time.monotonic()
        if lead_in:
            self._lead_in(launches * inner)
        self._stamp(0)
        for index in range(launches):
            if flush is not None:
                flush()
            marks[2 * index].record()
            for _ in range(inner):
                launch()
            marks[2 * index + 1].record()
        self._stamp(1)
        self._wait()
        ended = time.monotonic()
        elapsed = self._cupy.cuda.get_elapsed_time
        times = tuple(elapsed(marks[2 * i], marks[2 * i + 1]) * 1e-3 / inner for i in range(launches))
        clock = self._read_clock(self._read_table(2))
        return Batch(times=times, inner=inner, started=started, ended=ended, sm_clock=clock)

    def pairs(self, plan: PairPlan) -> PairSamples:
        """Run the windows of every pair back to back, each between two events and two stamps."""
        count = len(plan.a_first)
        marks = self._take_events(4 * count)
        self._prepare_table(2 * count + 1)
        self._lead_in(2 * plan.inner)
        self._stamp(0)
        for index, a_first in enumerate(plan.a_first):
            for position, is_a in enumerate((a_first, not a_first)):
                event = 4 * index + 2 * position
                marks[event].record()
                self._window(plan, is_a)
                marks[event + 1].record()
                self._stamp(2 * index + position + 1)
        self._wait()
        return self._collect(plan, marks)

    def _window(self, plan: PairPlan, is_a: bool) -> None:
        launch = plan.a if is_a else plan.b
        for _ in range(plan.inner):
            launch()
        if plan.spin_cycles and not is_a:
            self._spin(plan.spin_cycles)

    def _collect(self, plan: PairPlan, marks: Sequence[Any]) -> PairSamples:
        elapsed = self._cupy.cuda.get_elapsed_time
        count = len(plan.a_first)
        cycles, clocks = self._windows(self._read_table(2 * count + 1))
        sides: dict[bool, list[int]] = {True: [], False: []}
        for index, a_first in enumerate(plan.a_first):
            sides[a_first].append(2 * index)
            sides[not a_first].append(2 * index + 1)
        windows = [elapsed(marks[2 * w], marks[2 * w + 1]) * 1e-3 for w in range(2 * count)]
        return PairSamples(
            a=tuple(windows[w] for w in sides[True]),
            b=tuple(windows[w] for w in sides[False]),
            a_cycles=tuple(cycles[w] for w in sides[True]) if cycles else (),
            b_cycles=tuple(cycles[w] for w in sides[False]) if cycles else (),
            a_first=tuple(plan.a_first),
            inner=plan.inner,
            a_clock=_mean([clocks[w] for w in sides[True]]) if clocks else None,
            b_clock=_mean([clocks[w] for w in sides[False]]) if clocks else None,
        )

    def _warm_probe(self) -> None:
        """Load both kernels and read the clock once, so that neither happens inside a measurement."""
        self._prepare_table(2)
        self._stamp(0)
        self._spin(2_000_000)
        self._stamp(1)
        self._wait()
        self._read_clock(self._read_table(2))

    def _wait(self) -> None:
        self._cupy.cuda.get_current_stream().synchronize()

    def _take_events(self, count: int) -> list[Any]:
        while len(self._events) < count:
            self._events.append(self._cupy.cuda.Event())
        return self._events

    def _prepare_table(self, rows: int) -> None:
        if self._table is None or self._table.shape[0] < rows:
            self._table = self._cupy.zeros((rows, _COLUMNS, 2), dtype=self._numpy.uint64)
        else:
            self._table[:rows].fill(0)
        self._wait()

    def _read_table(self, rows: int) -> Any:
        return self._table[:rows].get()

    def _stamp(self, row: int) -> None:
        self._stamp_kernel(self._stamp_grid, (32,), (self._table, self._numpy.int64(row), self._columns))

    def _spin(self, cycles: int) -> None:
        self._spin_kernel((1,), (1,), (self._numpy.int64(cycles),))

    def _lead_in(self, launches: int) -> None:
        """Hold the GPU with a spin while the host fills the stream, so that no timed launch waits for the
        host.

        Only the first 200 launches are covered: longer batches of short kernels are split by the caller.
        """
        self._spin(int(min(launches, 200) * _HOST_COST * self._clock))

    def _flush(self) -> None:
        """Leave nothing of any kernel in the caches: write a buffer of twice L2's size, then read it.

        The reads write back what the memset left dirty and pass through every SM's L1. Clean lines cost the
        next kernel nothing to replace, as invalid ones (ncu's `--cache-control all`) do not.
        """
        if self._flush_buffer is None:
            self._flush_buffer = self._cupy.empty(max(2 * self._l2_bytes, 1 << 26), dtype=self._numpy.uint8)
        size = self._flush_buffer.nbytes
        self._flush_buffer.data.memset_async(0, size)
        words = self._numpy.int64(size // 16)
        self._read_kernel(self._read_grid, (256,), (self._flush_buffer, words))

    def _read_clock(self, table: Any) -> float | None:
        _, clocks = self._windows(table)
        if not clocks:
            return None
        self._clock = clocks[0]
        return clocks[0]

    def _windows(self, table: Any) -> tuple[list[float], list[float]]:
        """SM cycles and SM clock (Hz) between neighbouring rows: medians over the SMs seen in both.
        Empty if nonsense.
        """
        numpy = self._numpy
        cycles: list[float] = []
        clocks: list[float] = []
        for before, after in itertools.pairwise(table):
            seen = (before[:, 1] > 0) & (after[:, 1] > before[:, 1]) & (after[:, 0] > before[:, 0])
            if not seen.any():
                return [], []
            ran = (after[seen, 0] - before[seen, 0]).astype(numpy.float64)
            took = (after[seen, 1] - before[seen, 1]).astype(numpy.float64) * 1e-9
            clock = float(numpy.median(ran / took))
            if not _POSSIBLE_CLOCK[0] < clock < _POSSIBLE_CLOCK[1]:
                return [], []
            cycles.append(float(numpy.median(ran)))
            clocks.append(clock)
        return cycles, clocks


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
