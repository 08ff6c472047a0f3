"""The protocols: how often, in which order, until when; and the files of raw samples."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.model import Batch, PairSamples, SensorSample, Timing
from perfkit.profiler import bench, bench_samples


@given(st.integers(1, 200), st.integers(0, 2**32))
def test_every_couple_holds_both_orders(couples: int, seed: int) -> None:
    order = bench.random_order(2 * couples, random.Random(seed))
    assert len(order) == 2 * couples
    assert all(order[i] != order[i + 1] for i in range(0, len(order), 2))


def test_the_order_within_couples_is_random_and_repeatable() -> None:
    order = bench.random_order(400, random.Random(1))
    assert order == bench.random_order(400, random.Random(1))
    assert 60 < sum(order[::2]) < 140


@given(st.floats(1e-7, 10.0))
def test_batches_stay_within_their_limits(seconds: float) -> None:
    launches = bench.launches_per_batch(seconds)
    assert 1 <= launches <= 2000
    if seconds < 5 * bench.SHORT_LAUNCH:
        assert launches <= 200


@pytest.mark.parametrize(("seconds", "launches"), [(60e-6, 5), (350e-6, 1), (0.1, 1), (4e-6, 63)])
def test_windows_last_long_enough(seconds: float, launches: int) -> None:
    assert bench.window_launches(seconds) == launches


def test_article_takes_longer_for_slow_kernels() -> None:
    protocol = bench.ArticleProtocol()
    assert protocol.stop([1e-3], 3.9, 3.9) == ""
    assert protocol.stop([1e-3], 4.0, 4.0).startswith("4 s")
    assert protocol.stop([1.38], 4.0, 4.0) == ""
    assert protocol.stop([1.38], 12.0, 12.0).startswith("12 s")
    assert (protocol.warm_up, protocol.rounds, protocol.sensor_period) == (0.6, 3, 0.1)


def test_join_drops_cycles_unless_all_parts_have_them() -> None:
    whole = PairSamples((1.0,), (2.0,), (3.0,), (4.0,), (True,), 2, 1e9, 2e9)
    without = PairSamples((5.0,), (6.0,), (), (), (False,), 2)
    assert bench.join([whole, whole]).a_cycles == (3.0, 3.0)
    joined = bench.join([whole, without])
    assert (joined.a, joined.a_cycles, joined.a_first) == ((1.0, 5.0), (), (True, False))
    assert joined.a_clock == 1e9


def test_timings_read_back(tmp_path: Path) -> None:
    path = tmp_path / bench_samples.file_name("samples", "k6@1", "n=4096")
    assert path.name == "samples_k6@1_n4096.csv.gz"
    times = (1.23456789e-3, 2e-3)
    bench_samples.write_timings(path, [Timing((Batch(times, 3, 10.0, 10.5, None),), 3, "")] * 2)
    rows = bench_samples.read_rows(path)
    assert tuple(rows[0]) == bench_samples.TIMING_COLUMNS
    assert [float(row["seconds_per_launch"]) for row in rows] == [*times, *times]
    assert [row["round"] for row in rows] == ["1", "1", "2", "2"]
    assert rows[0]["batch_sm_clock_hz"] == ""


def test_pairs_and_sensors_read_back(tmp_path: Path) -> None:
    pairs = PairSamples((1e-3,), (2e-3,), (1980000.0,), (3960000.0,), (True,), 4, 1.98e9, 1.98e9)
    bench_samples.write_pairs(tmp_path / "p.csv.gz", [pairs, pairs])
    rows = bench_samples.read_rows(tmp_path / "p.csv.gz")
    assert [(row["comparison"], row["b_seconds"], row["b_cycles"]) for row in rows] == [
        ("0", "0.002", "3960000.0"),
        ("1", "0.002", "3960000.0"),
    ]
    bench_samples.write_sensors(
        tmp_path / "s.csv.gz", [SensorSample(1.5, 1.98e9, None, 60.0, ("a", "b"), 2.0)]
    )
    (row,) = bench_samples.read_rows(tmp_path / "s.csv.gz")
    assert (row["power_w"], row["throttle_reasons"], float(row["sm_clock_hz"])) == ("", "a; b", 1.98e9)
