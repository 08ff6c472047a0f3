"""`perfkit explain A [B]`: why B is slower than A, or where A's share of peak went."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit, emit_tables, note, warn
from perfkit.commands._output_file import write_file
from perfkit.errors import ReportError, UsageError

if TYPE_CHECKING:
    from perfkit.commands._sides import Chosen
    from perfkit.model import Comparison, PeakLoss, Table, Verified, Waterfall

FIGURES = (".svg", ".png")


def explain(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="A [B]...",
            help="Kernels of the last profile run, RUN:kernel, RUN:launch, REPORT or REPORT:launch. "
            "One: where its share of peak went. Two: why B is slower or faster. "
            "More: each step from one to the next.",
        ),
    ] = None,
    run: Annotated[
        str, typer.Option(help="The run that plain kernel names mean (a folder, an id, `recorded`).")
    ] = "latest",
    n: Annotated[int | None, typer.Option("-n", help="Problem size n, where the run holds several.")] = None,
    problem: Annotated[str, typer.Option(help="Problem label, such as m=128,n=64.")] = "",
    bench: Annotated[str | None, typer.Option(help="A bench run, for event timings beside ncu's.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every child, however small.")] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Prove the occupancy cause: run the faster kernel at the slower one's blocks per SM.",
        ),
    ] = False,
    registers: Annotated[
        bool,
        typer.Option("--registers", help="With --verify: also build the one to the other's register count."),
    ] = False,
    interventions: Annotated[
        str | None,
        typer.Option(
            help="A run with kernels also held to fewer blocks per SM (k6b@1): predicted against observed."
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw the waterfall: FILE.svg or FILE.png.")
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, json, latex, html.")
    ] = "terminal",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this file.")] = None,
) -> None:
    """Say why B is slower than A: an exact split into causes.

    Each cause with the counters that speak for it, and the residual shown.
    Exits 2 with the reason where two launches must not be compared: different chips, problems or cache
    control, launches that were not collected, tensor-core work.
    """
    from perfkit.commands._sides import Sources, choose
    from perfkit.reports import check_format

    check_format(output_format)
    if figure is not None and figure.suffix not in FIGURES:
        raise UsageError(
            f"cannot draw {figure}: its suffix is not .svg or .png", "Name it FILE.svg or FILE.png."
        )
    if interventions is not None:
        from perfkit.commands._verify import run_table

        if kernels:
            raise UsageError(
                f"--interventions is about a whole run, and {kernels[0]} would be left out of account",
                f"perfkit explain --interventions {interventions}",
            )
        emit_tables(run_table(Sources(), interventions), output_format, output)
        return
    named = kernels or []
    _check(named, verify, registers, figure)
    wanted = problem or (f"n={n}" if n is not None else "")
    sides = choose(Sources(run), named, wanted)
    results: list[Comparison | PeakLoss] = [
        _compare(one, other, bench) for one, other in itertools.pairwise(sides)
    ]
    results = results or [_alone(sides[0])]
    for text in dict.fromkeys(text for result in results for text in result.warnings):
        warn(text)
    verified = _verify(sides, results[0], registers=registers) if verify else None
    _show(results, output_format, output, everything=everything, verified=verified)
    if figure is not None:
        _draw(results[0], figure)


def _check(named: list[str], verify: bool, registers: bool, figure: Path | None) -> None:
    if not named:
        raise UsageError("nothing to explain", "Name one or two kernels: perfkit explain k6 k6b.")
    if verify and len(named) != 2:
        raise UsageError("--verify needs two kernels", "perfkit explain k6 k6b --verify.")
    if registers and not verify:
        raise UsageError("--registers is a part of --verify", "perfkit explain k6 k6b --verify --registers.")
    if figure is not None and len(named) > 2:
        raise UsageError("--figure draws one comparison", "Name one or two kernels.")


def _verify(sides: list[Chosen], result: Comparison | PeakLoss, *, registers: bool) -> Verified | None:
    from perfkit.commands._verify import intervene
    from perfkit.model import Comparison

    # The command line allows it for two sides only, and two sides make a comparison.
    if not isinstance(result, Comparison):
        return None
    return intervene(sides[0], sides[1], result, registers=registers)


def _compare(one: Chosen, other: Chosen, bench: str | None) -> Comparison:
    import math
    from dataclasses import replace

    from perfkit.analysis.explain import explain as explain_pair
    from perfkit.analysis.source_level import compare_source
    from perfkit.analysis.source_reader import read_all_instructions
    from perfkit.commands._wall_clock import wall_clock

    if [held.launch.id for held in one.launches] == [held.launch.id for held in other.launches]:
        raise UsageError(
            f"{one.text} and {other.text} are the same launch", "Name another kernel, run or launch for B."
        )
    result = explain_pair(
        one.launches,
        other.launches,
        origin_a=one.origin,
        origin_b=other.origin,
        wall_clock=wall_clock(one, other, bench),
    )
    try:
        a, b = read_all_instructions([result.a.launch, result.b.launch])
    except ReportError as error:  # the rest of the explanation stands without
        warn(error.message)
        return result
    return replace(result, source=compare_source(a, b, math.exp(result.log_ratio)))


def _alone(one: Chosen) -> PeakLoss:
    from perfkit.analysis.explain import explain_alone

    return explain_alone(one.launches)


def _show(
    results: list[Comparison | PeakLoss],
    fmt: str,
    output: Path | None,
    *,
    everything: bool,
    verified: Verified | None,
) -> None:
    from perfkit.commands import _explain_tables as tables
    from perfkit.commands._verify import verified_table
    from perfkit.model import Comparison

    if fmt == "json":
        emit(tables.as_json(results, verified), output)
        return
    shown: list[Table] = []
    for result in results:
        if isinstance(result, Comparison):
            shown += tables.comparison_tables(result, everything=everything)
            shown += [verified_table(verified, result)] if verified is not None else []
        else:
            shown += tables.loss_tables(result, everything=everything)
    emit_tables(shown, fmt, output)


def _draw(result: Comparison | PeakLoss, path: Path) -> None:
    from perfkit.analysis.explain import waterfall, waterfall_alone
    from perfkit.model import Comparison
    from perfkit.reports import plots

    steps: Waterfall = waterfall(result) if isinstance(result, Comparison) else waterfall_alone(result)
    drawn = plots.waterfall(steps)
    write_file(path, plots.svg(drawn).encode("utf-8") if path.suffix == ".svg" else plots.png(drawn))
    note(f"wrote {path}")
