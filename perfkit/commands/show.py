"""`perfkit show`: reports, run folders and whole folders of them as tables."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit, emit_tables, note, warn
from perfkit.commands._output_file import write_file
from perfkit.errors import CheckFailedError, PerfkitError, ReportError, UsageError
from perfkit.reports import FORMATS

if TYPE_CHECKING:
    from perfkit.api import Profile
    from perfkit.model import Evaluated, Report, Table

_FORMATS = (*FORMATS, "parquet")


def show(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="REPORT|RUN|DIR|GLOB...", help="Reports, runs, folders of them, patterns."),
    ],
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", help="A metric set, a metric, or a TOML file (or folder) of your own sets."
        ),
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", "-k", help="Only kernels that match this regular expression.")
    ] = "",
    launch: Annotated[
        list[str] | None,
        typer.Option("--launch", help="Only these launches of each report: an index, or a range 2-5."),
    ] = None,
    nvtx: Annotated[str, typer.Option("--nvtx", help="Only launches in NVTX ranges that match.")] = "",
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu", help="Only launches on GPUs that match: a name, 'device 1', a bus address or UUID."
        ),
    ] = "",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Reports read at a time.")] = 1,
    aggregate: Annotated[
        str,
        typer.Option(
            "--aggregate", help="Over repeated launches: median, min, max, or total (ratios of sums)."
        ),
    ] = "",
    by: Annotated[
        str,
        typer.Option(
            "--by",
            help="What makes launches alike, with --aggregate: kernel, name, report, gpu, device, process,"
            " kind, problem, grid, block, nvtx; several with commas. Without it: kernel,problem,gpu,device.",
        ),
    ] = "",
    raw: Annotated[
        str, typer.Option("--raw", help="Show the counters whose names match, as the reports store them.")
    ] = "",
    detail: Annotated[
        bool, typer.Option("--detail", help="Also the metrics that are left out for room.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail (exit 1) when any value is missing or any launch is lost.")
    ] = False,
    fmt: Annotated[str, typer.Option("--format", "-f", help=f"{', '.join(_FORMATS)}.")] = "terminal",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Show the launches and metrics of reports.

    A few launches stand side by side, many one a row.
    """
    _check_format(fmt, output)
    if by and not aggregate:
        raise UsageError(f"--by {by} without --aggregate", "Add --aggregate median (or min, max, total).")
    profile, names, failures = _load(targets, sets or [], jobs, every_counter=bool(raw))
    shown = profile
    if profile.launches and (kernel or launch or nvtx or gpu):
        shown = profile.select(kernel=kernel, launch=launch or (), nvtx=nvtx, gpu=gpu)
    if shown.launches or fmt == "json":
        if raw:
            _emit_raw(shown, raw, fmt, output)
        elif aggregate:
            _emit_aggregate(shown, aggregate, by, names, fmt, output)
        else:
            emit_profile(shown, names, fmt, output, detail=detail)
    failures += [ReportError(one.error, one.remedy) for one in profile.reports if one.error]
    account(profile, shown)
    for failure in failures[1:]:
        warn(failure.message)
    if failures:
        raise failures[0]
    if strict:
        _fail_on_missing(shown)


def emit_profile(
    profile: Profile,
    sets: Sequence[str],
    fmt: str,
    output: Path | None = None,
    *,
    detail: bool = False,
    counters: str = "",
) -> None:
    """Print a profile: tables for people, one long table as csv or parquet, the documented json.

    `counters`: a regular expression; the raw counters of such names are printed too.
    """
    wanted = re.compile(counters) if counters else None
    if fmt == "json":
        from perfkit import __version__
        from perfkit.analysis.launch_json import launches_json

        emit(launches_json(profile.evaluated, profile.reports, __version__, wanted), output)
    elif fmt == "csv":
        from perfkit.analysis.tables import long_table

        # The frame's own to_csv would hand names such as `=cmd()` to a spreadsheet as formulas.
        table = long_table(profile.evaluated)
        if wanted:
            from perfkit.analysis.frames import long_counter_rows
            from perfkit.model import Cell

            more = long_counter_rows(profile.evaluated, wanted)
            rows = (*table.rows, *(tuple(Cell(value) for value in row) for row in more))
            table = dataclasses.replace(table, rows=rows)
        emit_tables([table], fmt, output)
    elif fmt == "parquet":
        write_parquet(profile, output)
    else:
        tables = tables_of(profile, sets, detail=detail)
        if fmt != "terminal":  # there stderr says it; a file must carry it
            said = (
                f"{one.path}: {told}" for one in profile.reports if not one.error for told in one.problems
            )
            tables[0] = dataclasses.replace(tables[0], notes=(*tables[0].notes, *said))
        if wanted and any(wanted.search(name) for one in profile.launches for name in one.counters):
            from perfkit.analysis.tables import raw_table

            tables.append(raw_table(profile.evaluated, counters))
        emit_tables(tables, fmt, output)


def tables_of(profile: Profile, sets: Sequence[str] = (), *, detail: bool = False) -> list[Table]:
    """The launch table and a table for each set; all sets that were loaded if none is named."""
    from perfkit.analysis.tables import launch_table, set_tables

    chosen = list(sets) or list(profile.sets.sets)
    return [
        launch_table(profile.evaluated, profile.sets),
        *set_tables(profile.evaluated, profile.sets, chosen, detail=detail or None),
    ]


