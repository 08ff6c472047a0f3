"""`perfkit runs`: the store of runs with their status, or one run in full."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from perfkit.commands._console import emit_tables, note

if TYPE_CHECKING:
    from perfkit.model import RunRecord, Table
    from perfkit.profiler.run_store import StoredRun


def runs(
    run: str = typer.Argument(None, help="A run to show: folder, id, the start of one, latest or recorded."),
    what: str = typer.Option("", "--what", help="Only runs of this kind: profile or bench."),
    fmt: str = typer.Option("terminal", "--format", help="terminal, markdown, csv, json, latex or html."),
    output: Path = typer.Option(None, "-o", "--output", help="Write to this file."),
) -> None:
    """List the store of runs, or show one in full.

    The store is $PERFKIT_RUNS, else ./perfkit-runs. A run that was killed is listed as incomplete; nothing
    reads it as a result.
    """
    from perfkit.profiler import run_store

    if run:
        path = run_store.resolve_run(run)
        folders = run_store.run_folders(path)
        tables = [table for folder in folders for table in _describe(run_store.load_run(folder))]
        emit_tables(tables, fmt, output)
        return
    store = run_store.RunStore()
    listed = [
        *run_store.runs_under(run_store.recorded_root()),
        *store.list(),
    ]
    chosen = [one for one in listed if not what or (one.record and one.record.what == what)]
    emit_tables([_list(chosen)], fmt, output)
    note(f"store: {store.root}")


def _list(found: Sequence[StoredRun]) -> Table:
    from perfkit.model import Cell, Column, Table
    from perfkit.profiler.run_store import recorded_root

    columns = (
        Column("run", "run"),
        Column("what", "what"),
        Column("status", "status"),
        Column("kernels", "kernels or program"),
        Column("gpu", "GPU"),
        Column("shipped", "shipped"),
    )
    rows = []
    for one in found:
        record = one.record
        rows.append(
            (
                Cell(one.id),
                Cell(record.what if record else ""),
                Cell(one.status, note=one.problem),
                Cell(_subject(record) if record else ""),
                Cell(record.gpu.name if record and record.gpu else ""),
                Cell("yes" if one.path.parent == recorded_root() else ""),
            )
        )
    notes = tuple(f"{one.id}: {one.problem}" for one in found if one.problem)
    return Table("runs", "Runs", columns, tuple(rows), notes)


def _subject(record: RunRecord) -> str:
    """What was measured, in short: kernels with their sizes, or the program."""
    if record.kernels:
        labels = list(dict.fromkeys(kernel.label for kernel in record.kernels))
        problems = list(dict.fromkeys(kernel.problem for kernel in record.kernels))
        return f"{' '.join(labels)} at {' '.join(problems)}"
    program = record.options.get("program", ())
    return " ".join(str(part) for part in program)


def _describe(record: RunRecord) -> list[Table]:
    from perfkit.commands._run_tables import facts_table, kernels_table, verification_table

    tables = [facts_table(record)]
    tables += [table for table in (kernels_table(record), verification_table(record)) if table]
    return tables
