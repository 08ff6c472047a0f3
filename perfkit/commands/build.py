"""`perfkit build`: compile kernels and show what they take and what their main loop is made of."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit, emit_tables, note, warn
from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.model import BuildResult, KernelSpec, Table


def build(
    names: Annotated[list[str], typer.Argument(metavar="K...", help="Kernels; see perfkit kernels.")],
    arch: Annotated[
        list[str] | None,
        typer.Option("--arch", help="sm_90, 90 or 9.0; repeatable. Default: this machine's GPU."),
    ] = None,
    compiler: Annotated[
        str | None, typer.Option("--compiler", help="nvcc or nvrtc. Default: nvcc where it works.")
    ] = None,
    flag: Annotated[
        list[str] | None,
        typer.Option("--flag", help="One more compiler flag, such as --flag=-DDEPTH=16; repeatable."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("-o", "--keep", help="Copy the cubins into this folder.")
    ] = None,
    sass: Annotated[bool, typer.Option("--sass", help="Print the instructions of the main loop.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help="A perfkit.toml elsewhere than in this folder.")
    ] = None,
    fmt: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, json, latex or html.")
    ] = "terminal",
) -> None:
    """Build kernels: registers, shared memory, spills, main loop. Needs no GPU with --arch."""
    from perfkit.kernels.registry import load_registry, resolve
    from perfkit.profiler.build import build_many
    from perfkit.profiler.toolchain import detect_arch, find_compiler, normalize_arch

    specs = resolve(names, load_registry(config))
    for spec in specs:
        if spec.library:
            note(f"{spec.key}: a call of {spec.library}, nothing to build")
    specs = [spec for spec in specs if not spec.library]
    if not specs:
        raise UsageError("there is nothing to build", "Name kernels that have a source; see perfkit kernels.")
    tool = find_compiler(compiler)
    archs = dict.fromkeys(normalize_arch(one, tool) for one in arch or [detect_arch()])
    results: list[BuildResult] = []
    with _progress(len(specs) * len(archs)) as done:
        for one in archs:
            results += build_many(specs, one, compiler=tool, extra_flags=flag or (), done=done)
    for result in results:
        if result.warnings:
            warn(f"{result.key} ({result.arch}):\n{result.warnings}")
    threads = {spec.key: block_threads(spec) for spec in specs}
    emit_tables([build_table(results, threads)], fmt)
    if sass:
        _print_loops(results)
    if keep is not None:
        keep_cubins(results, keep)


def build_table(results: list[BuildResult], threads: Mapping[str, int]) -> Table:
    """One row a kernel and architecture: resources, then the main loop's instructions per iteration.

    `threads`: threads of a block by kernel.
    """
    from perfkit.model import Cell, Column, Status, Table

    columns = [
        Column("kernel", "kernel"),
        Column("arch", "arch"),
        Column("registers", "regs", doc="per thread"),
        Column("blocks_by_registers", "blocks/SM", doc="resident blocks that the registers of an SM allow"),
        Column("static_shared_bytes", "shared", "byte", doc="static shared memory of a block"),
        Column("spill_store_bytes", "spill st", "byte"),
        Column("spill_load_bytes", "spill ld", "byte"),
        Column("stack_bytes", "stack", "byte"),
        Column("loop_total", "loop", doc="instructions of one iteration of the main loop"),
        Column("loop_ffma", "FFMA"),
        *(Column(f"loop_lds_{width}", f"LDS.{width}") for width in (32, 64, 128)),
        Column("loop_ldg", "LDG"),
        Column("loop_sts", "STS"),
        Column("loop_bar", "BAR"),
        Column("loop_other", "other"),
        Column("loop_ffma_share", "FFMA share", "fraction", doc="FFMA of all instructions of the loop"),
    ]
    rows = []
    for result in results:
        loop = result.loop
        mix: list[float | int] = []
        if loop is not None:
            mix = [
                *(loop.total, loop.ffma, *(loop.lds.get(width, 0) for width in (32, 64, 128))),
                *(sum(loop.ldg.values()), sum(loop.sts.values()), loop.barriers),
                # Shared loads of 8 or 16 bits have no column of their own.
                loop.other + sum(count for width, count in loop.lds.items() if width < 32),
                loop.ffma / loop.total,
            ]
        cells = [
            *(Cell(result.key), Cell(result.arch), Cell(result.registers)),
            Cell(blocks_by_registers(result.registers, threads[result.key])),
            Cell(result.static_shared_bytes),
            *(Cell(result.spill_store_bytes), Cell(result.spill_load_bytes), Cell(result.stack_bytes)),
            *(Cell(value) for value in mix),
        ]
        if loop is None:
            cells.append(Cell(None, Status.UNDEFINED, note="the kernel has no loop", text="-"))
        cells += [Cell(None, Status.UNDEFINED, text="-") for _ in columns[len(cells) :]]
        rows.append(tuple(cells))
    compilers = ", ".join(dict.fromkeys(result.compiler for result in results))
    flags = dict.fromkeys(" ".join(result.flags) for result in results)
    notes = (
        f"Built with {compilers}, {' / '.join(flags)}.",
        "Blocks/SM: as far as registers go, 65,536 an SM; shared memory, warps and blocks limit it too.",
        "Loop: SASS instructions per iteration of the loop with the most FFMAs; static counts by nvdisasm.",
    )
    return Table("build", "Build", tuple(columns), tuple(rows), notes)


def block_threads(spec: KernelSpec) -> int:
    """Threads of a block at the default problem size."""
    from math import ceil, prod

    from perfkit.kernels.sizes import evaluate

    return ceil(prod(evaluate(side, spec.size) for side in spec.block))


def blocks_by_registers(registers: int, threads: int) -> int:
    """Blocks that fit into the register file of an SM, from registers a thread and threads a block.

    Each of the four sub-partitions of an SM has 16,384 registers and hands them to warps in units of 256, on
    every compute capability that current compilers build for (CUDA C++ Programming Guide, "Technical
    Specifications per Compute Capability", and Nsight Compute's occupancy calculator).
    """
    warps = -(-threads // 32)
    per_warp = -(-registers * 32 // 256) * 256
    return 4 * (16384 // per_warp) // warps


def keep_cubins(results: list[BuildResult], folder: Path) -> None:
    """Copy cubins to `folder` as KEY.ARCH.cubin. Raises UsageError when it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for result in results:
            target = folder / f"{result.key}.{result.arch}.cubin"
            shutil.copyfile(result.cubin, target)
            note(f"wrote {target}")
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}", "Name a folder you can write to."
        ) from error


def _print_loops(results: list[BuildResult]) -> None:
    from perfkit.profiler.sass import listing_of

    for result in results:
        listing = listing_of(Path(result.cubin), result.symbol)
        lines = [listing.instructions[index].text for index in listing.loop] or ["(no loop)"]
        emit("\n".join(["", f"{result.key} {result.arch}: main loop", *lines]))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[BuildResult], None]]:
    """A progress bar on a terminal's stderr; silent when piped."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("building", total=total)
        yield lambda result: progress.update(task, advance=1, description=f"built {result.key}")
