"""Writes docs/measurements.md from runs: `python docs/generate_measurements.py RUN... [-o FILE]`.

RUN is a run folder or a folder of runs: profile runs of the ladder, bench runs of it (two or more show how
well they repeat), and self-tests (`perfkit bench k6 --aa K`, with and without --handicap). Sections whose
runs are missing are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfkit.analysis import peak_model
from perfkit.analysis.report import read_reports
from perfkit.commands._bench_tables import comparisons_table, results_table, self_tests_table
from perfkit.commands._model_table import peak_table
from perfkit.model import (
    BenchResult,
    Cell,
    Column,
    PairComparison,
    RunRecord,
    SelfTest,
    Table,
    Verification,
)
from perfkit.model.peak import PeakCheck
from perfkit.profiler.run_store import load_run, resolve_run, run_folders
from perfkit.reports import render

HEAD = """# Measurements: timing and the peak model

Who reads this: whoever wants to know how good the method is, in figures that can be made again. How it is
measured: [timing.md](timing.md). This page is made by `python docs/generate_measurements.py RUN...` from
the runs named in it.
"""
FIELD = """
Reports from the field: [peak-model-field-reports.md](peak-model-field-reports.md).
"""


def page(records: Sequence[RunRecord]) -> str:
    """The whole page as Markdown."""
    parts = [HEAD, _machine(records), _model(records), _timing(records), _repeats(records)]
    parts += [_self_tests(records), _comparisons(records)]
    return "\n".join(part for part in parts if part)


def _machine(records: Sequence[RunRecord]) -> str:
    lines = dict.fromkeys(
        f"- {r.gpu.name}, {r.gpu.sm_count} SMs, sm_{''.join(map(str, r.gpu.compute_capability))}; "
        + ", ".join(f"{name} {value}" for name, value in sorted(r.versions.items()) if value)
        for r in records
        if r.gpu
    )
    return "Machine and versions:\n\n" + "\n".join(lines) + "\n"


def _model(records: Sequence[RunRecord]) -> str:
    profiles = [r for r in records if r.what == "profile" and r.reports]
    if not profiles:
        return ""
    paths = [Path(r.path) / name for r in profiles for name in r.reports]
    reports = read_reports(paths, peak_model.counters())
    launches = [launch for report in reports for launch in report.launches]
    checks = peak_model.check_launches(
        launches, flops=peak_model.run_flops(records), timed=peak_model.run_timed(records)
    )
    return "\n".join(
        [
            "## The peak model against ncu, the work model and event timing\n",
            f"Runs: {_named(profiles)}; event timings of the bench runs below.\n",
            _summary(checks),
            _text(peak_table(checks)),
            FIELD,
        ]
    )


def _summary(checks: Sequence[PeakCheck]) -> str:
    lines = [f"{len(checks)} launches. Largest differences, in points of FP32 peak:\n"]
    for title, value in (
        ("full model - ncu's own count of FMA lanes", "residual"),
        ("full model - work model over ncu's time and clock", "work_residual"),
        ("full model - event timing", "timed_residual"),
        ("two factors alone - ncu's own count", "two_factor_error"),
    ):
        by_size: dict[str, list[tuple[float, str]]] = {}
        for check in checks:
            gap = getattr(check, value)
            if gap is not None:
                by_size.setdefault(check.problem, []).append((abs(gap), check.kernel))
        told = ", ".join(
            f"{max(gaps)[0] * 100:.3f} ({max(gaps)[1]}) at {problem}" for problem, gaps in by_size.items()
        )
        if told:
            lines.append(f"- {title}: {told}")
    lines.append(
        "\nWhere FMAs are counted as threads / 32 (no SASS in the report), that count stands on both sides "
        "of the first line; the second is independent of it.\n"
    )
    return "\n".join(lines)


def _timing(records: Sequence[RunRecord]) -> str:
    parts = []
    for record in _benches(records):
        results = [_result(raw) for raw in record.results if raw["kind"] == "bench"]
        parts.append(
            f"Run {record.id} (`{_command(record)}`):\n\n{_text(results_table(results, record.gpu))}"
        )
    return "## Event timing\n\n" + "\n".join(parts) if parts else ""


def _repeats(records: Sequence[RunRecord]) -> str:
    runs = [r for r in _benches(records) if r.options.get("cache") == "hot"]
    rows = []
    for first, second in itertools.combinations(runs, 2):
        if first.options.get("protocol") != second.options.get("protocol"):
            continue
        one, other = _times(first), _times(second)
        rows += [
            (Cell(label), Cell(problem), Cell(first.id), Cell(second.id), Cell(ratio), Cell(ratio - 1))
            for (label, problem) in one.keys() & other.keys()
            for ratio in (other[label, problem] / one[label, problem],)
        ]
    if not rows:
        return ""
    rows.sort(key=lambda row: -abs(float(row[-1].value or 0)))
    worst = abs(float(rows[0][-1].value or 0))
    columns = (
        Column("kernel", "kernel"),
        Column("problem", "problem"),
        Column("first", "run"),
        Column("second", "repeated as"),
        Column("ratio", "ratio of medians", "", 4),
        Column("difference", "difference", "fraction", 2),
    )
    table = Table("repeats", "medians of the same kernel in two runs", columns, tuple(rows))
    return f"## Repeating a run\n\n{len(rows)} medians, furthest apart by {worst:.2%}.\n\n{_text(table)}"


def _self_tests(records: Sequence[RunRecord]) -> str:
    parts = []
    for record in records:
        tests = [SelfTest(**raw) for raw in record.results if raw.get("kind") == "selftest"]
        if tests:
            parts.append(f"Run {record.id} (`{_command(record)}`):\n\n{_text(self_tests_table(tests))}")
    return "## The self-test of the comparison\n\n" + "\n".join(parts) if parts else ""


def _comparisons(records: Sequence[RunRecord]) -> str:
    found = [PairComparison(**raw) for r in records for raw in r.results if raw.get("kind") == "comparison"]
    return f"## Comparisons\n\n{_text(comparisons_table(found))}" if found else ""


def _benches(records: Sequence[RunRecord]) -> list[RunRecord]:
    return [r for r in records if any(raw.get("kind") == "bench" for raw in r.results)]


def _times(record: RunRecord) -> dict[tuple[str, str], float]:
    return {
        (raw["label"], raw["problem"]): raw["time"]
        for raw in record.results
        if raw.get("kind") == "bench" and raw["time"] is not None
    }


def _result(raw: Mapping[str, Any]) -> BenchResult:
    known = {field.name for field in dataclasses.fields(BenchResult)}
    fields = {name: value for name, value in raw.items() if name in known}
    if fields.get("verification"):
        fields["verification"] = Verification(**fields["verification"])
    for name in ("round_times", "throttle_reasons", "notes"):
        fields[name] = tuple(fields.get(name) or ())
    return BenchResult(**fields)


def _text(table: Table) -> str:
    return render([table], "markdown").replace("### ", "", 1)


def _command(record: RunRecord) -> str:
    words = [Path(record.command[0]).name, *record.command[1:]] if record.command else []
    return " ".join(["perfkit", *words[1:]])


def _named(records: Sequence[RunRecord]) -> str:
    return ", ".join(f"{r.id} (`{_command(r)}`)" for r in records)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("measurements.md"))
    options = parser.parse_args()
    folders = [folder for text in options.runs for folder in run_folders(resolve_run(text))]
    options.output.write_text(page([load_run(folder) for folder in folders]), encoding="utf-8")


if __name__ == "__main__":
    main()
