"""`perfkit roofline`: the roofline of a run, as a figure or as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit, emit_tables, note
from perfkit.commands._output_file import write_file
from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.model.traced import Ceiling

_LEVELS = ("dram", "l2", "l1")


def roofline(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN...]", help="Runs (`recorded`, `latest`, ids, folders) or reports."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.svg|png", help="The figure; default: numbers only."),
    ] = None,
    problem: Annotated[
        str | None, typer.Option("-n", "--problem", help="Size to draw; default: the one most kernels have.")
    ] = None,
    levels: Annotated[
        str, typer.Option("--levels", help="Memory to draw against: dram, l2, l1, comma-separated.")
    ] = "dram",
    instructions: Annotated[
        bool,
        typer.Option("--instructions", help="Warp instructions per 32-byte transaction instead of FLOPs."),
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure copy bandwidth and FMA rate on this machine's GPU.")
    ] = False,
    ceilings: Annotated[
        Path | None,
        typer.Option(
            "--ceilings", metavar="FILE.json", help="Measured ceilings: written by --measure, else read."
        ),
    ] = None,
    fmt: Annotated[str, typer.Option("--format", help="Format of the numbers on stdout.")] = "terminal",
) -> None:
    """Draw the FP32 roofline of a run or report.

    Peaks are at the clock that ran. Every ceiling says where it comes from: counters, device attributes,
    architecture, or measured (with --measure). The figure's numbers are printed on stdout.
    """
    chosen = tuple(level.strip() for level in levels.split(",") if level.strip())
    unknown = [level for level in chosen if level not in _LEVELS]
    if unknown or not chosen:
        raise UsageError(
            f"--levels {levels}: no level {', '.join(unknown)}", f"Levels: {', '.join(_LEVELS)}."
        )
    if output is not None and output.suffix not in (".svg", ".png"):
        raise UsageError(f"{output}: a figure is .svg or .png", "Give -o a name that ends so.")
    if not runs and not measure:
        raise UsageError("nothing to draw", "Give a run or a report, or --measure.")
    measured = _measured(measure, ceilings)
    if runs:
        _draw(runs, output, problem, chosen, instructions, measured, fmt)
    else:
        _print_ceilings(measured, fmt)


def _draw(
    runs: list[str],
    output: Path | None,
    problem: str | None,
    levels: tuple[str, ...],
    instructions: bool,
    measured: tuple[Ceiling, ...],
    fmt: str,
) -> None:
    from perfkit.analysis.roofline import COUNTERS, Options
    from perfkit.analysis.roofline import roofline as compute
    from perfkit.commands._inputs import choose_problem, read_measurements
    from perfkit.reports.figures import roofline_table

    measurements = read_measurements(runs, COUNTERS)
    at = choose_problem(measurements, problem)
    others = [one for one in measurements.problems if one != at]
    if problem is None and others:
        named = ", ".join(one or "launches of no known size" for one in others)
        note(f"drawn at {at or 'launches of no known size'}; left out: {named}. Choose a size with -n.")
    data = compute(measurements, at, Options(levels, instructions, measured))
    emit_tables([roofline_table(data)], fmt)
    if output is None:
        return
    from perfkit.reports.plots import png, svg
    from perfkit.reports.roofline_plot import roofline as draw

    figure = draw(data)
    if output.suffix == ".svg":
        emit(svg(figure), output)
        return
    write_file(output, png(figure))
    note(f"wrote {output}")


def _measured(measure: bool, file: Path | None) -> tuple[Ceiling, ...]:
    """Ceilings measured now (and kept in `file`), or those that `file` holds."""
    from perfkit.reports.ceilings import read_ceilings, write_ceilings

    if not measure:
        return read_ceilings(file) if file is not None else ()
    from perfkit.profiler.ceilings import measure_ceilings

    found = measure_ceilings()
    if file is not None:
        emit(write_ceilings(found), file)
    return found


def _print_ceilings(ceilings: tuple[Ceiling, ...], fmt: str) -> None:
    from perfkit.model.traced import Roofline
    from perfkit.reports.figures import roofline_table

    emit_tables([roofline_table(Roofline("Measured ceilings", ceilings, (), "FLOP/byte", "FLOP/s"))], fmt)
