"""Reading processes: the library that reads reports can crash or hang, and then only its process may go.

A worker is a fresh Python (`python -c ...`), not a fork and not multiprocessing's spawn: a fork of a
program with threads can deadlock, and spawn runs the caller's script again. A worker ends when its parent
does, however that ends: while it waits, its input closes; while it reads, the kernel ends it (Linux) or a
thread that watches the parent does.
"""

from __future__ import annotations

import queue
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from perfkit.analysis.exchange import ERRORS, RawInstruction, RawReport, receive, send

if TYPE_CHECKING:
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

    def __init__(self, count: int) -> None:
        self._count = count
        self._all = [*_kept[:count], *(_Worker() for _ in range(count - len(_kept)))]
        del _kept[:count]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for worker in self._all:
            self._idle.put(worker)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._all:
            if _keeping and not _kept and error is None and self._count == 1:
                _kept.append(worker)
            else:
                worker.close()

    def read(self, path: str, counters: Sequence[str] | None) -> RawReport | Failure:
        """What isolated.read_launches gives of one file, or why it gives nothing. Blocks until a process is
        free and done. Raises what `prepared` raises.
        """
        names = None if counters is None else list(counters)
        return self._ask(path, ("launches", path, names))  # type: ignore[no-any-return]

    def instructions(self, path: str, range_index: int, index: int) -> list[RawInstruction] | Failure:
        """What a report says of the single instructions of a launch."""
        return self._ask(path, ("instructions", path, range_index, index))  # type: ignore[no-any-return]

    def _ask(self, path: str, request: tuple[object, ...]) -> Any:
        worker = self._idle.get()
        try:
            return worker.ask(path, request)
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
        from concurrent.futures import ThreadPoolExecutor, as_completed

        with ThreadPoolExecutor(self._count) as pool:
            futures = {pool.submit(read, file): index for index, file in enumerate(files)}
            try:
                for future in as_completed(futures):
                    done(futures[future], future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in self._all:
                    worker.kill()  # the pool waits for threads that wait for their process
                raise


# The process of a command that reads more than once, while none of its readings uses it.
_kept: list[_Worker] = []
_keeping = False


@contextmanager
def one_process_kept() -> Iterator[None]:
    """Start a reading process at once, beside whatever comes before the first reading, and keep it for the
    next one. For a command, which does nothing else: elsewhere no process outlives its reading.
    """
    global _keeping
    first = _Worker()
    first.start()
    _kept.append(first)
    _keeping = True
    try:
        yield
    finally:
        _keeping = False
        while _kept:
            worker = _kept.pop()
            worker.kill()
            worker.close()


class _Worker:
    """One reading process. It is started again after a crash or a timeout."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._bytes_read = 0

    def ask(self, path: str, request: tuple[object, ...]) -> Any:
        """The answer to a request about the file at `path`, or a Failure."""
        try:
            size = Path(path).stat().st_size
        except OSError:
            size = 0  # the process will say what is wrong with it
        if self._bytes_read and self._bytes_read + size > _BYTES_PER_PROCESS:
            self.close()
        self._bytes_read += size
        process = self._process or self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        limit = _TIMEOUT_S + _TIMEOUT_S_PER_BYTE * size
        try:
            send(process.stdin, request)
            if not select.select([process.stdout], [], [], limit)[0]:
                process.kill()
                self.close()
                return Failure(f"ncu_report did not finish reading it in {limit:.0f} s")
            answer = receive(process.stdout)
        except (OSError, EOFError, ValueError):
            self.close()
            return Failure(f"ncu_report crashed while reading it ({_ending(process.returncode)})")
        kind, content = answer
        if kind in ERRORS:
            raise ERRORS[kind](*content)
        return Failure(f"ncu_report cannot read it: {content}") if kind == "failure" else content

    def kill(self) -> None:
        """End the process at once, from any thread."""
        if self._process is not None:
            self._process.kill()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process; what it is to read can be asked at once."""
        # The folder of this package goes first, so that the worker runs this very code, installed or not.
        # Of the current folder nothing is imported (-P): a `queue.py` beside a report is not Python's.
        root = str(Path(__file__).resolve().parents[2])
        code = (
            f"import sys; sys.path.insert(0, {root!r}); from perfkit.analysis.isolated import serve; serve()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to the command, which closes its workers
        )
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


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
