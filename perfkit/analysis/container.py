"""The container of a report file, walked without the reader library.

ncu_report says nothing about a damaged, truncated or misnamed file: it gives fewer launches, or none. So
the container is checked first. Its layout: the magic `NVR\\0`, a little-endian u32 length and a protobuf
file header, then blocks to the end of the file, each a u32 length, a protobuf block header and a payload.
In the block header field 2 counts the results (launches) in the payload and field 5 is the payload's size
in bytes. A `.ncu-repz` is the same thing compressed with zstd.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfkit.errors import ReportError
from perfkit.model import REPORT_SUFFIXES

MAGIC = b"NVR\0"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_VERSION = re.compile(rb"(20\d\d\.\d+\.\d+\.\d+ \(build \d+\))")
_RESULTS, _PAYLOAD_SIZE = 2, 5
# A header larger than this is damage: the largest of a real file names some thousand metrics, 0.2 MB.
_LARGEST_HEADER = 64 * 1024 * 1024

_FROM_GIT_LFS = "Fetch the real file with `git lfs pull`."
_NOT_A_REPORT = "Give a report that ncu wrote with `-o NAME`: NAME.ncu-rep."
_AGAIN = "Copy it again from where it was made (compare the sizes), or profile again."


@dataclass(frozen=True, slots=True)
class Container:
    """What the container of one file declares. `lost` is the number of launches known to be incomplete."""

    path: Path
    size: int
    expected_launches: int  # sum of the results that the block headers declare
    ncu_version: str
    lost: int = 0
    truncated: bool = False
    problems: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether every byte of the file is accounted for."""
        return not self.problems


def inspect(path: Path) -> Container:
    """Walk the container of `path`, a `.ncu-rep` or `.nsight-cuprof-report` (use `unpacked` for a
    `.ncu-repz`).

    Raises ReportError when the file is no report, or one of which not even the start is whole.
    """
    check_kind(path)
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _walk(path, data)
    except OSError as error:
        raise ReportError(
            f"{path}: cannot be read: {error.strerror or error}", "Check the file's permissions."
        ) from error


def check_kind(path: Path) -> None:
    """Raise ReportError, saying what `path` is, when it is no report."""
    if path.is_dir():
        raise ReportError(
            f"{path}: is a folder, not a report", "Name the reports in it, or the folder to `perfkit show`."
        )
    try:
        with path.open("rb") as stream:
            start = stream.read(512)
    except FileNotFoundError:
        raise ReportError(f"{path}: no such file", "Check the path.") from None
    except OSError as error:
        raise ReportError(
            f"{path}: cannot be read: {error.strerror or error}", "Check the file's permissions."
        ) from error
    if not start:
        raise ReportError(f"{path}: is empty (0 bytes)", _AGAIN)
    if path.suffix.lower() not in REPORT_SUFFIXES:
        kind = "is an Nsight Compute report" if start[:4] in (MAGIC, _ZSTD_MAGIC) else _what_is(start)
        raise ReportError(
            f"{path}: {kind}, and its name does not end in {', '.join(REPORT_SUFFIXES)}",
            f"Rename it to {path.stem}.ncu-rep if it is a report." if start[:4] == MAGIC else _NOT_A_REPORT,
        )
    if start[:4] == MAGIC or (start[:4] == _ZSTD_MAGIC):
        return
    if len(start) < len(MAGIC) and MAGIC.startswith(start):
        raise ReportError(f"{path}: is truncated: only {len(start)} bytes of it are there", _AGAIN)
    remedy = _FROM_GIT_LFS if start.startswith(b"version https://git-lfs") else _NOT_A_REPORT
    raise ReportError(f"{path}: {_what_is(start)}, not an Nsight Compute report", remedy)


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, str]]:
    """The path to read instead of `path`, and what went wrong while decompressing ("" if nothing).

    A zstd-compressed report is decompressed to a temporary file, which lives as long as the context.
    """
    with path.open("rb") as stream:
        compressed = stream.read(4) == _ZSTD_MAGIC
    if not compressed:
        if path.suffix.lower() != ".ncu-repz":
            yield path, ""
            return
        with _temporary() as target:  # the reader takes the extension's word for it
            target.symlink_to(path.resolve())
            yield target, ""
        return
    with _temporary() as target:
        problem = _decompress(path, target)
        yield target, problem


@contextmanager
def _temporary() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="perfkit-") as folder:
        yield Path(folder) / "report.ncu-rep"


def _decompress(path: Path, target: Path) -> str:
    import zstandard

    written = 0
    with path.open("rb") as source, target.open("wb") as sink:
        try:
            for chunk in zstandard.ZstdDecompressor().read_to_iter(source, read_size=1 << 20):
                sink.write(chunk)
                written += len(chunk)
        except zstandard.ZstdError as error:
            if not written:
                raise ReportError(f"{path}: its zstd compression is damaged ({error})", _AGAIN) from error
            return f"its zstd compression is damaged after {written:,} bytes ({error})"
    if not written:
        raise ReportError(f"{path}: its zstd compression is damaged (nothing comes out)", _AGAIN)
    return ""


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


def _walk(path: Path, data: mmap.mmap) -> Container:
    size = len(data)
    if size < 8 or size < 8 + _u32(data, 4):
        raise ReportError(f"{path}: is truncated inside its file header ({size} bytes)", _AGAIN)
    position = 8 + _u32(data, 4)
    expected, lost, version = 0, 0, b""
    problems: list[str] = []
    truncated = False
    while position < size:
        header_at = position + 4
        length = _u32(data, position) if header_at <= size else 0
        if header_at + length > size and length <= _LARGEST_HEADER:
            truncated = True
            problems.append(
                f"is truncated: it ends at byte {size:,}, inside a block header;"
                " launches after it cannot be counted"
            )
            break
        header = data[header_at : header_at + length] if length <= _LARGEST_HEADER else b""
        fields = _integers(header) if header else None
        if fields is None:
            problems.append(f"is damaged: what should be a block at byte {position:,} is none")
            break
        results, payload = fields.get(_RESULTS, 0), fields.get(_PAYLOAD_SIZE, 0)
        if not version and (found := _VERSION.search(header)):
            version = found[1]
        expected += results
        position = header_at + length + payload
        if position > size:
            truncated = True
            lost = results
            holds = f"holds {results} launch{'es' if results != 1 else ''}" if results else "holds no launch"
            problems.append(
                f"is truncated: its last block {holds} and lacks {position - size:,} of {payload:,} bytes;"
                " launches after it cannot be counted"
            )
    return Container(path, size, expected, version.decode("ascii"), lost, truncated, tuple(problems))


def _u32(data: mmap.mmap, position: int) -> int:
    (value,) = struct.unpack_from("<I", data, position)
    return int(value)


def _integers(message: bytes) -> dict[int, int] | None:
    """The top-level varint fields of a protobuf message (the last of each number); None when it is no
    message.
    """
    fields: dict[int, int] = {}
    position, end = 0, len(message)
    while position < end:
        tag = _varint(message, position)
        if tag is None or tag[0] >> 3 == 0:
            return None
        kind, position = tag[0] & 7, tag[1]
        if kind in (0, 2):
            value = _varint(message, position)
            if value is None:
                return None
            position = value[1]
            if kind == 0:
                fields[tag[0] >> 3] = value[0]
            else:
                position += value[0]
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            return None
    return fields if position == end else None


def _varint(message: bytes, position: int) -> tuple[int, int] | None:
    """A base-128 varint and the position after it; None when the message ends inside it or it is over 64
    bits.
    """
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            return None
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    return None
