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
) -> Exit:
    """Run `command`; hand every piece of stdout and stderr, in the order it came, to `on_output`.

    On a timeout, Ctrl-C or SIGTERM the programs below `command` are ended first, so that a profiler can still
    write what it has, then the whole group. Raises OSError when the program cannot be started.
    """
    with _terminable():
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        known: set[int] = set()
        try:
            timed_out = not _pump(process, on_output, timeout, known)
            interrupted = False
        except KeyboardInterrupt:
            timed_out, interrupted = False, True
        if timed_out or interrupted:
            end_group(process, known, on_output)
        else:
            # The program is gone; whatever it started and left holds the GPU, so it goes too.
            _signal(_others(process, known), signal.SIGKILL)
        code = process.wait()
        if process.stdout:
            process.stdout.close()
    return Exit(code, timed_out, interrupted)


def _pump(
    process: subprocess.Popen[bytes],
    on_output: Callable[[bytes], None],
    timeout: float | None,
    known: set[int],
) -> bool:
    """Read until the program ends; False when `timeout` seconds passed first."""
    assert process.stdout is not None
    end = None if timeout is None else time.monotonic() + timeout
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
            known |= descendants(process.pid)
    return True


def end_group(
    process: subprocess.Popen[bytes], known: set[int], on_output: Callable[[bytes], None] | None = None
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
    _pump(process, on_output, seconds, set())


def descendants(pid: int) -> set[int]:
    """Every process below `pid`, by /proc; empty where there is no /proc.

    Daemons are found by their session.
    """
    parents: dict[int, int] = {}
    members: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may itself hold spaces and parentheses.
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            number = int(entry.parent.name)
            parents[number] = int(fields[1])
            if int(fields[3]) == pid:
                members.add(number)
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level} - found
        found |= level
    return (found | members) - {pid}


def _others(process: subprocess.Popen[bytes], known: set[int]) -> set[int]:
    """Processes seen below `process` that still live.

    A number may be reused, so parents are looked at again.
    """
    now = descendants(process.pid)
    return now | {pid for pid in known if _is_orphan(pid, process.pid)}


def _is_orphan(pid: int, leader: int) -> bool:
    """True for a process of the group or session of `leader` whose own parent is gone."""
    try:
        return os.getpgid(pid) == leader or os.getsid(pid) == leader
    except OSError:
        return False


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
