"""Run a program in its own process group, read what it prints as it prints it, and leave no child behind.

No shell is involved: every argument arrives as it was given.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

# ncu needs some time after its target is gone to write the report of what it has measured so far.
TARGET_GRACE = 10.0
GROUP_GRACE = 5.0
_CHUNK = 65536
_LOOK_EVERY = 0.3  # seconds between looks at which processes there are

Processes = dict[int, str]  # number -> start time in clock ticks, as /proc has it


class Terminated(KeyboardInterrupt):
    """perfkit itself was asked to end (SIGTERM, SIGHUP) while a program of its was running."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the program ended. `code` is negative for a signal, as subprocess has it."""

    code: int
    timed_out: bool = False
    interrupted: bool = False


def run_streaming(
    command: Sequence[str],
    on_output: Callable[[bytes], None],
    *,
    timeout: float | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = subprocess.DEVNULL,
) -> Exit:
    """Run `command`; hand every piece of stdout and stderr, in the order it came, to `on_output`.
    It reads `stdin`, as subprocess has it.

    On a timeout, Ctrl-C or SIGTERM the programs below `command` are ended first, so that a profiler can still
    write what it has, then the whole group. Raises OSError when the program cannot be started.
    """
    with _terminable():
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        known: Processes = {}
        try:
            timed_out = not _pump(process, on_output, timeout, known)
            interrupted = False
        except KeyboardInterrupt:
            timed_out, interrupted = False, True
        if timed_out or interrupted:
            end_group(process, known, on_output)
        else:
            # What the program left behind in its session goes with it: it would hold the GPU. A daemon that
            # made a session of its own was meant to stay.
            _signal(set(descendants(process.pid)), signal.SIGKILL)
        code = process.wait()
        if process.stdout:
            process.stdout.close()
    return Exit(code, timed_out, interrupted)


def redirected_stdin() -> int | None:
    """This process's own stdin where it is a file or a pipe; else /dev/null.

    A program in a session of its own cannot read from the terminal.
    """
    try:
        os.fstat(0)
    except OSError:  # closed
        return subprocess.DEVNULL
    return subprocess.DEVNULL if os.isatty(0) else None


def _pump(
    process: subprocess.Popen[bytes],
    on_output: Callable[[bytes], None],
    timeout: float | None,
    known: Processes,
) -> bool:
    """Read until the program ends; False when `timeout` seconds passed first."""
    assert process.stdout is not None
    end = None if timeout is None else time.monotonic() + timeout
    look = 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        open_ = True
        while open_ or process.poll() is None:
            if end is not None and time.monotonic() >= end:
                return False
            if open_ and selector.select(0.1):
                piece = os.read(process.stdout.fileno(), _CHUNK)
                if piece:
                    on_output(piece)
                else:
                    open_ = False
                    selector.unregister(process.stdout)
            elif not open_:
                time.sleep(0.02)
            elif process.poll() is not None:
                break  # a grandchild still holds the pipe: the program itself has ended
            if time.monotonic() >= look:
                known.update(descendants(process.pid))
                look = time.monotonic() + _LOOK_EVERY
    return True


def end_group(
    process: subprocess.Popen[bytes], known: Processes, on_output: Callable[[bytes], None] | None = None
) -> None:
    """End what runs below `process`, give it time to write its results, then end its whole group."""
    ignore = on_output or (lambda _: None)
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C cuts the waiting short
        below = _others(process, known)
        if below:
            _signal(below, signal.SIGTERM)
            _drain(process, TARGET_GRACE / 2, ignore)
            _signal(_others(process, known), signal.SIGKILL)
            _drain(process, TARGET_GRACE, ignore)
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM)
            _drain(process, GROUP_GRACE, ignore)
    _signal(_others(process, known), signal.SIGKILL)
    _signal_group(process.pid, signal.SIGKILL)


def _drain(process: subprocess.Popen[bytes], seconds: float, on_output: Callable[[bytes], None]) -> None:
    _pump(process, on_output, seconds, {})


def descendants(pid: int) -> Processes:
    """Every process below `pid` or in the session it leads, by /proc; empty where there is no /proc."""
    parents: dict[int, int] = {}
    started: Processes = {}
    members: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            number, fields = int(entry.parent.name), _stat(entry)
            parents[number], started[number] = int(fields[1]), fields[19]
            if int(fields[3]) == pid:
                members.add(number)
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level} - found
        found |= level
    return {number: started[number] for number in (found | members) - {pid}}


def _stat(path: Path) -> list[str]:
    """The fields of /proc/PID/stat from the state on; the name before it may hold spaces and parentheses."""
    return path.read_text(errors="replace").rpartition(")")[2].split()


def _others(process: subprocess.Popen[bytes], known: Processes) -> set[int]:
    """Processes seen below `process` that still live: workers in sessions of their own lose their parents
    first.

    A process is told by its number and its start time, since numbers are used again.
    """
    alive = descendants(process.pid)
    known.update(alive)
    found = set(alive)
    for pid, started in known.items():
        with contextlib.suppress(OSError, IndexError):
            if _stat(Path(f"/proc/{pid}/stat"))[19] == started:
                found.add(pid)
    return found


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception for the time a program runs, so that it is cleaned up
    after.
    """

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated(f"ended by {signal.Signals(number).name}")

    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread: signals stay as they are
        for number in (signal.SIGTERM, signal.SIGHUP):
            before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
