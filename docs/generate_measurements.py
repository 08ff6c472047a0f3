"""Writes docs/measurements.md from runs: `python docs/generate_measurements.py [RUN...] [-o FILE]`.

RUN is a run folder or a folder of runs: profile runs of the ladder, bench runs of it (two or more show how
well they repeat, how protocols and caches differ), and self-tests (`perfkit bench k6 --aa K`, with and
without --handicap). Without RUN: the runs of this repository. Sections whose runs are missing are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
from collections import Counter as Tally
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
from perfkit.profiler.run_store import load_run, resolve_run, run_folders, runs_under
from perfkit.reports import render

HEAD = """# Measurements: timing and the peak model

Who reads this: whoever wants to know how good the method is, in figures that can be made again. How it is
measured: [timing.md](timing.md). This page is made by `python docs/generate_measurements.py` from runs that
this repository holds; each is named with its folder and the command that made it.
"""
ROOT = Path(__file__).resolve().parents[1]
COMMITTED = ("perfkit/data/recorded", "tests/data/runs")
COUNTED = """
Where FMAs are counted as threads / 32 (a library kernel, whose SASS is not stored), that count stands on both
sides of the first line; the second is independent of it.
"""
FIELD = """
Reports from the field: [peak-model-field-reports.md](peak-model-field-reports.md).
"""


def page(records: Sequence[RunRecord]) -> str:
    """The whole page as Markdown."""
    parts = [HEAD, _machine(records), _model(records), _timing(records), _ratios(records)]
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
    parts = ["## The peak model against ncu, the work model and event timing\n"]
    for number, profile in enumerate(profiles):
        reports = read_reports([Path(profile.path) / name for name in profile.reports], peak_model.counters())
        launches = [launch for report in reports for launch in report.launches]
        # The later ones hold kernels to fewer blocks, with another carve-out: those were not timed.
        timed = [record for record in records if record.what == "bench" and number == 0]
        together = [profile, *timed]
        checks = peak_model.check_launches(
            launches, flops=peak_model.run_flops(together), timed=peak_model.run_timed(together)
        )
        parts += [f"{_named([profile])}: {_summary(checks)}"]
        parts += [_text(peak_table(checks))] if number == 0 else []
    return "\n".join([*parts, COUNTED, FIELD])


def _summary(checks: Sequence[PeakCheck]) -> str:
    tally = Tally(str(check.closure) for check in checks)
    told = ", ".join(f"{closure}: {count}" for closure, count in tally.items())
    lines = [f"{len(checks)} launches, {told}. Largest differences, in points of FP32 peak:\n"]
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
    return "\n".join(lines) + "\n"


def _timing(records: Sequence[RunRecord]) -> str:
    parts = []
    shown: dict[tuple[str, str], RunRecord] = {}
    for record in _benches(records):
        # A repetition is below, as ratios.
        if shown.setdefault(_kind(record), record) is not record:
            continue
        results = [_result(raw) for raw in record.results if raw["kind"] == "bench"]
        parts.append(f"{_named([record])}:\n\n{_text(results_table(results, record.gpu))}")
    return "## Event timing\n\n" + "\n".join(parts) if parts else ""


def _ratios(records: Sequence[RunRecord]) -> str:
    """Pairs of bench runs: the same again, quick against article, hot against cold."""
    parts = []
    runs = sorted(_benches(records), key=_kind_last)
    for first, second in itertools.combinations(runs, 2):
        (protocol, cache), (other_protocol, other_cache) = _kind(first), _kind(second)
        if _kind(first) == _kind(second) and _same_gpu(first, second):
            title = "Repeating a run"
        elif not _is_head(first, runs) or not _is_head(second, runs):
            continue
        elif _kind(first) == _kind(second):
            title = "Another GPU of the same model"
        elif not _same_gpu(first, second):
            continue
        elif cache == other_cache:
            title = f"The {other_protocol} protocol against {protocol}"
        elif protocol == other_protocol:
            title = f"{other_cache.capitalize()} caches against {cache}"
        else:
            continue
        parts.append(_ratio_section(title, first, second))
    return "\n".join(part for part in parts if part)


def _ratio_section(title: str, first: RunRecord, second: RunRecord) -> str:
    one, other = _times(first), _times(second)
    keys = [key for key in one if key in other]
    if not keys:
        return ""
    gaps = {key: other[key] / one[key] - 1 for key in keys}
    worst = max(keys, key=lambda key: abs(gaps[key]))
    rows = tuple(
        (Cell(key[0]), Cell(key[1]), Cell(one[key]), Cell(other[key]), Cell(gaps[key])) for key in keys
    )
    columns = (
        Column("kernel", "kernel"),
        Column("problem", "problem"),
        Column("first", "first", "s"),
        Column("second", "second", "s"),
        Column("difference", "difference", "fraction", 2),
    )
    return (
        f"## {title}\n\nFirst: {_named([first])}. Second: {_named([second])}. {len(keys)} medians, furthest "
        f"apart by {abs(gaps[worst]):.2%} ({' at '.join(worst)}); half of them within "
        f"{statistics.median(map(abs, gaps.values())):.2%}.\n\n"
        + _text(Table("ratios", "medians of the same kernel in two runs", columns, rows))
    )


def _kind(record: RunRecord) -> tuple[str, str]:
    return str(record.options.get("protocol")), str(record.options.get("cache"))


def _same_gpu(first: RunRecord, second: RunRecord) -> bool:
    return first.gpu is not None and second.gpu is not None and first.gpu.uuid == second.gpu.uuid


def _is_head(record: RunRecord, runs: Sequence[RunRecord]) -> bool:
    """The first of its kind on its GPU."""
    return next(r for r in runs if _kind(r) == _kind(record) and _same_gpu(r, record)) is record


def _kind_last(record: RunRecord) -> tuple[bool, bool, str]:
    """Quick and hot runs first: what the others are compared with."""
    protocol, cache = _kind(record)
    return protocol != "quick", cache != "hot", record.started


def _self_tests(records: Sequence[RunRecord]) -> str:
    parts = []
    for record in records:
        tests = [SelfTest(**raw) for raw in record.results if raw.get("kind") == "selftest"]
        if tests:
            parts.append(f"{_named([record])}:\n\n{_text(self_tests_table(tests))}")
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
    return ", ".join(f"`{_command(r)}` ({_folder(r)})" for r in records)


def _folder(record: RunRecord) -> str:
    path = Path(record.path).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else record.id


def committed() -> list[RunRecord]:
    """The runs of this repository that the page is made from: the ladder's profiles, every bench run."""
    records = [run.record for folder in COMMITTED for run in runs_under(ROOT / folder) if run.record]
    return sorted(
        (record for record in records if record.what == "bench" or _is_ladder(record)),
        key=lambda record: ("recorded" not in record.path, record.what != "profile", record.started),
    )


def _is_ladder(record: RunRecord) -> bool:
    return {"k1", "k8"} <= {kernel.label for kernel in record.kernels}


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("measurements.md"))
    options = parser.parse_args()
    folders = [folder for text in options.runs for folder in run_folders(resolve_run(text))]
    records = [load_run(folder) for folder in folders] if folders else committed()
    options.output.write_text(page(records), encoding="utf-8")


if __name__ == "__main__":
    main()
