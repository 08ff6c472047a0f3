"""`perfkit report`: everything about a run in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfkit.commands._console import emit, warn
from perfkit.errors import UsageError


def report(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs (`recorded`, `latest`, ids, folders) or reports."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.html", help="The page to write.")
    ] = Path("report.html"),
    problem: Annotated[
        str | None,
        typer.Option("-n", "--problem", help="Size whose kernels are explained; default: the one most have."),
    ] = None,
    title: Annotated[str, typer.Option("--title", help="Title of the page.")] = "",
) -> None:
    """Write everything about a run into one HTML page.

    Bars, sortable counters, stalls, roofline, model check, explanations, provenance. It loads nothing from
    anywhere and can be mailed.
    """
    from perfkit.analysis.measurements import gather
    from perfkit.commands._inputs import choose_problem, read_inputs
    from perfkit.commands._report_page import build_page, counters_to_read
    from perfkit.reports.page_html import render_page

    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"{output}: the page is HTML", "Give -o a name that ends in .html.")
    inputs = read_inputs(runs, counters_to_read())
    measurements = gather(inputs.evaluated, inputs.records, inputs.files)
    for warning in measurements.warnings:
        warn(warning)
    page = build_page(inputs, measurements, choose_problem(measurements, problem), title)
    emit(render_page(page), output)