def write_parquet(profile: Profile, output: Path | None) -> None:
    """The long frame as Parquet. Raises UsageError without a file name, or where pyarrow is missing."""
    if output is None:
        raise UsageError("parquet needs a file", "Give one with -o FILE.parquet.")
    try:
        content = profile.frame().to_parquet(index=False)
    except ImportError:
        raise UsageError("parquet needs pyarrow", "Install it: pip install 'perfkit[parquet]'.") from None
    write_file(output, content)
    note(f"wrote {output}")


def account(profile: Profile, shown: Profile) -> None:
    """Say on stderr what became of every launch of the files that were read."""
    from perfkit.analysis.identity import report_names

    read = [one for one in profile.reports if not one.error]
    count = sum(len(one.launches) for one in read)
    parts = [
        f"{count} launch{'es' if count != 1 else ''} in {len(read)} report{'s' if len(read) != 1 else ''}"
    ]
    if len(shown) != count:
        parts.append(f"{len(shown)} shown")
    missing = [one for one in profile.launches if not one.collected]
    if missing:
        names = report_names(one.path for one in read)
        parts.append(
            f"{len(missing)} not collected: "
            + _listed([f"{names[one.id.report]}:{one.id.number}" for one in missing])
        )
    lost = sum(one.lost for one in profile.reports)
    if lost:
        least = "at least " if any(one.truncated for one in profile.reports) else ""
        parts.append(f"{least}{lost} lost")
    if read or not profile.reports:
        note("; ".join(parts))
    for one in profile.reports:
        for problem in one.problems if not one.error else ():
            warn(f"{one.path}: {problem}")
    _warn_of_newer(read)


def _warn_of_newer(reports: Sequence[Report]) -> None:
    from perfkit.analysis.report import library_version

    reader = library_version()
    newer = [one for one in reports if reader and _release(one.ncu_version) > _release(reader)]
    if newer:
        warn(
            f"{_listed([one.path for one in newer])}: made by ncu {newer[0].ncu_version}, newer than the"
            f" reader ({reader}): metrics may be missing; pip install --upgrade ncu-report"
        )


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(" ")[0].split(".")[:2] if part.isdigit())


def _load(
    targets: Sequence[str], sets: Sequence[str], jobs: int, *, every_counter: bool
) -> tuple[Profile, list[str], list[PerfkitError]]:
    """The profile, the sets to show, and the targets that are nothing at all (told at the end)."""
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.api import find_reports, load

    own = [one for one in sets if one.endswith(".toml") or Path(one).is_dir()]
    definitions = load_metric_sets(own)
    names = [one for one in sets if one not in own]
    if own:
        built_in = load_metric_sets().sets
        names += [one for one in definitions.sets if one not in built_in]
    files, failures = [], []
    for target in targets:
        try:
            files += find_reports(target)
        except PerfkitError as error:
            failures.append(error)
    if failures and not files:
        raise failures[0]
    from perfkit.commands._reading import reading

    with reading(len(files)) as progress:
        profile = load(
            files, names or None, jobs=jobs, keep_going=True, metric_sets=definitions, progress=progress,
            every_counter=every_counter,
        )  # fmt: skip
    return profile, names, failures


def _emit_raw(profile: Profile, pattern: str, fmt: str, output: Path | None) -> None:
    from perfkit.analysis.tables import raw_table

    emit_tables([raw_table(profile.evaluated, pattern)], fmt, output)


def _emit_aggregate(
    profile: Profile, function: str, by: str, sets: Sequence[str], fmt: str, output: Path | None
) -> None:
    from perfkit.analysis.aggregate import DEFAULT_KEYS, aggregate
    from perfkit.analysis.tables import aggregate_tables

    keys = [one.strip() for one in by.split(",") if one.strip()] or list(DEFAULT_KEYS)
    groups = aggregate(profile.evaluated, profile.sets, function, keys, profile.names)
    chosen = list(sets) or list(profile.sets.sets)
    emit_tables(aggregate_tables(groups, profile.sets, chosen, function, keys), fmt, output)


def _fail_on_missing(profile: Profile) -> None:
    from perfkit.model import Status

    def missing(one: Evaluated) -> list[str]:
        return [
            name for name, v in one.metrics.items() if v.status in (Status.NOT_COLLECTED, Status.NOT_ON_CHIP)
        ]

    lost = sum(one.lost for one in profile.reports)
    if lost:
        raise CheckFailedError(
            f"--strict: {lost} lost of the launches that the reports declare",
            "Profile again, or copy the report again.",
        )
    for one in profile.evaluated:
        if names := missing(one):
            raise CheckFailedError(
                f"--strict: {one.launch.id} ({one.launch.label}) has no value for {len(names)} metrics:"
                f" {_listed(names)}",
                one.metrics[names[0]].reason,
            )


def _check_format(fmt: str, output: Path | None) -> None:
    if fmt not in _FORMATS:
        raise UsageError(f"unknown format {fmt!r}", f"Formats: {', '.join(_FORMATS)}.")
    if fmt == "parquet" and output is None:
        raise UsageError("parquet needs a file", "Give one with -o FILE.parquet.")


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
