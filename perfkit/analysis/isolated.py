"""What a reading process answers: a report made ready and read, as plain values that travel.

The other side is workers.py; what comes back is made into dataclasses there and in report.py.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perfkit.analysis.container import Container, Result
from perfkit.analysis.exchange import ERRORS, RawInstruction, RawReport, receive, send
from perfkit.analysis.prepared import prepared
from perfkit.analysis.reader import RawLaunch, library, read_raw
from perfkit.analysis.source_reader import is_sampled, read_raw_instructions
from perfkit.errors import PerfkitError
from perfkit.model import Process, WorkloadKind

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WATCH_S = 0.5


def serve() -> None:
    """The worker's side: answer one request after another until stdin closes."""
    end_with_parent()
    # The library may print: the answers get a descriptor of their own, and stdout goes nowhere.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    requests = sys.stdin.buffer
    library()
    while True:
        try:
            what, path, *rest = receive(requests)
        except EOFError:
            # The library's own cleanup at exit is one more thing that could crash.
            os._exit(0)
        answer: tuple[str, object]
        try:
            if what == "launches":
                answer = ("content", read_launches(path, *rest))
            else:
                answer = ("content", read_instructions(path, *rest))
        except PerfkitError as error:
            kind = next(name for name, one in ERRORS.items() if isinstance(error, one))
            answer = (kind, (error.message, error.remedy))
        except Exception as error:  # noqa: BLE001 - sent home, where it becomes this file's error
            answer = ("failure", str(error) or type(error).__name__)
        send(answers, answer)


def end_with_parent() -> None:
    """Have this process ended when its parent ends, also while the library works."""
    parent = os.getppid()
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        # The library may hold the interpreter for as long as it reads one file; then this waits too.
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it ended before the line above
        os._exit(0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(0)


def read_launches(path: str, counters: Sequence[str] | None) -> RawReport:
    """Every launch of the report at `path`; see `prepared` for the errors and `read_raw` for the counters."""
    with prepared(Path(path)) as source:
        container = source.container
        launches: list[RawLaunch] = []
        notes: tuple[str, ...] = ()
        # Where damage left nothing, there is nothing to ask the library for.
        if container.results or container.clean:
            launches, notes = read_raw(str(source.file), counters, beside=path)
        return pack(container), launches, notes


def read_instructions(path: str, range_index: int, index: int) -> list[RawInstruction]:
    """The instructions of one launch of the report at `path`."""
    with prepared(Path(path)) as source:
        if not is_sampled(source.container.names):
            return []
        return read_raw_instructions(str(source.file), range_index, index)


def pack(container: Container) -> tuple[Any, ...]:
    """A Container as plain values, but for the names of its counters."""
    results = [
        (str(one.kind.value), one.name, _process(one.process), one.whole, one.grid, one.block)
        for one in container.results
    ]
    return (
        container.size, container.expected_launches, container.ncu_version, container.readable, results,
        container.lost, container.truncated, container.problems,
    )  # fmt: skip


def unpack(path: Path, packed: tuple[Any, ...]) -> Container:
    """The Container that was packed."""
    size, expected, version, readable, results, lost, truncated, problems = packed
    made = tuple(
        Result(WorkloadKind(kind), name, Process(*process) if process else None, *rest)
        for kind, name, process, *rest in results
    )
    return Container(
        path, size, expected, version, readable, made, frozenset(), lost, truncated, tuple(problems)
    )


def _process(process: Process | None) -> tuple[int, str, str] | None:
    return (process.pid, process.host, process.executable) if process else None
