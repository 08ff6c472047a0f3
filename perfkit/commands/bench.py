"""`perfkit bench K...`: time, clock, power and verification; `--pairs` compares two kernels; `--aa`
tests the method.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit_tables, note, warn
from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.commands._bench_session import Session
    from perfkit.model import Table

DEFAULT_PAIRS = 60


class ProtocolName(StrEnum):
    """How long a kernel is timed."""

    quick = "quick"
    article = "article"


def bench(
    kernels: Annotated[
        list[str],
        typer.Argument(
            help="Keys, patterns (k6*), `ladder` or `all`; KEY@N holds a kernel to N blocks per SM."
        ),
    ],
    n: Annotated[list[int] | None, typer.Option("-n", help="Problem size n; may be repeated.")] = None,
    size: Annotated[list[str] | None, typer.Option("--size", help="NAME=V of a problem size.")] = None,
    protocol: Annotated[
        ProtocolName,
        typer.Option(help="quick stops when the estimate is good; article times for 4 s, in three rounds."),
    ] = ProtocolName.quick,
    rounds: Annotated[
        int, typer.Option(help="Rounds, each in a process of its own (0: the protocol's).")
    ] = 0,
    cold: Annotated[bool, typer.Option("--cold", help="Flush L2 before each launch.")] = False,
    pairs: Annotated[int, typer.Option(help="Compare two kernels from this many interleaved pairs.")] = 0,
    aa: Annotated[
        int, typer.Option("--aa", help="Self-test: compare a kernel with itself this often at each size.")
    ] = 0,
    handicap: Annotated[
        str, typer.Option(help="Self-test: slow one side down on purpose, for example by 1%.")
    ] = "",
    blocks_per_sm: Annotated[
        list[int] | None,
        typer.Option("--blocks-per-sm", help="Hold the kernels to this many blocks per SM; repeatable."),
    ] = None,
    carveout: Annotated[
        int | None,
        typer.Option(min=-1, max=100, help="Percent of L1 preferred as shared memory; -1: driver's choice."),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Check results first.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of the inputs and of the order of pairs.")] = 0,
    output_format: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, json, ...")
    ] = "terminal",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the table to this file.")
    ] = None,
) -> None:
    """Time kernels: median, SM clock, power, share of FP32 peak.

    The share is at the clock that ran. Wrong results are not timed.
    """
    from perfkit.commands import _bench_modes as modes
    from perfkit.commands import _bench_tables as tables
    from perfkit.commands._bench_session import jobs_of, session
    from perfkit.kernels.cuda_driver import first_gpu
    from perfkit.kernels.sizes import parse_sizes
    from perfkit.profiler.session import build_all, select
    from perfkit.reports import check_format

    check_format(output_format)
    _check_output(output)
    slow_down = modes.parse_handicap(handicap, aa)
    wanted = select(kernels, parse_sizes(n or (), size or ()), blocks_per_sm or (None,))
    jobs = jobs_of(wanted)
    modes.check(
        jobs,
        pairs=pairs,
        aa=aa,
        rounds=rounds,
        cold=cold,
        article=protocol is ProtocolName.article,
    )
    options = {
        "protocol": str(protocol),
        "rounds": rounds,
        "cache": "cold" if cold else "hot",
        "pairs": pairs,
        "aa": aa,
        "handicap": slow_down,
        "carveout": carveout,
        "verify": verify,
        "clock_control": "none",
    }
    gpu = first_gpu()
    built = build_all([request.spec for request in wanted], gpu)
    with session(options, gpu=gpu, built=built, seed=seed, verify=verify, carveout=carveout) as current:
        if aa:
            tested = modes.self_test(current, jobs, aa, pairs or DEFAULT_PAIRS, slow_down)
            found = [tables.self_tests_table(tested)] if tested else []
        elif pairs:
            compared = modes.compare(current, jobs, pairs)
            found = [tables.comparisons_table(compared)] if compared else []
        else:
            timed = modes.time(current, jobs, modes.protocol_of(str(protocol), rounds, cold))
            found = [tables.results_table(timed, current.gpu)]
    _finish(current, found, output_format, output)


def _check_output(output: Path | None) -> None:
    """Refuse a file that cannot be written before minutes of measuring, not after."""
    if output is None:
        return
    folder = next(parent for parent in output.absolute().parents if parent.exists())
    if output.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        why = "it is a folder" if output.is_dir() else f"{folder} is no folder that can be written to"
        raise UsageError(f"cannot write {output}: {why}", "Give -o a file in a folder you can write to.")


def _finish(current: Session, found: list[Table], output_format: str, output: Path | None) -> None:
    emit_tables(found, output_format, output)
    for message in current.messages:
        warn(message)
    note(f"run {current.folder.path}")
    current.raise_wrong()
