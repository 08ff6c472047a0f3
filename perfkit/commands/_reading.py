"""The progress bar of reading reports: on stderr, only for people, only when it takes a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfkit.model import Report

_FEW = 8  # so many reports are read in well under a second


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
