"""What the commands that take several runs read: launches with their metrics, run records, file hashes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.commands._console import warn
from perfkit.commands._reading import reading
from perfkit.errors import UsageError
from perfkit.model import REPORT_SUFFIXES

if TYPE_CHECKING:
    from perfkit.analysis.measurements import RunFile
    from perfkit.analysis.metrics import MetricSets
    from perfkit.model import Evaluated, Report, RunRecord
    from perfkit.model.measurements import Measurements

MAX_JOBS = 4
FEW = 4  # reports from which on a second reading process pays


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything read. `files` maps LaunchId.report and run folders to their names in provenance.

    `reports` are the files as they were read, with what is missing from them.
    """

    evaluated: tuple[Evaluated, ...]
    records: tuple[RunRecord, ...]
    files: dict[str, RunFile]
    sets: MetricSets
    reports: tuple[Report, ...] = ()


def read_inputs(texts: Sequence[str], counters: Iterable[str] = ()) -> Inputs:
    """Read runs (paths, ids, `latest`, `recorded`) and reports; `counters` beside those of the fixed sets.

    Raises UsageError and ReportError for what cannot be found or read; what is damaged but readable is warned
    about.
    """
    from perfkit.analysis.measurements import RunFile
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.analysis.report import read_reports

    paths, records = _find(texts)
    sets = load_metric_sets()
    wanted = tuple(dict.fromkeys((*sets.reading(), *counters)))
    files: dict[str, RunFile] = {}
    evaluated: list[Evaluated] = []
    jobs = min(MAX_JOBS, os.cpu_count() or 1) if len(paths) > FEW else 1
    with reading(len(paths)) as progress:
        reports = read_reports(list(paths), wanted, jobs=jobs, progress=progress)
    for report, (path, name) in zip(reports, paths.items(), strict=True):
        for problem in report.problems:
            warn(f"{path}: {problem}")
        files[report.path] = RunFile(name, _sha256(path))
        evaluated += [sets.evaluate(launch) for launch in report.launches]
    for record in records:
        folder = Path(record.path)
        files[record.path] = RunFile(f"{folder.name}/run.json", _sha256(folder / "run.json"))
    return Inputs(tuple(evaluated), tuple(records), files, sets, tuple(reports))


def read_measurements(
    texts: Sequence[str], counters: Iterable[str] = (), reference: str = ""
) -> Measurements:
    """Read runs and reports and put them together by kernel and problem; warnings go to stderr."""
    from perfkit.analysis.measurements import gather

    inputs = read_inputs(texts, counters)
    measurements = gather(inputs.evaluated, inputs.records, inputs.files, reference)
    for warning in measurements.warnings:
        warn(warning)
    # Those that read the files made from these have not seen what was warned about while reading.
    damage = tuple(
        f"{inputs.files[report.path].name} {problem}"
        for report in inputs.reports
        for problem in report.problems
    )
    return replace(measurements, warnings=(*measurements.warnings, *damage))


def choose_problem(measurements: Measurements, problem: str | None) -> str:
    """The problem asked for (`4096` means `n=4096`), or the main one. UsageError where not measured."""
    if not problem:
        return measurements.main_problem
    wanted = f"n={problem}" if problem.isdigit() else problem
    if wanted not in measurements.problems:
        measured = ", ".join(name for name in measurements.problems if name) or "none has a size"
        raise UsageError(f"nothing was measured at {wanted}", f"Measured: {measured}.")
    return wanted


def _find(texts: Sequence[str]) -> tuple[dict[Path, str], list[RunRecord]]:
    """Report files with their names in provenance, and the records of the runs."""
    from perfkit.profiler.run_store import load_run, resolve_run, run_folders, run_reports

    paths: dict[Path, str] = {}
    records: list[RunRecord] = []
    for text in texts:
        path = Path(text)
        if path.suffix in REPORT_SUFFIXES or path.is_file():
            paths[path] = path.name
            continue
        loose = (
            sorted(one for one in path.iterdir() if one.suffix in REPORT_SUFFIXES) if path.is_dir() else []
        )
        if loose and not (path / "run.json").exists():
            paths.update((report, report.name) for report in loose)
            continue
        for folder in run_folders(resolve_run(text)):
            record = load_run(folder)
            if record.status != "complete":
                warn(f"{folder}: the run is {record.status}; what it holds is shown")
            records.append(record)
            for report in run_reports(folder):
                paths[report] = f"{folder.name}/{report.relative_to(folder)}"
    return paths, records


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
