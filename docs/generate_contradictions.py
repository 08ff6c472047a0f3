"""Writes the table of docs/contradictions.md: `python docs/generate_contradictions.py REPORT... >> ...`.

For every relation of analysis/consistency.py: how far its two readings are apart on these reports, against
what it allows. Of a relation with "at most" only what is above counts.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from perfkit.analysis.consistency import RELATIONS
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports


def table(paths: Sequence[Path]) -> str:
    """The table as Markdown, over the launches of these reports."""
    sets = load_metric_sets()
    reports = read_reports(paths, sets.reading(), keep_going=True)
    launches = [launch for report in reports for launch in report.launches]
    lines = [
        "| fact | one reading | the other | launches | median (%) | 95 % (%) | largest (%) | allowed |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for relation in RELATIONS:
        gaps = sorted(
            max(gap, 0.0) if relation.at_most else abs(gap)
            for launch in launches
            if relation.since <= launch.compute_capability < relation.below
            if (gap := _gap(sets.both_readings(launch, relation))) is not None
        )
        allowed = f"{relation.tolerance:.0%}" + (f" + {relation.short:g}/cycles" if relation.short else "")
        at = [gaps[len(gaps) // 2], gaps[min(len(gaps) - 1, int(0.95 * len(gaps)))], gaps[-1]] if gaps else []
        told = [f"{gap * 100:.2f}" for gap in at] or ["", "", ""]
        mark = "at most " if relation.at_most else ""
        lines.append(
            f"| {relation.what} | {relation.one.called} | {mark}{relation.other.called} | {len(gaps)} | "
            + " | ".join(told)
            + f" | {allowed} |"
        )
    return "\n".join(lines) + "\n"


def _gap(values: tuple[float, float]) -> float | None:
    one, other = values
    if math.isnan(one) or math.isnan(other) or (one == other == 0):
        return None if math.isnan(one) or math.isnan(other) else 0.0
    if one <= 0 or other <= 0:
        return -1.0 if one < other else math.inf
    return one / other - 1 if one > other else 1 - other / one


if __name__ == "__main__":
    sys.stdout.write(table([Path(name) for name in sys.argv[1:]]))
