"""`perfkit article`: the article's tables and figures, its claims checked, its numbers filled in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit, emit_tables, note, warn
from perfkit.commands._output_file import write_file
from perfkit.errors import CheckFailedError, UsageError
from perfkit.user_file import read_text

if TYPE_CHECKING:
    from perfkit.model.measurements import Measurements
    from perfkit.model.traced import Roofline, TracedTable


def article(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs (`recorded`, `latest`, ids, folders) or reports."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for tables, figures, provenance."),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option("-n", "--problem", help="Size of the main tables; default: the one most kernels have."),
    ] = None,
    reference: Annotated[
        str,
        typer.Option(
            "--reference", help="Kernel the others are measured against; default: cublas, if there."
        ),
    ] = "",
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="TABLE:ROW:COLUMN", help="Say where a cell comes from.")
    ] = None,
    claims: Annotated[
        str | None,
        typer.Option(
            "--claims", metavar="FILE", help="Check the claims of a TOML file; `article`: the shipped ones."
        ),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template", metavar="FILE.md", help="Markdown whose {{ placeholders }} are filled in."
        ),
    ] = None,
    held: Annotated[
        bool, typer.Option("--held", help="Also the kernels held to fewer blocks an SM (k6b@1).")
    ] = False,
    fmt: Annotated[str, typer.Option("--format", help="Format of what is printed on stdout.")] = "terminal",
) -> None:
    """Make an article's tables and figures; every cell can be traced.

    Counters come from profile runs and reports, times and power from bench runs. With -o each table is
    written as Markdown, CSV, LaTeX and HTML, each figure as SVG and PNG, beside provenance.json; without it
    the tables are printed. Exit code 1 when a claim fails, or applies but cannot be decided.
    """
    from perfkit.analysis.measurements import without_held
    from perfkit.analysis.roofline import COUNTERS
    from perfkit.commands._inputs import choose_problem, read_measurements
    from perfkit.reports.article import article_tables
    from perfkit.reports.figures import traced_roofline

    everything = read_measurements(runs, COUNTERS, reference)
    measurements = everything if held else without_held(everything)
    at = choose_problem(measurements, problem)
    data, no_roofline = _roofline(measurements, at)
    traced = [*article_tables(measurements, at)]
    if data is not None:
        traced.append(traced_roofline(measurements, data))
    if trace is not None:
        emit(_trace(measurements, traced, trace, " ".join(runs)))
        return
    embedded: dict[str, str] = {}
    if output is not None:
        if data is None:
            warn(f"no roofline: {no_roofline}")
        embedded = _write(measurements, traced, data, at, output)
    if template is not None:
        _fill(template, everything, embedded or _embed_tables(traced), output)
    if claims is not None:
        _check(claims, everything, output, fmt)
    elif output is None and template is None:
        emit_tables([item.table for item in traced], fmt)


def _trace(measurements: Measurements, traced: Sequence[TracedTable], text: str, runs: str) -> str:
    from perfkit.reports.article import trace
    from perfkit.reports.provenance import explain_trace

    parts = text.split(":")
    if len(parts) < 3:
        raise UsageError(
            f"--trace {text!r} is no TABLE:ROW:COLUMN", "For example --trace counters:k6:issue_rate."
        )
    # A row may hold a colon ("share of peak: cublas (k8)", a C++ name); table and column do not.
    table, row, column = parts[0], ":".join(parts[1:-1]), parts[-1]
    try:
        steps = trace(measurements, traced, table, row, column)
    except KeyError as error:
        raise UsageError(f"--trace {text}: {error.args[0]}", "Choose one of those.") from None
    if steps:
        return explain_trace(steps)
    shown = next(item.table for item in traced if item.table.name == table)
    at = [item.name for item in shown.columns].index(column)
    cell = next(cells[at] for cells in shown.rows if cells[0].value == row)
    raise UsageError(
        f"--trace {text}: that cell is empty: {cell.note or 'it has no value in this row'}",
        f"`perfkit article {runs}` prints the table.",
    )


def _roofline(measurements: Measurements, problem: str) -> tuple[Roofline | None, str]:
    """The roofline, or None and why there is none."""
    from perfkit.analysis.roofline import roofline

    try:
        return roofline(measurements, problem), ""
    except UsageError as error:
        return None, error.message


def _write(
    measurements: Measurements,
    traced: Sequence[TracedTable],
    data: Roofline | None,
    problem: str,
    folder: Path,
) -> dict[str, str]:
    """Write everything; returns what templates may embed, by placeholder."""
    from perfkit.reports import SUFFIXES, render
    from perfkit.reports.provenance import provenance

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", "Give -o a folder.")
    figures = _figures(measurements, data, problem, folder)
    tables = [item.table for item in traced]
    for table in tables:
        for fmt in ("markdown", "csv", "latex", "html"):
            _put(folder / f"{table.name}.{SUFFIXES[fmt]}", render([table], fmt))
    _put(folder / "provenance.json", provenance(measurements, traced))
    names = ", ".join([*(table.name for table in tables), *(f"figure {name}" for name in figures)])
    note(f"wrote {folder}: {names}; provenance.json says where every cell comes from")
    embedded = _embed_tables(traced)
    embedded.update({f"figure:{name}": f"![{title}]({name}.svg)" for name, title in figures.items()})
    return embedded


def _embed_tables(traced: Sequence[TracedTable]) -> dict[str, str]:
    from perfkit.reports import render

    return {f"table:{item.table.name}": render([item.table], "markdown").strip() for item in traced}


def _figures(measurements: Measurements, data: Roofline | None, problem: str, folder: Path) -> dict[str, str]:
    """Draw what can be drawn. Returns the figures and their titles."""
    from perfkit.reports.figures import climb_figure
    from perfkit.reports.plots import png, svg
    from perfkit.reports.roofline_plot import roofline as draw

    done: dict[str, str] = {}
    figure, title = climb_figure(measurements, problem)
    for name in ("flop_rate", "ncu_flop_rate"):
        for kernel, why in measurements.doubtful(name, problem).items():
            warn(f"climb: {kernel}: not drawn, its speed cannot be right: {why}")
    if figure is None:
        warn(f"no chart of the climb: {title}")
    else:
        _put(folder / "climb.svg", svg(figure))
        _put_bytes(folder / "climb.png", png(figure))
        done["climb"] = title
    if data is None:
        return done
    for missing in data.missing:
        warn(f"roofline: {missing}")
    figure = draw(data)
    _put(folder / "roofline.svg", svg(figure))
    _put_bytes(folder / "roofline.png", png(figure))
    done["roofline"] = data.title
    return done


def _fill(template: Path, measurements: Measurements, embedded: dict[str, str], folder: Path | None) -> None:
    from perfkit.analysis.claims import fill

    try:
        text = read_text(template)
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or error
        raise UsageError(f"cannot read {template}: {why}", "Give --template a Markdown file.") from None
    filled = fill(text, measurements, str(template), embedded)
    if folder is not None and (folder / template.name).resolve() == template.resolve():
        raise UsageError(f"{template} would be overwritten by its own filled copy", "Give -o another folder.")
    emit(filled, None if folder is None else folder / template.name)


def _check(name: str, measurements: Measurements, folder: Path | None, fmt: str) -> None:
    from perfkit.analysis.claims import SHIPPED, decide, load_claims, shipped_claims
    from perfkit.model.claims import Outcome
    from perfkit.reports.figures import claims_table

    found = load_claims(shipped_claims() if name == SHIPPED else Path(name))
    results = [decide(claim, measurements) for claim in found]
    table = claims_table(results, measurements.gpu)
    emit_tables([claims_table(results, measurements.gpu, brief=True) if fmt == "terminal" else table], fmt)
    if folder is not None:
        from perfkit.reports import SUFFIXES, render

        for kind in ("markdown", "csv", "latex", "html"):
            _put(folder / f"claims.{SUFFIXES[kind]}", render([table], kind))
    bad = [result for result in results if result.outcome in (Outcome.FAILS, Outcome.UNDECIDED)]
    for result in bad:
        why = result.reason or f"measured {result.measured}, said {result.stated}"
        warn(f"claim {result.claim.id} {result.outcome.value}: {why}")
    if bad:
        ids = ", ".join(result.claim.id for result in bad)
        raise CheckFailedError(
            f"{len(bad)} of {len(results)} claims fail or cannot be decided: {ids}",
            "Correct the text or the kernel; for what is missing, give a run that holds it.",
        )


def _put(path: Path, text: str) -> None:
    _put_bytes(path, text.encode("utf-8"))


def _put_bytes(path: Path, content: bytes) -> None:
    write_file(path, content)
