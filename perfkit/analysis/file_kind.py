"""What a file that was given as a report is, judged by its first bytes, before anything reads it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from perfkit.errors import ReportError
from perfkit.model import REPORT_SUFFIXES
from perfkit.user_file import special_kind

MAGIC = b"NVR\0"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_FROM_GIT_LFS = "Fetch the real file with `git lfs pull`."
_NOT_A_REPORT = "Give a report that ncu wrote with `-o NAME`: NAME.ncu-rep."
AGAIN = "Copy it again from where it was made (compare the sizes), or profile again."


def check_kind(path: Path) -> None:
    """Raise ReportError, saying what `path` is, when it is not a report. Waits for nothing."""
    start = _start_of(path)
    if not start:
        raise ReportError(f"{path}: is empty (0 bytes)", AGAIN)
    if path.suffix.lower() not in REPORT_SUFFIXES:
        kind = "is an Nsight Compute report" if start[:4] in (MAGIC, ZSTD_MAGIC) else _what_is(start)
        raise ReportError(
            f"{path}: {kind}, and its name does not end in {', '.join(REPORT_SUFFIXES)}",
            f"Rename it to {path.stem}.ncu-rep if it is a report." if start[:4] == MAGIC else _NOT_A_REPORT,
        )
    if start[:4] in (MAGIC, ZSTD_MAGIC):
        return
    if len(start) < len(MAGIC) and MAGIC.startswith(start):
        raise ReportError(f"{path}: is truncated: only {len(start)} bytes of it are there", AGAIN)
    remedy = _FROM_GIT_LFS if start.startswith(b"version https://git-lfs") else _NOT_A_REPORT
    raise ReportError(f"{path}: {_what_is(start)}, not an Nsight Compute report", remedy)


def is_compressed(path: Path) -> bool:
    """Whether the file starts as a zstd frame does."""
    with path.open("rb") as stream:
        return stream.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC


def _start_of(path: Path) -> bytes:
    """The first bytes of a regular file; raises ReportError for anything else."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ReportError(
                f"{path}: is a folder, not a report",
                "Name the reports in it, or the folder to `perfkit show`.",
            )
        if not stat.S_ISREG(mode):
            raise ReportError(
                f"{path}: is {special_kind(mode)}, not a file with a report in it",
                "Write what comes out of it to a file NAME.ncu-rep first, and give that.",
            )
        # Should it have become a FIFO in between: opening one waits, without O_NONBLOCK, for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as stream:
            return stream.read(512)
    except FileNotFoundError:
        what = "is a link to a file that does not exist" if path.is_symlink() else "no such file"
        raise ReportError(f"{path}: {what}", "Check the path.") from None
    except OSError as error:
        raise ReportError(
            f"{path}: cannot be read: {error.strerror or error}", "Check the file's permissions."
        ) from error


def _what_is(start: bytes) -> str:
    """A few words for what a file that starts like this is."""
    if start.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer (the file itself was never fetched)"
    known = (
        (b"SQLite format 3", "is an SQLite database"),
        (b"\x7fELF", "is an ELF file (a program or a cubin)"),
        (b"\x1f\x8b", "is compressed with gzip"),
        (b"PK\x03\x04", "is a zip archive"),
        (b"\xfd7zXZ", "is compressed with xz"),
        (b"%PDF", "is a PDF"),
    )
    for magic, words in known:
        if start.startswith(magic):
            return words
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] == b"<":
        return "is an HTML or XML page"
    if text[:1] in (b"{", b"["):
        return "is JSON"
    if b"\0" not in start and _is_text(start):
        first = text.split(b"\n", 1)[0]
        return "is a CSV or text table" if first.count(b",") >= 1 else "is a text file"
    return f"starts with the bytes {start[:4].hex(' ')}"


def _is_text(start: bytes) -> bool:
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(start) - 4  # the cut at 512 bytes may split a character
    return True
