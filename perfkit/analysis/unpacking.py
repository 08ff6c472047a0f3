"""What the reader is given instead of a file that it should not read as it is.

A compressed report is decompressed, and of a damaged one only the part that is whole is handed over. Both go
into files without a name, so that nothing is left behind however the process ends.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from perfkit.analysis.file_kind import AGAIN, ZSTD_MAGIC
from perfkit.errors import CannotError, PerfkitError, ReportError, UsageError

LIMIT_VARIABLE = "PERFKIT_UNPACK_LIMIT"
# The reports of the test corpus shrink to between a fourth and a fortieth.
_LARGEST_RATIO = 200
_ALWAYS_ALLOWED = 64 * 1024 * 1024
_LARGEST = 8 * 1024 * 1024 * 1024
_CHUNK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_STEP = 1 << 10  # of compressed bytes: what comes out of so many is at most 32 MB


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Where the decompressed content of a `.ncu-repz` can be read, and what is wrong with its compression.

    It lives as long as the context. Raises ReportError when nothing comes out or more than the limit (200
    times the compressed size and 8 GiB, or what PERFKIT_UNPACK_LIMIT says in bytes), CannotError when there
    is no room for it.
    """
    with _nameless(path) as (sink, target):
        try:
            problems = _decompress(path, sink, _limit(path))
            sink.flush()
        except OSError as error:
            raise _failed(path, error) from error
        yield target, problems


@contextmanager
def beginning(path: Path, size: int, called: Path) -> Iterator[Path]:
    """The first `size` bytes of a file, as a file. Raises CannotError, naming `called`, when there is no room
    for it.
    """
    with _nameless(called) as (sink, target):
        try:
            with path.open("rb") as source:
                left = size
                while left and (chunk := source.read(min(left, _CHUNK))):
                    sink.write(chunk)
                    left -= len(chunk)
            sink.flush()
        except OSError as error:
            raise _failed(called, error) from error
        yield target


@contextmanager
def _nameless(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """A temporary file, and the path under which other processes of this user can open it."""
    import tempfile  # few reports need one, and every reading process would start with it

    try:
        stream = tempfile.TemporaryFile(prefix="perfkit-")  # noqa: SIM115 - the `with` is below
    except OSError as error:
        raise _failed(path, error) from error
    with stream:
        target = Path(f"/proc/{os.getpid()}/fd/{stream.fileno()}")
        if target.exists():
            yield stream, target
            return
    # No /proc: the file needs a name, and is left behind where this process is killed.
    with tempfile.TemporaryDirectory(prefix="perfkit-") as folder:
        target = Path(folder) / "report.ncu-rep"
        with target.open("wb") as named:
            yield named, target


def _failed(path: Path, error: OSError) -> PerfkitError:
    if error.errno not in _FULL:
        return ReportError(
            f"{path}: cannot be unpacked: {error.strerror or error}", "Check the file and the folder TMPDIR."
        )
    import tempfile

    return CannotError(
        f"{path}: cannot be unpacked into {tempfile.gettempdir()}: {error.strerror or error}",
        "Free some space there, or set TMPDIR to a folder that has more.",
    )


def _limit(path: Path) -> int:
    given = os.environ.get(LIMIT_VARIABLE, "")
    if given:
        if not given.isdecimal() or not int(given):
            raise UsageError(f"{LIMIT_VARIABLE}={given} is not a number of bytes", "Give a whole number.")
        return int(given)
    return min(_LARGEST, max(_ALWAYS_ALLOWED, _LARGEST_RATIO * path.stat().st_size))


def _decompress(path: Path, sink: IO[bytes], limit: int) -> tuple[str, ...]:
    """Decompress every frame into `sink`; returns what is wrong with the compression."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    written, frames = 0, 0
    with path.open("rb") as source:
        pending = source.read(_STEP)
        while pending.startswith(ZSTD_MAGIC):
            frames += 1
            frame: Any = decompressor.decompressobj()
            try:
                while pending and not frame.eof:
                    content = frame.decompress(pending)
                    written += len(content)
                    if written > limit:
                        raise _too_large(path, limit)
                    sink.write(content)
                    pending = frame.unused_data if frame.eof else source.read(_STEP)
            except zstandard.ZstdError as error:
                if not written:
                    raise ReportError(f"{path}: its zstd compression is damaged ({error})", AGAIN) from error
                return (f"is damaged: its zstd compression is, after {written:,} bytes ({error})",)
            if not frame.eof:
                if not written:
                    raise ReportError(f"{path}: its zstd compression is damaged (nothing comes out)", AGAIN)
                return (f"is truncated: its zstd compression ends after {written:,} bytes",)
            if len(pending) < len(ZSTD_MAGIC):
                pending += source.read(_STEP)
        rest = len(pending) + path.stat().st_size - source.tell()
    problems = []
    if frames > 1:
        problems.append(
            f"is made of {frames} zstd frames, which ncu does not write: read one after the other"
        )
    if rest:
        problems.append(f"has {rest:,} bytes behind its zstd frame, which are not read")
    return tuple(problems)


def _too_large(path: Path, limit: int) -> ReportError:
    return ReportError(
        f"{path}: is not unpacked: its {path.stat().st_size:,} bytes hold more than {limit:,}",
        f"No report shrinks that much: ask where it comes from. {LIMIT_VARIABLE}=BYTES raises the limit.",
    )
