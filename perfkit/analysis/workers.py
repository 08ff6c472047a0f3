"""Reading processes: the library that reads reports can crash or hang, and then only its process may go.

A worker is a fresh Python (`python -c ...`), not a fork and not multiprocessing's spawn: a fork of a
program with threads can deadlock, and spawn runs the caller's script again. Requests and answers are
length-prefixed `marshal` records.
"""

from __future__ import annotations

import marshal
import os
import queue
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfkit.analysis.reader import RawLaunch
    from perfkit.model import Report

# A report of 100 MB takes seconds; one that takes minutes per 100 MB hangs.
_TIMEOUT_S = 60.0
# The library keeps about five times the size of every report it has read, for as long as its process lives.
_BYTES_PER_PROCESS = 48 * 1024 * 1024
_TIMEOUT_S_PER_BYTE = 1e-6


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker gave no launches: what the library said, or how its process ended."""

    what: str


class Workers:
    """A pool of `count` reading processes, started when first needed. Use as a context manager."""

    def __init__(self, counters: Sequence[str] | None, count: int) -> None:
        self._counters = None if counters is None else list(counters)
        self._count = count
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for _ in range(count):
            self._idle.put(_Worker(self._counters))

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

    def read(self, path: str) -> list[RawLaunch] | Failure:
        """The raw launches of one file, or why there are none. Blocks until a process is free and done."""
        worker = self._idle.get()
        try:
            return worker.read(path)
        finally:
            self._idle.put(worker)

    def map(
        self, read: Callable[[Path], Report], files: Sequence[Path], done: Callable[[int, Report], None]
    ) -> None:
        """`read` every file, as many at a time as there are processes; `done` is called in the calling
        thread.
        """
        if self._count == 1:
            for index, file in enumerate(files):
                done(index, read(file))
            return
        with ThreadPoolExecutor(self._count) as pool:
            futures = {pool.submit(read, file): index for index, file in enumerate(files)}
            try:
                for future in as_completed(futures):
                    done(futures[future], future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class _Worker:
    """One reading process. It is started again after a crash or a timeout."""

    def __init__(self, counters: list[str] | None) -> None:
        self._counters = counters
        self._process: subprocess.Popen[bytes] | None = None
        self._bytes_read = 0

    def read(self, path: str) -> list[RawLaunch] | Failure:
        size = Path(path).stat().st_size
        if self._bytes_read and self._bytes_read + size > _BYTES_PER_PROCESS:
            self.close()
        self._bytes_read += size
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        limit = _TIMEOUT_S + _TIMEOUT_S_PER_BYTE * size
        try:
            _send(process.stdin, path)
            if not select.select([process.stdout], [], [], limit)[0]:
                process.kill()
                self.close()
                return Failure(f"ncu_report did not finish reading it in {limit:.0f} s")
            answer = _receive(process.stdout)
        except (OSError, EOFError, ValueError):
            self.close()
            return Failure(f"ncu_report crashed while reading it ({_ending(process.returncode)})")
        kind, content = answer
        return Failure(f"ncu_report cannot read it: {content}") if kind == "error" else content

    def _start(self) -> subprocess.Popen[bytes]:
        # The folder of this package goes first, so that the worker runs this very code, installed or not.
        root = str(Path(__file__).resolve().parents[2])
        code = (
            f"import sys; sys.path.insert(0, {root!r}); from perfkit.analysis.workers import serve; serve()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to the command, which closes its workers
        )
        assert self._process.stdin is not None
        _send(self._process.stdin, self._counters)
        return self._process

    def close(self) -> None:
        process, self._process = self._process, None
        self._bytes_read = 0
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serve() -> None:
    """The worker's side: read the counters' names, then answer one path after another until stdin closes."""
    from perfkit.analysis.reader import library, read_raw

    # The library may print: the answers get a descriptor of their own, and stdout goes nowhere.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    requests = sys.stdin.buffer
    counters = _receive(requests)
    library()
    while True:
        try:
            path = _receive(requests)
        except EOFError:
            # The library's own cleanup at exit is one more thing that could crash.
            os._exit(0)
        try:
            answer: tuple[str, object] = ("launches", read_raw(path, counters))
        except Exception as error:  # noqa: BLE001 - sent home, where it becomes this file's error
            answer = ("error", str(error) or type(error).__name__)
        _send(answers, answer)


def _send(pipe: IO[bytes], content: Any) -> None:
    data = marshal.dumps(content)
    pipe.write(struct.pack("<Q", len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    header = pipe.read(8)
    if len(header) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", header)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return marshal.loads(data)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
