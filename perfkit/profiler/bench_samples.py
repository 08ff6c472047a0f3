"""Raw samples and sensor logs of a bench run as gzipped CSV, one row a sample, units in the column
names.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perfkit.model import PairSamples, SensorSample, Timing

TIMING_COLUMNS = (
    "round", "batch", "sample", "seconds_per_launch", "launches", "batch_started_s", "batch_ended_s",
    "batch_sm_clock_hz",
)  # fmt: skip
PAIR_COLUMNS = (
    "comparison", "pair", "a_first", "a_seconds", "b_seconds", "a_cycles", "b_cycles", "launches_per_window",
)  # fmt: skip
SENSOR_COLUMNS = (
    "time_s", "sm_clock_hz", "power_w", "temperature_c", "energy_j", "throttle_reasons",
)  # fmt: skip


def file_name(kind: str, label: str, problem: str) -> str:
    """`samples_k6_n4096.csv.gz`: kinds are samples, pairs, sensors."""
    return f"{kind}_{_plain(label)}_{_plain(problem)}.csv.gz"


def write_timings(path: Path, rounds: Sequence[Timing]) -> None:
    """Every sample of every round, in the order measured."""
    _write(path, TIMING_COLUMNS, _timing_rows(rounds))


def write_pairs(path: Path, comparisons: Sequence[PairSamples]) -> None:
    """Every pair of every comparison, in the order measured."""
    rows = (
        (
            index,
            pair,
            int(p.a_first[pair]),
            p.a[pair],
            p.b[pair],
            _at(p.a_cycles, pair),
            _at(p.b_cycles, pair),
            p.inner,
        )
        for index, p in enumerate(comparisons)
        for pair in range(len(p.a))
    )
    _write(path, PAIR_COLUMNS, rows)


def write_sensors(path: Path, samples: Iterable[SensorSample]) -> None:
    """The whole sensor log; times are of the host's monotonic clock, as in the samples."""
    rows = ((s.time, s.sm_clock, s.power, s.temperature, s.energy, "; ".join(s.throttle)) for s in samples)
    _write(path, SENSOR_COLUMNS, rows)


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file written here, as text by column."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _timing_rows(rounds: Sequence[Timing]) -> Iterable[Sequence[Any]]:
    for number, timing in enumerate(rounds, start=1):
        for index, batch in enumerate(timing.batches):
            for sample, seconds in enumerate(batch.times):
                yield (
                    number, index, sample, seconds, batch.inner, batch.started, batch.ended, batch.sm_clock,
                )  # fmt: skip


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8", newline="", compresslevel=6) as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    # 9 digits keep a nanosecond of a second, and make the files a third smaller than repr does.
    return f"{value:.9g}" if isinstance(value, float) and abs(value) < 1e6 else value


def _at(values: Sequence[float], index: int) -> float | None:
    return values[index] if values else None


def _plain(text: str) -> str:
    return re.sub(r"[^\w.@-]+", "", text)
