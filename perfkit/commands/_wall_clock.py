"""Event timings of a bench run for the two sides of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

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
        a, b = _result(records, one), _result(records, other)
        if a is not None and b is not None:
            return _of(a, b, records[-1].id)
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


def _result(records: list[RunRecord], side: Chosen) -> Mapping[str, Any] | None:
    """The newest timing of the side's kernel and problem on the side's GPU."""
    launch = side.launches[0].launch
    wanted = side.record.gpu.uuid if side.record is not None and side.record.gpu is not None else ""
    for record in reversed(records):
        if wanted and (record.gpu is None or record.gpu.uuid != wanted):
            continue
        for result in record.results:
            if (
                result.get("kind", "bench") == "bench"
                and (result.get("label"), result.get("problem")) == (launch.label, launch.problem)
                and result.get("time")
            ):
                return result
    return None


def _of(a: Mapping[str, Any], b: Mapping[str, Any], source: str) -> WallClock:
    from perfkit.model import WallClock

    clock_a, clock_b = a.get("sm_clock") or math.nan, b.get("sm_clock") or math.nan
    clock_share = -math.log(clock_b / clock_a) if clock_a > 0 and clock_b > 0 else math.nan
    return WallClock(
        time_a=a["time"],
        time_b=b["time"],
        clock_a=clock_a,
        clock_b=clock_b,
        log_ratio=math.log(b["time"] / a["time"]),
        clock_share=clock_share,
        source=f"run {source}",
    )
