"""The statistics on samples recorded on a GPU: those of the bench runs that ship with the package."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.analysis import statistics
from perfkit.model import RunRecord
from perfkit.profiler.bench import random_order, window_launches
from perfkit.profiler.bench_samples import read_rows
from perfkit.profiler.run_store import recorded_root, runs_under

# PERFKIT_BENCH_RUNS names another folder of bench runs to test the statistics on.
ROOT = Path(os.environ.get("PERFKIT_BENCH_RUNS") or recorded_root())
PAIRS = 60


def _timings() -> list[tuple[RunRecord, Mapping[str, Any]]]:
    records = [run.record for run in runs_under(ROOT) if run.record and run.record.what == "bench"]
    return [(r, result) for r in records for result in r.results if result["kind"] == "bench"]


TIMINGS = _timings()
pytestmark = pytest.mark.skipif(not TIMINGS, reason="no bench run is recorded in this checkout")


def _rounds(record: RunRecord, result: Mapping[str, Any]) -> list[list[float]]:
    rows = read_rows(Path(record.path) / result["samples"])
    by_round = itertools.groupby(rows, key=lambda row: row["round"])
    return [[float(row["seconds_per_launch"]) for row in group] for _, group in by_round]


def _id(timing: Any) -> str:
    return f"{timing[0].id[-18:]}-{timing[1]['label']}-{timing[1]['problem']}"


@pytest.mark.parametrize("timing", TIMINGS, ids=_id)
def test_the_result_follows_from_its_samples(timing: tuple[RunRecord, Mapping[str, Any]]) -> None:
    record, result = timing
    rounds = _rounds(record, result)
    if result["protocol"] == "article":
        rounds = [list(statistics.last_three_quarters(times)) for times in rounds]
    centres = [statistics.median(times) for times in rounds]
    assert statistics.median(centres) == pytest.approx(result["time"], rel=1e-7)
    estimate = statistics.median_interval([time for times in rounds for time in times])
    if result["time_low"] is not None:
        assert (estimate.low, estimate.high) == pytest.approx(
            (result["time_low"], result["time_high"]), rel=1e-7
        )
    assert estimate.samples == result["kept"]


def _verdicts(times: list[float], handicap: float) -> Counter[str]:
    """Verdicts over pairs of neighbouring windows of one and the same kernel."""
    inner = window_launches(float(np.median(times)))
    windows = np.array(times[: len(times) // inner * inner]).reshape(-1, inner).sum(axis=1)
    found: Counter[str] = Counter()
    for seed in range(20):
        generator = random.Random(seed)
        start = generator.randrange(len(windows) - 2 * PAIRS + 1)
        order = random_order(PAIRS, generator)
        both = windows[start : start + 2 * PAIRS].reshape(-1, 2)
        a = [pair[0] if a_first else pair[1] for pair, a_first in zip(both, order, strict=True)]
        b = [pair[1] if a_first else pair[0] for pair, a_first in zip(both, order, strict=True)]
        slowed = [time * (1 + handicap) for time in b]
        found[statistics.compare_pairs(a, slowed, order).verdict] += 1
    return found


LONG = [t for t in TIMINGS if t[1]["time"] and t[1]["launches"] >= 6 * PAIRS * window_launches(t[1]["time"])]


@pytest.mark.parametrize("timing", LONG, ids=_id)
def test_a_kernel_is_the_same_as_itself(timing: tuple[RunRecord, Mapping[str, Any]]) -> None:
    times = _rounds(*timing)[0]
    if len(times) < 2 * PAIRS * window_launches(timing[1]["time"]):
        pytest.skip("too few samples in one round")
    found = _verdicts(times, 0.0)
    assert found["faster"] + found["slower"] == 0, found


@pytest.mark.parametrize("timing", LONG, ids=_id)
def test_one_percent_is_found(timing: tuple[RunRecord, Mapping[str, Any]]) -> None:
    times = _rounds(*timing)[0]
    if len(times) < 2 * PAIRS * window_launches(timing[1]["time"]):
        pytest.skip("too few samples in one round")
    found = _verdicts(times, 0.01)
    assert found["slower"] >= 19, found
