"""What every command shares: where output goes. Tables to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.model import Table


def emit(text: str, output: Path | None = None) -> None:
    """Print `text` on stdout, or write it to `output` in one step (a reader never sees half a file).

    Raises UsageError when the file cannot be written.
    """
    if output is None:
        try:
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader of the pipe went away (`| head`). That is no error, and what the command came to
            # still counts: a gate that fails exits with 1 all the same.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text if text.endswith("\n") else text + "\n")
        Path(temporary).chmod(0o644)
        Path(temporary).replace(output)
    except OSError as error:
        raise UsageError(
            f"cannot write {output}: {error.strerror or error}",
            "Give -o a file in a folder you can write to.",
        ) from error
    note(f"wrote {output}")


def emit_tables(tables: Sequence[Table], fmt: str, output: Path | None = None) -> None:
    """Render tables in a format of reports/ and emit them."""
    from perfkit.reports import render

    emit(render(tables, fmt, width=_width(output), color=_color(output)), output)


def note(text: str) -> None:
    """A line for the person at the terminal, on stderr. No file or kernel name in it moves the cursor."""
    from perfkit.reports.text import visible

    try:
        sys.stderr.write("\n".join(map(visible, text.rstrip("\n").split("\n"))) + "\n")
        sys.stderr.flush()
    except BrokenPipeError:  # as in emit: `2>&1 | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def warn(text: str) -> None:
    """A warning on stderr."""
    note(f"warning: {text}")


def _width(output: Path | None) -> int:
    """The terminal's columns; of a file or a pipe $COLUMNS, else room for most tables."""
    if output is None and sys.stdout.isatty() and (columns := os.get_terminal_size(1).columns):
        return columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) else 160


def _color(output: Path | None) -> bool:
    return output is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
