"""The progress of a profile on stderr: a bar at a terminal, nothing but ncu's complaints elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from perfkit.commands._console import note, warn

if TYPE_CHECKING:
    from perfkit.model import BuildResult
    from perfkit.profiler.ncu_output import NcuOutput

MANY_LAUNCHES = 100
_HINT = "profile fewer with --kernel REGEX, --nvtx RANGE, --skip N and --count N; --list shows what there is"


class ProfileProgress:
    """Shows which kernel and pass ncu is at. `total` launches where that is known; `show_program` repeats the
    program's own lines on stderr.

    Warns once the launches get many and no count was asked for (`counted`): a report of hundreds of launches
    is seldom what was meant.
    """

    def __init__(self, total: int | None, *, show_program: bool, counted: bool) -> None:
        self._total = total
        self._show_program = show_program
        self._counted = counted
        self._bar: Any = None
        self._task: Any = None
        self._started = time.monotonic()
        self._warned = 0

    def __enter__(self) -> ProfileProgress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[done]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=self._total, done="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if isinstance(error, KeyboardInterrupt) and str(error):
            note(str(error))  # where what was measured is kept

    def built(self, result: BuildResult) -> None:
        """A kernel was built; nothing runs yet."""
        if self._bar is not None:
            self._bar.update(self._task, description=f"built {result.key}")

    def line(self, kind: str, text: str) -> None:
        """A whole line of the stream."""
        if kind in ("error", "warning"):
            self._print(f"ncu: {kind}: {text}")
        elif kind == "program" and self._show_program:
            self._print(text)

    def moved(self, output: NcuOutput) -> None:
        """A launch began, moved on or ended."""
        launches = output.launches
        self._warn_if_many(len(launches))
        if self._bar is None:
            return
        current = output.current
        done = len(launches) - (current is not None)
        part = current.fraction if current else 0.0
        text = f"profiling {current}" if current else output.stage or "running"
        shown = f"{done}/{self._total}" if self._total else f"{done} launches"
        self._bar.update(self._task, description=text, completed=done + part, done=shown)

    def _print(self, text: str) -> None:
        if self._bar is None:
            note(text)
        else:
            self._bar.console.print(text, markup=False, highlight=False)

    def _warn_if_many(self, launches: int) -> None:
        if self._counted or launches < MANY_LAUNCHES or launches < 10 * self._warned:
            return
        self._warned = launches
        each = (time.monotonic() - self._started) / launches
        text = f"{launches} launches profiled so far, {each:.2g} s each, and no --count was given: {_HINT}"
        if self._bar is None:
            warn(text)
        else:
            self._print(f"warning: {text}")
