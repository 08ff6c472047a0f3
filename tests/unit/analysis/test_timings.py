"""Which of several timings of a kernel counts."""

from __future__ import annotations

from typing import Any

import pytest

from perfkit.analysis.timings import profiled_caches, timings
from perfkit.model import RunRecord
from perfkit.profiler.run_store import load_run, recorded_root, runs_under


def _run(started: str, *results: dict[str, Any]) -> RunRecord:
    return RunRecord(started, "bench", "complete", (), started, "", "", None, {}, {}, (), results=results)


def _result(cache: str, time: float, **more: Any) -> dict[str, Any]:
    return {"kind": "bench", "label": "k8", "problem": "n=1024", "cache": cache, "time": time, **more}


@pytest.mark.parametrize(
    ("wanted", "given", "time"),
    [
        ("hot", [("hot", 1.0), ("cold", 2.0)], 1.0),
        ("cold", [("hot", 1.0), ("cold", 2.0)], 2.0),
        ("hot", [("cold", 2.0), ("hot", 1.0), ("hot", 1.1), ("cold", 2.1)], 1.1),
        ("cold", [("cold", 2.0), ("hot", 1.0), ("hot", 1.1), ("cold", 2.1)], 2.1),
        ("hot", [("cold", 2.0), ("cold", 2.1)], 2.1),
        ("cold", [("hot", 1.0), ("hot", 1.1)], 1.1),
    ],
)
def test_the_caches_decide_first_then_the_newest(
    wanted: str, given: list[tuple[str, float]], time: float
) -> None:
    runs = [_run(f"2026-01-0{day}", _result(*one)) for day, one in enumerate(given, start=1)]
    for order in (runs, runs[::-1]):
        (found,) = timings(order, wanted=lambda _: wanted).values()
        assert found[1]["time"] == time


def test_what_is_not_usable_is_passed_over() -> None:
    runs = [_run("2026-01-01", _result("hot", 1.0)), _run("2026-01-02", _result("hot", 2.0, wrong=True))]
    (found,) = timings(runs, usable=lambda _, result: not result.get("wrong")).values()
    assert (found[0].started, found[1]["time"]) == ("2026-01-01", 1.0)


def test_comparisons_and_self_tests_are_no_timings() -> None:
    assert timings([_run("2026-01-01", {"kind": "comparison", "a": "k6", "b": "k7"})]) == {}


@pytest.mark.skipif(not recorded_root().is_dir(), reason="this checkout has no recorded run")
def test_the_recorded_profile_ran_with_flushed_caches() -> None:
    records = [load_run(run.path) for run in runs_under(recorded_root())]
    caches = profiled_caches(records)
    assert len(caches) >= 30
    assert set(caches.values()) == {"cold"}
