"""`perfkit profile`: kernels of the registry, or any program, under ncu; the run is stored and shown."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from perfkit.commands._console import emit, emit_tables, note, warn
from perfkit.commands._program import ProgramCommand, program_of
from perfkit.errors import PerfkitError, UsageError

if TYPE_CHECKING:
    from perfkit.profiler.ncu_command import Filters
    from perfkit.profiler.session import KernelRequest, Profiled, Settings

SETTINGS = {"cls": ProgramCommand}
# One pass, no flushed caches, and what tells launches apart: enough to see what a program launches.
_LISTING = ("gpu__time_duration.sum", "launch__registers_per_thread")


@dataclass(frozen=True, slots=True)
class _Output:
    """Where the tables go."""

    fmt: str
    path: Path | None


def profile(
    ctx: typer.Context,
    kernels: list[str] = typer.Argument(
        None,
        metavar="[KERNEL]...",
        help="Keys, patterns (k6*), `ladder` or `all`; KEY@N holds a kernel to N blocks per SM.",
    ),
    n: list[int] = typer.Option(None, "-n", help="Problem size; repeat it for several."),
    size: list[str] = typer.Option(None, "--size", metavar="NAME=V", help="A size of another name."),
    sets: list[str] = typer.Option(None, "--set", help="Metric set; repeatable. Default: all of them."),
    blocks_per_sm: list[int] = typer.Option(
        None, "--blocks-per-sm", help="Hold the kernels to this many resident blocks per SM; repeatable."
    ),
    carveout: int = typer.Option(
        None,
        "--carveout",
        min=-1,
        max=100,
        help="Percent of L1 preferred as shared memory; -1: driver's choice.",
    ),
    verify: bool = typer.Option(True, "--verify/--no-verify", help="Compare results with the reference."),
    seed: int = typer.Option(0, "--seed", min=0, help="Of the inputs."),
    kernel: str = typer.Option("", "--kernel", metavar="REGEX", help="Program: kernels of such names."),
    exclude: str = typer.Option("", "--exclude", metavar="REGEX", help="Program: not those."),
    nvtx: list[str] = typer.Option(None, "--nvtx", metavar="RANGE", help="Program: inside this NVTX range."),
    skip: int = typer.Option(0, "--skip", help="Program: leave out the first N launches that match."),
    count: int = typer.Option(None, "--count", help="Program: profile at most N launches."),
    profiler_range: bool = typer.Option(
        False, "--profiler-range", help="Program: only between cudaProfilerStart and cudaProfilerStop."
    ),
    demangled: bool = typer.Option(
        False, "--demangled", help="Program: match --kernel and --exclude with the full demangled name."
    ),
    list_: bool = typer.Option(False, "--list", help="Program: what it launches and how often, cheaply."),
    cwd: Path = typer.Option(None, "--cwd", help="Program: the folder to run it in."),
    metrics: list[str] = typer.Option(None, "--metrics", help="More ncu metrics to collect, by comma."),
    timeout: float = typer.Option(None, "--timeout", metavar="SECONDS", help="End it all after this time."),
    clock_control: str = typer.Option("none", "--clock-control", help="none or base."),
    cache_control: str = typer.Option("all", "--cache-control", help="all (flush between passes) or none."),
    source: bool = typer.Option(
        False, "--source", help="Also count by instruction, and keep the SASS in the report."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the ncu command line and stop."),
    fmt: str = typer.Option("terminal", "--format", help="terminal, markdown, csv, json, latex or html."),
    output: Path = typer.Option(None, "-o", "--output", help="Write the tables to this file."),
) -> None:
    """Profile kernels, or any program, under Nsight Compute.

    perfkit profile k6 k6b -n 4096 builds the kernels, launches each once under ncu, stores the run and prints
    the counters side by side; results are verified outside of what is profiled, and a wrong one exits with 1.
    perfkit profile --kernel gemm --count 3 -- ./program args does the same for a program.
    """
    from perfkit.profiler.ncu_command import Filters

    _check_format(fmt)
    if timeout is not None and not timeout > 0:
        raise UsageError(f"--timeout {timeout:g}: it must be more than 0 seconds")
    program = program_of(ctx)
    filters = Filters(kernel, exclude, tuple(nvtx or ()), skip, count, demangled)
    _check_mode(ctx, program is not None, bool(kernels), list_)
    settings = _settings(sets or [], metrics or [], clock_control, cache_control, timeout, listing=list_)
    settings = dataclasses.replace(settings, source=source and not list_)
    shown = _Output(fmt, output)
    if program is not None:
        _program(program, settings, filters, shown, cwd, not profiler_range, dry_run, list_)
        return
    from perfkit.kernels.sizes import parse_sizes
    from perfkit.profiler import session

    wanted = session.select(kernels or [], parse_sizes(n or [], size or []), blocks_per_sm or [None])
    if dry_run:
        target = [sys.executable, "-m", "perfkit.kernels.runner", "PLAN.json"]
        emit(session.dry_run(target, settings, Filters(), from_start=False), output)
        return
    _kernels(wanted, settings, shown, verify, carveout, seed)


_ONLY_PROGRAM = (
    "kernel",
    "exclude",
    "nvtx",
    "skip",
    "count",
    "profiler_range",
    "demangled",
    "list_",
    "cwd",
)
_NOT_LISTING = ("sets", "metrics", "clock_control", "cache_control", "source")
_ONLY_KERNELS = ("n", "size", "blocks_per_sm", "carveout", "verify", "seed")


def _check_mode(ctx: typer.Context, program: bool, kernels: bool, listing: bool) -> None:
    """Options of the other mode would be lost without a word, so they are an error."""
    if program and kernels:
        raise UsageError(
            "kernels and a program cannot be profiled in one run", "Leave out the one or the other."
        )
    if not program and not kernels:
        raise UsageError(
            "nothing to profile",
            "Name kernels (perfkit profile k6 k6b; `perfkit kernels` lists them), "
            "or a program after -- (perfkit profile -- ./program).",
        )
    names = _ONLY_KERNELS if program else _ONLY_PROGRAM
    if given := _given(ctx, names):
        other = "a kernel of the registry" if program else "a program after --"
        raise UsageError(f"{', '.join(given)} can only be used with {other}")
    if listing and (given := _given(ctx, _NOT_LISTING)):
        raise UsageError(
            f"{', '.join(given)} cannot be used with --list, which only counts launches and times them"
        )


def _given(ctx: typer.Context, names: Sequence[str]) -> list[str]:
    """Which of these options stand on the command line."""
    return [
        param.opts[-1]
        for param in ctx.command.params
        if param.name in names and getattr(ctx.get_parameter_source(param.name), "name", "") == "COMMANDLINE"
    ]


def _check_format(fmt: str) -> None:
    from perfkit.reports import FORMATS

    if fmt not in FORMATS:
        raise UsageError(f"unknown format {fmt!r}", f"Formats: {', '.join(FORMATS)}.")


def _settings(
    sets: Sequence[str],
    metrics: Sequence[str],
    clock_control: str,
    cache_control: str,
    timeout: float | None,
    *,
    listing: bool,
) -> Settings:
    """The counters to collect: those of the metric sets on this chip, and the ones asked for by name."""
    from perfkit.profiler.session import Settings

    if listing:
        return Settings(_LISTING, (), "none", "none", timeout)
    from perfkit.profiling_api import collected

    extra = [part.strip() for text in metrics for part in text.split(",") if part.strip()]
    counters, names = collected(sets, extra)
    return Settings(counters, names, clock_control, cache_control, timeout, typed=tuple(extra))


def _kernels(
    wanted: Sequence[KernelRequest],
    settings: Settings,
    shown: _Output,
    verify: bool,
    carveout: int | None,
    seed: int,
) -> None:
    from perfkit.commands._progress import ProfileProgress
    from perfkit.profiler import session
    from perfkit.profiling_api import absent_counters

    with ProfileProgress(len(wanted), show_program=False, counted=True) as progress:
        done = session.profile_kernels(
            wanted,
            settings,
            verify=verify,
            carveout=carveout,
            seed=seed,
            command=("perfkit", *sys.argv[1:]),
            examine=lambda report: absent_counters(report, settings),
            on_built=progress.built,
            on_line=progress.line,
            on_progress=progress.moved,
        )
    _show(done, settings, shown)


def _program(
    program: Sequence[str],
    settings: Settings,
    filters: Filters,
    shown: _Output,
    cwd: Path | None,
    from_start: bool,
    dry_run: bool,
    listing: bool,
) -> None:
    from perfkit.commands._progress import ProfileProgress
    from perfkit.profiler import session
    from perfkit.profiler.ncu_command import resolve_target
    from perfkit.profiling_api import absent_counters

    if dry_run:
        emit(session.dry_run(resolve_target(program, cwd), settings, filters, from_start), shown.path)
        return
    with ProfileProgress(
        filters.count, show_program=True, counted=filters.count is not None or listing
    ) as progress:
        done = session.profile_program(
            program,
            settings,
            filters,
            cwd=cwd,
            from_start=from_start,
            what="list" if listing else "profile",
            command=("perfkit", *sys.argv[1:]),
            examine=None if listing else lambda report: absent_counters(report, settings),
            on_line=progress.line,
            on_progress=progress.moved,
        )
    if listing:
        _show_list(done, shown)
    else:
        _show(done, settings, shown)


def _show(done: Profiled, settings: Settings, shown: _Output) -> None:
    """The counters, where the run is, what it cost; then the error, if it has one."""
    from perfkit.commands._run_tables import summary_line, verification_table

    if done.record.reports:
        try:
            _show_counters(done, settings, shown)
        except PerfkitError as error:
            if not done.problem:
                raise
            warn(error.message)  # the report of a run that went wrong may be cut; the run's own error matters
    verification = verification_table(done.record)
    if verification and shown.fmt == "terminal" and shown.path is None:
        emit_tables([verification], "terminal")
    for text in done.warnings:
        warn(text)
    note(summary_line(done.record))
    note(f"run: {done.path}")
    if done.problem:
        raise done.problem


def _show_counters(done: Profiled, settings: Settings, shown: _Output) -> None:
    from perfkit.api import load
    from perfkit.commands.show import account, emit_profile
    from perfkit.profiling_api import typed_pattern

    profile = load(
        [done.path / name for name in done.record.reports],
        settings.sets or None,
        every_counter=bool(settings.typed),
    )
    more = typed_pattern(settings.typed) if settings.typed else ""
    emit_profile(profile, settings.sets, shown.fmt, shown.path, counters=more)
    account(profile, profile)


def _show_list(done: Profiled, shown: _Output) -> None:
    from perfkit.commands._launch_list import launch_list

    if done.record.reports:
        table, total = launch_list(done.path / done.record.reports[0])
        emit_tables([table], shown.fmt, shown.path)
        if total >= 100:
            warn(
                f"{total} launches: profiling all of them replays each several times. "
                "Choose with --kernel REGEX, --nvtx RANGE, --skip N and --count N."
            )
    if done.problem:
        raise done.problem
