"""`perfkit doctor`: what this machine can do, and the remedy for each thing it cannot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from perfkit.commands._console import emit, emit_tables
from perfkit.errors import CannotError

if TYPE_CHECKING:
    from perfkit.model import Table
    from perfkit.profiler.doctor import Finding, Task


def doctor(
    as_json: bool = typer.Option(False, "--json", help="The findings as JSON."),
    fmt: str = typer.Option("terminal", "--format", help="terminal, markdown, csv, json, latex or html."),
    output: Path = typer.Option(None, "-o", "--output", help="Write to this file."),
) -> None:
    """Check what this machine can do, with the remedies.

    Packages, GPU and driver, compilers, ncu, counter permission, store.

    Exits with 3 when something that profiling needs is missing; what could not be found out counts as there.
    """
    from perfkit.profiler.doctor import Task, blocked, examine

    findings = examine()
    tasks = {task: blocked(findings, task) for task in Task}
    if as_json:
        emit(
            json.dumps(
                {
                    "schema_version": 1,
                    "checks": [
                        {
                            "name": one.name,
                            "state": one.state.value,
                            "detail": one.detail,
                            "remedy": one.remedy if one.state != "ok" else "",
                            "needed_for": [task.value for task in one.needed_for],
                        }
                        for one in findings
                    ],
                    "can": {task.value: not missing for task, missing in tasks.items()},
                },
                indent=1,
                ensure_ascii=False,
            ),
            output,
        )
    else:
        emit_tables(_tables(findings, tasks), fmt, output)
    missing = tasks[Task.PROFILE]
    if missing:
        raise CannotError(
            f"this machine cannot profile: {', '.join(one.name for one in missing)} missing",
            "The notes under the first table say what to do about each.",
        )


def _tables(findings: Sequence[Finding], tasks: Mapping[Task, Sequence[Finding]]) -> list[Table]:
    from perfkit.model import Cell, Column, Table

    checks = Table(
        "doctor",
        "This machine",
        (Column("check", "check"), Column("state", "state"), Column("detail", "found")),
        tuple((Cell(one.name), Cell(one.state.value), Cell(one.detail)) for one in findings),
        tuple(_note(one) for one in findings if one.state != "ok" and one.remedy),
    )
    can = Table(
        "can",
        "What it can do",
        (Column("task", "task"), Column("can", "can"), Column("missing", "missing")),
        tuple(
            (
                Cell(task.value),
                Cell("no" if missing else "yes"),
                Cell(", ".join(one.name for one in missing)),
            )
            for task, missing in tasks.items()
        ),
    )
    return [checks, can]


def _note(finding: Finding) -> str:
    return f"{finding.name}: {' '.join(finding.remedy.split())}"
