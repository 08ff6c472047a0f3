"""What every command shares: where output goes. Tables to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from perfkit.commands._output_file import cannot_write, write_file

if TYPE_CHECKING:
    from perfkit.model import Table


def emit(text: str, output: Path | None = None) -> None:
    """Print `text` on stdout, or write it to `output` in one step (a reader never sees half a file).

    Raises UsageError when the file cannot be written, CannotError when there is no space left for it.
    """
    text = text if text.endswith("\n") else text + "\n"
    if output is None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader of the pipe went away (`| head`). That is no error, and what the command came to
            # still counts: a gate that fails exits with 1 all the same.
            discard(sys.stdout)
        except OSError as error:
            discard(sys.stdout)
            raise cannot_write("to standard output", error) from error
        return
    write_file(output, text.encode("utf-8"))
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
    except OSError:  # `2>&1 | head`, `2>/dev/full`: nobody reads it, and the command's result stands
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Send what `stream` still holds and all that follows nowhere: Python flushes it once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


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
