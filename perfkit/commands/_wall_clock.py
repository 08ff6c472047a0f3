"""Event timings of a bench run for the two sides of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perfkit.analysis.timings import COLD, HOT, cache_of
from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.commands._sides import Chosen
    from perfkit.model import RunRecord, WallClock


def wall_clock(one: Chosen, other: Chosen, bench: str | None) -> WallClock | None:
    """The timings of both sides from the run named, else from the runs the sides come from; None without.

    Raises UsageError when a run was named and does not hold both.
    """
    if one.record is None or other.record is None:
        if bench is not None:
            raise UsageError(
                "--bench needs kernels of a run", "A bare report does not say which kernel was timed."
            )
        return None
    for records in _candidates(one.record, other.record, bench):
        compared = _comparison(records, one, other)
        if compared is not None:
            return compared
        # Both with the same caches; back to back where there is a choice, as everywhere but in `model`.
        for cache in (HOT, COLD):
            a, b = _result(records, one, cache), _result(records, other, cache)
            # One timing that both sides find (one source, profiled twice) says nothing of their difference.
            if a is not None and b is not None and a[1] is not b[1]:
                return _of(a[1], b[1], " and ".join(dict.fromkeys((a[0].id, b[0].id))))
    if bench is not None:
        raise UsageError(
            f"run {bench} does not time both {one.text} and {other.text} at this problem on this GPU",
            "Time them with `perfkit bench`, or leave --bench out.",
        )
    return None


def _candidates(a: RunRecord, b: RunRecord, bench: str | None) -> Iterator[list[RunRecord]]:
    from pathlib import Path

    from perfkit.profiler.run_store import load_run, resolve_run, run_folders, runs_under

    if bench is not None:
        yield [load_run(folder) for folder in run_folders(resolve_run(bench))]
        return
    yield [a, b]
    # Bench runs beside the profile run: of the same store or the same collection.
    if a.path:
        beside = [run.record for run in runs_under(Path(a.path).parent) if run.record is not None]
        yield [record for record in beside if record.what == "bench" and record.status == "complete"]


def _held(records: list[RunRecord], side: Chosen) -> Iterator[tuple[RunRecord, Mapping[str, Any]]]:
    """Results on the side's GPU and of its source, newest run first."""
    wanted = side.record.gpu.uuid if side.record is not None and side.record.gpu is not None else ""
    for record in reversed(records):
        on_gpu = not wanted or (record.gpu is not None and record.gpu.uuid == wanted)
        if on_gpu and _of_its_source(record, side):
            yield from ((record, result) for result in record.results)


def _of_its_source(record: RunRecord, side: Chosen) -> bool:
    """Whether `record` has the side's kernel, where it has it, from the same source and flags."""
    if side.kernel is None or not side.kernel.build:
        return True
    builds = [kernel.build for kernel in record.kernels if kernel.label == side.kernel.label and kernel.build]
    return all(
        build.get(what) == side.kernel.build.get(what)
        for build in builds
        for what in ("source_hash", "flags")
    )


def _result(records: list[RunRecord], side: Chosen, cache: str) -> tuple[RunRecord, Mapping[str, Any]] | None:
    """The newest timing of the side's kernel and problem with hot or cold caches."""
    launch = side.launches[0].launch
    for record, result in _held(records, side):
        named = (result.get("kind", "bench"), result.get("label"), result.get("problem"))
        found = named == ("bench", launch.label, launch.problem) and cache_of(result) == cache
        if found and result.get("time"):
            return record, result
    return None


def _comparison(records: list[RunRecord], one: Chosen, other: Chosen) -> WallClock | None:
    """The newest comparison by interleaved pairs, in either order; one with a handicap is no comparison."""
    from perfkit.model import WallClock

    problem = one.launches[0].launch.problem
    labels = (one.launches[0].launch.label, other.launches[0].launch.label)
    if other.launches[0].launch.problem != problem:
        return None
    for record, result in _held(records, one):
        order = (result.get("a"), result.get("b"))
        if (
            result.get("kind") != "comparison"
            or result.get("problem") != problem
            or order not in (labels, labels[::-1])
            or not _of_its_source(record, other)
            or result.get("handicap")
        ):
            continue
        sign = 1.0 if order == labels else -1.0
        first, second = ("a", "b") if sign > 0 else ("b", "a")
        clock_a, clock_b = _clock(result.get(f"{first}_clock")), _clock(result.get(f"{second}_clock"))
        low, high = sorted((sign * math.log(result["low"]), sign * math.log(result["high"])))
        return WallClock(
            time_a=result[f"{first}_time"],
            time_b=result[f"{second}_time"],
            clock_a=clock_a,
            clock_b=clock_b,
            log_ratio=sign * math.log(result["ratio"]),
            clock_share=-math.log(clock_b / clock_a),
            source=f"run {record.id}",
            low=low,
            high=high,
            pairs=result["pairs"],
        )
    return None


def _clock(value: Any) -> float:
    return float(value) if value else math.nan


def _of(a: Mapping[str, Any], b: Mapping[str, Any], source: str) -> WallClock:
    from perfkit.model import WallClock

    clock_a, clock_b = _clock(a.get("sm_clock")), _clock(b.get("sm_clock"))
    log_ratio = math.log(b["time"] / a["time"])
    # Timed apart from each other: the farthest ends of both intervals.
    ends = [a.get("time_low"), a.get("time_high"), b.get("time_low"), b.get("time_high")]
    known = all(ends)
    return WallClock(
        time_a=a["time"],
        time_b=b["time"],
        clock_a=clock_a,
        clock_b=clock_b,
        log_ratio=log_ratio,
        clock_share=-math.log(clock_b / clock_a),
        source=f"run {source}",
        low=math.log(b["time_low"] / a["time_high"]) if known else math.nan,
        high=math.log(b["time_high"] / a["time_low"]) if known else math.nan,
    )
