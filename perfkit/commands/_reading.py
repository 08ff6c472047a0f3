"""What commands that read reports share: their reading process, and a progress bar when it takes a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfkit.model import Report

# Commands that always read reports.
COMMANDS = ("show", "model", "explain", "check", "report", "roofline")
_FEW = 8  # so many reports are read in well under a second


def process(command: str | None) -> AbstractContextManager[None]:
    """The reading process of a command that reads, from its start to its end."""
    if command not in COMMANDS or {"-h", "--help"} & set(sys.argv):
        return nullcontext()
    from perfkit.analysis.workers import one_process_kept

    return one_process_kept()


@contextmanager
def reading(count: int) -> Iterator[Callable[[Report], None] | None]:
    """A callback to call with every report read, or None where nobody would see the bar."""
    if count <= _FEW or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=count)
        yield lambda _report: bar.advance(task)
