"""`perfkit demo`: k6 against k6b and the whole ladder, live where that can be, else from the recorded run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from perfkit.commands._console import emit_tables, note
from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.api import Profile
    from perfkit.model import Evaluated, RunRecord, Table

_PAIR = ("k6", "k6b")
_PAIR_SETS = ("issue", "launch", "memory", "shared")
# The counters an article on the ladder shows, in its order.
_LADDER_METRICS = (
    "duration",
    "registers_per_thread",
    "theoretical_occupancy",
    "sectors_per_load",
    "l1_hit_rate",
    "l2_hit_rate",
    "l2_read_bytes",
    "dram_read_bytes",
    "fma_per_shared_load",
    "wavefronts_per_shared_load",
    "shared_load_conflicts",
    "top_stall",
    "issue_rate",
    "fma_share",
    "share_of_peak",
)


def demo(
    recorded: bool = typer.Option(False, "--recorded", help="Do not profile, even where that is possible."),
    n: int = typer.Option(4096, "-n", help="Problem size."),
    fmt: str = typer.Option("terminal", "--format", help="terminal, markdown, csv, json, latex or html."),
    output: Path = typer.Option(None, "-o", "--output", help="Write the tables to this file."),
) -> None:
    """Show what perfkit does on its own ladder of matrix multiplies.

    Profiles them here where there is a GPU, ncu and the permission to read counters; anywhere else it shows
    the run that ships with perfkit. It says which, on which GPU, with which versions, and when.
    """
    from perfkit.api import load
    from perfkit.profiler.run_store import load_run, resolve_run, run_folders, run_reports

    missing = _missing()
    live = not recorded and not missing
    if live:
        folder = _profile(n)
    else:
        why = "as asked for" if recorded else f"missing here: {', '.join(missing)}"
        note(f"showing the recorded run ({why}; `perfkit doctor` has the remedies)")
        folder = resolve_run("recorded")
    records = [record for record in map(load_run, run_folders(folder)) if record.what == "profile"]
    profile = load(run_reports(folder))
    first, *others = _tables(profile, n)
    head, *more = _origins(records)
    lead = (f"{'Live' if live else 'Recorded'} run: {head}", *more)
    emit_tables([dataclasses.replace(first, lead=lead), *others], fmt, output)
    run = folder.name if live else "recorded"
    note(f"next: perfkit explain {run}:k6 {run}:k8; perfkit model {run}; perfkit report {run} -o report.html")


def _origins(records: Sequence[RunRecord]) -> list[str]:
    from perfkit.commands._run_tables import origin_lines

    return list(dict.fromkeys(line for record in records for line in origin_lines(record)))


def _missing() -> list[str]:
    from perfkit.profiler.doctor import Task, blocked, examine

    return [finding.name for finding in blocked(examine(), Task.PROFILE)]


def _profile(n: int) -> Path:
    from perfkit.commands._progress import ProfileProgress
    from perfkit.profiler import session
    from perfkit.profiling_api import collected

    counters, sets = collected(None)
    wanted = session.select(["ladder"], [{"n": n}])
    with ProfileProgress(len(wanted), show_program=False, counted=True) as progress:
        done = session.profile_kernels(
            wanted,
            session.Settings(counters, sets),
            command=("perfkit", "demo"),
            on_built=progress.built,
            on_line=progress.line,
            on_progress=progress.moved,
        )
    if done.problem:
        raise done.problem
    return done.path


def _tables(profile: Profile, n: int) -> list[Table]:
    """The pair side by side, then the whole ladder, one row a launch."""
    from perfkit.analysis.tables import set_tables

    problem = f"n={n}"
    here = [one for one in profile if one.launch.problem == problem and "@" not in (one.launch.key or "")]
    # Where several recorded runs hold a kernel, the newest counts; a library call keeps all its launches.
    newest = {one.launch.key: one.launch.id.report for one in here}
    here = [one for one in here if newest[one.launch.key] == one.launch.id.report]
    if not here:
        known = ", ".join(dict.fromkeys(one.launch.problem for one in profile))
        raise UsageError(f"the run holds no launch at {problem}", f"It holds {known}: choose with -n.")
    pair = [one for one in here if one.launch.key in _PAIR]
    tables = set_tables(pair, profile.sets, _PAIR_SETS, side_by_side=True) if len(pair) > 1 else []
    return [*tables, _ladder(here, profile, problem)]


def _ladder(launches: Sequence[Evaluated], profile: Profile, problem: str) -> Table:
    from perfkit.model import Cell, Column, Table

    metrics = [name for name in _LADDER_METRICS if any(name in one.metrics for one in launches)]
    columns = [Column("kernel", "kernel")]
    for name in metrics:
        known = profile.sets.metrics[name]
        columns.append(Column(name, known.title, known.unit))
    rows = []
    for one in launches:
        values = [one.metrics[name] for name in metrics]
        cells = [Cell(v.value, v.status, v.unit or None, note=v.reason) for v in values]
        rows.append((Cell(one.launch.label), *cells))
    return Table("ladder", f"The ladder at {problem}", tuple(columns), tuple(rows))
