"""`perfkit kernels`: what can be built and profiled, and a file to start one's own from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfkit.commands._console import emit_tables, note
from perfkit.errors import UsageError

EXAMPLE = Path(__file__).parent.parent / "kernels" / "example"
EXAMPLE_FILES = ("perfkit.toml", "saxpy.cu", "saxpy_reference.py")


def kernels(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="K...", help="Only these; patterns such as 'k6*' are allowed."),
    ] = None,
    new: Annotated[
        bool,
        typer.Option(
            "--new", help="Write a commented perfkit.toml (or the file named) with its kernel, and stop."
        ),
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help="A perfkit.toml elsewhere than in this folder.")
    ] = None,
    fmt: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, json, latex or html.")
    ] = "terminal",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """List the kernels: built-in, and of ./perfkit.toml."""
    if new:
        write_example(Path(names[0]) if names else Path(EXAMPLE_FILES[0]), extra=(names or [])[1:])
        return
    from perfkit.kernels.registry import load_registry, resolve
    from perfkit.kernels.sizes import problem_label
    from perfkit.model import Cell, Column, Table

    registry = load_registry(config)
    columns = (
        ("kernel", "kernel"),
        ("title", "title"),
        ("change", "what changed"),
        ("size", "default size"),
        ("origin", "from"),
    )
    rows = [
        tuple(
            Cell(value)
            for value in (spec.key, spec.title, spec.change, problem_label(spec.size), spec.origin)
        )
        for spec in resolve(names or ["all"], registry)
    ]
    table = Table("kernels", "Kernels", tuple(Column(name, title) for name, title in columns), tuple(rows))
    emit_tables([table], fmt, output)


def write_example(target: Path, extra: list[str]) -> None:
    """Write the example registry file to `target`, and its kernel and reference beside it.

    Raises UsageError when one of the files is there already, or cannot be written; then nothing was written.
    """
    if extra:
        raise UsageError(
            f"--new takes one file, not also {' '.join(extra)}", "Write perfkit kernels --new FILE."
        )
    if target.suffix != ".toml":
        raise UsageError(f"{target} does not end in .toml", "Write perfkit kernels --new perfkit.toml.")
    targets = [target, *(target.parent / name for name in EXAMPLE_FILES[1:])]
    for path in targets:
        if path.exists():
            raise UsageError(
                f"{path} is there already; nothing was written", "Name another file, or move it away."
            )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path, name in zip(targets, EXAMPLE_FILES, strict=True):
            with path.open("x", encoding="utf-8", newline="") as stream:
                stream.write((EXAMPLE / name).read_text(encoding="utf-8"))
            note(f"wrote {path}")
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or target}: {error.strerror}",
            "Name a file in a folder you can write to.",
        ) from error
    option = "" if target == Path(EXAMPLE_FILES[0]) else f" --config {target}"
    note(f"try: perfkit build saxpy --arch sm_90{option}")
