"""`perfkit model RUN|REPORT...`: the peak model against ncu's count, the work model and event timing."""

from __future__ import annotations

import re
from collections import Counter as Tally
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit_tables, note, warn
from perfkit.errors import CheckFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfkit.model import Report, RunRecord
    from perfkit.model.peak import PeakCheck


def model(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|REPORT]...", help="Runs and reports; the latest profile run if left out."
        ),
    ] = None,
    kernel: Annotated[str, typer.Option("--kernel", help="Only launches whose kernel fits this regex.")] = "",
    n: Annotated[
        list[int] | None,
        typer.Option("-n", help="Only problem size n, repeatable, where a run holds several."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit 1 where a launch does not close: over 0.5 points off ncu's count or the work "
            "model, or over 1 point off event timing.",
        ),
    ] = False,
    jobs: Annotated[int, typer.Option(help="Reports read at a time.")] = 1,
    output_format: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, json, latex or html.")
    ] = "terminal",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the table to this file.")
    ] = None,
) -> None:
    """Check the peak model against measurement, launch by launch.

    Model: issue rate x FMA share x active fraction x lanes = share of FP32 peak.
    """
    from perfkit.analysis import peak_model
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.analysis.report import read_reports
    from perfkit.commands._model_table import peak_tables

    records, paths = find_inputs(inputs or [])
    pattern = _pattern(kernel)
    sets = load_metric_sets()
    reports = read_reports(paths, peak_model.counters(sets), jobs=jobs, keep_going=len(paths) > 1)
    _complain(reports)
    launches = [launch for report in reports for launch in report.launches]
    checks = peak_model.check_launches(
        launches, sets, flops=peak_model.run_flops(records), timed=peak_model.run_timed(records)
    )
    if pattern:
        names = {launch.id: (launch.label, launch.name) for launch in launches}
        fitting = [check for check in checks if any(map(pattern.search, names[check.launch]))]
        if checks and not fitting:
            held = list(dict.fromkeys(check.kernel for check in checks))
            more = f" and {len(held) - 12} more" if held[12:] else ""
            raise UsageError(
                f"--kernel {kernel!r} fits none of the {len(checks)} launches",
                f"Kernels: {', '.join(held[:12])}{more}.",
            )
        checks = fitting
    if n:
        wanted = [f"n={size}" for size in n]
        held = sorted(
            {check.problem for check in checks if check.problem}, key=lambda text: (len(text), text)
        )
        checks = [check for check in checks if check.problem in wanted]
        if missing := [one for one in wanted if one not in held]:
            raise UsageError(
                f"no launch was profiled at {', '.join(missing)}",
                f"Problems: {', '.join(held)}." if held else "The reports name no problem: leave -n out.",
            )
    for label, problem in peak_model.other_builds(records):
        warn(f"{label} at {problem} was timed from another source than it was profiled from: time it again")
    if not checks:
        raise UsageError("no launch to check", "Give a profile run, or a report with launches that fit.")
    # For people many launches without a share are a line a report; for programs each is a row.
    emit_tables(peak_tables(checks, fold=output_format not in ("csv", "json")), output_format, output)
    note(_summary(checks, len(paths)))
    failed = [report for report in reports if report.error]
    if failed:
        raise UsageError(f"{len(failed)} of {len(reports)} files could not be read", "They are named above.")
    if strict:
        _fail_on_open(checks)


def find_inputs(texts: Sequence[str]) -> tuple[list[RunRecord], list[Path]]:
    """The runs and the reports that the arguments name."""
    from perfkit.profiler.run_store import RunStore, load_run, resolve_run, run_folders

    if not texts:
        folders = [RunStore().latest("profile")]
    else:
        folders = [
            folder for text in texts if not Path(text).is_file() for folder in run_folders(resolve_run(text))
        ]
    records = [load_run(folder) for folder in folders]
    if not any(record.what == "bench" for record in records):
        records += _beside(records)
    paths = [Path(text) for text in texts if Path(text).is_file()]
    paths += [Path(record.path) / name for record in records for name in record.reports]
    if not paths:
        raise UsageError(
            "no report in what was given: " + ", ".join(texts),
            "Give a profile run as well (perfkit profile K...).",
        )
    return records, paths


def _beside(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The complete bench runs that lie beside these runs and ran on the same GPU."""
    from perfkit.profiler.run_store import runs_under

    gpus = {record.gpu.uuid for record in records if record.gpu}
    folders = dict.fromkeys(Path(record.path).parent for record in records)
    found = [run.record for folder in folders for run in runs_under(folder) if run.record]
    timed = [
        r for r in found if r.what == "bench" and r.status == "complete" and r.gpu and r.gpu.uuid in gpus
    ]
    for record in timed:
        note(f"event timings of {record.id}")
    return timed


def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(
            f"--kernel {text!r} is no regular expression: {error}",
            "Put a backslash before a character that stands for itself.",
        ) from error


def _complain(reports: Sequence[Report]) -> None:
    for report in reports:
        # The error of a report that cannot be read already holds its problems.
        for said in [report.error] if report.error else [f"{report.path} {one}" for one in report.problems]:
            warn(said)


def _summary(checks: Sequence[PeakCheck], files: int) -> str:
    tally = Tally(check.closure for check in checks)
    parts = ", ".join(f"{closure}: {count}" for closure, count in sorted(tally.items()))
    launches = f"{len(checks)} launch" + ("" if len(checks) == 1 else "es")
    return f"{launches} in {files} file{'' if files == 1 else 's'}: {parts}"


def _fail_on_open(checks: Sequence[PeakCheck]) -> None:
    from perfkit.model.peak import Closure

    failed = [check for check in checks if check.closure is Closure.OPEN]
    if failed:
        named = ", ".join(f"{check.kernel} ({check.launch})" for check in failed[:5])
        more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
        raise CheckFailedError(
            f"the model does not close: {named}{more}",
            "The table names the residual and what the counters say about it.",
        )
