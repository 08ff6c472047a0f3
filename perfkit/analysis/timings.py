"""Which event timing stands for a kernel and problem, where several bench runs have one.

The caches decide first: an article's speed is that of launches back to back ("hot"), while counters that ncu
took after flushing the caches belong beside launches timed after a flush ("cold"). Of the timings with those
caches the newest counts; where there is none, the newest with the others, and the result says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from perfkit.model import RunRecord

Key = tuple[str, str]  # label, problem
Result = Mapping[str, Any]  # model.bench.BenchResult as run.json holds it
Timed = tuple[RunRecord, Result]

HOT, COLD = "hot", "cold"


def cache_of(result: Result) -> str:
    """ "hot" or "cold"."""
    return str(result.get("cache") or HOT)


def timings(
    records: Iterable[RunRecord],
    *,
    wanted: Callable[[Key], str] = lambda _key: HOT,
    usable: Callable[[RunRecord, Result], bool] = lambda _record, _result: True,
) -> dict[Key, Timed]:
    """The timing of each (label, problem) with the caches `wanted` for it, of those that are `usable`."""
    found: dict[Key, Timed] = {}
    for record in sorted(records, key=lambda record: record.started):
        for result in record.results:
            if result.get("kind", "bench") != "bench" or not usable(record, result):
                continue
            key = (str(result["label"]), str(result["problem"]))
            cache = wanted(key)
            held = found.get(key)
            if held is None or cache_of(result) == cache or cache_of(held[1]) != cache:
                found[key] = (record, result)
    return found


def profiled_caches(records: Iterable[RunRecord]) -> dict[Key, str]:
    """In which caches ncu ran what these runs profiled: cold where it flushed them before each pass, which is
    its default.
    """
    return {
        (kernel.label, kernel.problem): COLD if record.options.get("cache_control", "all") == "all" else HOT
        for record in records
        if record.reports
        for kernel in record.kernels
    }
