"""The container of a report file, walked without the reader library.

ncu_report says nothing about a damaged, truncated or misnamed file: it gives fewer launches, or empty ones,
or none. So the container is walked first. Its layout: the magic `NVR\\0`, a little-endian u32 length and a
protobuf file header, then blocks to the end of the file, each a u32 length, a protobuf block header and a
payload. In the block header field 5 is the payload's size in bytes, field 6 the process that was profiled
(1: its id, 2: the host, 3: the executable), field 4 adds names to the table of counter names. The payload is
a row of messages, each behind its u32 length: as many modules as field 1 says, then the results: kernels
(field 2), ranges (7), command lists (8), graphs (9). In a kernel's message field 6 is the function's name,
10 and 11 are grid and block, and every field 13 is a counter; of the other kinds every field 4 is one. A
counter's field 1 is the number of its name. A `.ncu-repz` is the same thing compressed with zstd.

There is no official description; what is said here holds for every report of the test corpus (ncu 2019 to
2026), and what does not fit it is reported, never guessed around.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.analysis.file_kind import AGAIN
from perfkit.analysis.wire import Field, content, fields, integer, leading_fields, varint
from perfkit.errors import ReportError
from perfkit.model import Dim3, Process, WorkloadKind

_VERSION = re.compile(rb"(20\d\d\.\d+\.\d+\.\d+ \(build \d+\))")
_MODULES, _NAMES, _PAYLOAD_SIZE, _PROCESS = 1, 4, 5, 6
# Field of the block header that counts them, field of their message that holds counters; in payload order.
_KINDS = (
    (WorkloadKind.KERNEL, 2, 13),
    (WorkloadKind.RANGE, 7, 4),
    (WorkloadKind.COMMAND_LIST, 8, 4),
    (WorkloadKind.GRAPH, 9, 4),
)
_FUNCTION_NAME, _GRID, _BLOCK = 6, 10, 11
_NAME = re.compile(rb"[!-~]+")  # counter names are plain ASCII without blanks
# A header larger than this is damage: the largest of a real file names some thousand metrics, 0.2 MB.
_LARGEST_HEADER = 16 * 1024 * 1024
# How far to look for the next whole block behind bytes that are none; and the largest payload that is handed
# to the reader unchecked: of a larger one it would take five times the size as memory.
_FARTHEST = 64 * 1024 * 1024
_SMALLEST_RESULT = 100  # bytes: more results than that in a payload are damage
_MOST_PROBLEMS = 8
# A block header starts with its fields 1 and 2, two varints.
_BLOCK_START = re.compile(rb"\x08[\x80-\xff]{0,4}[\x00-\x7f]\x10[\x80-\xff]{0,4}[\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class Result:
    """One result as its block holds it. `name` is a kernel's function, "" where that cannot be told.

    `whole` is False where its bytes are not a message.
    """

    kind: WorkloadKind
    name: str
    process: Process | None
    whole: bool = True
    grid: Dim3 | None = None
    block: Dim3 | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """What the container of one file declares.

    The first `readable` bytes are whole blocks that hold `results`; of the `expected_launches` that the file
    declares, `lost` lie beyond. `truncated`: more may be lost than can be counted.
    """

    path: Path
    size: int
    expected_launches: int
    ncu_version: str
    readable: int
    results: tuple[Result, ...] = ()
    names: frozenset[str] = frozenset()  # of the counters that the readable part can hold
    lost: int = 0
    truncated: bool = False
    problems: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether every byte of the file is accounted for."""
        return not self.problems


def inspect(path: Path, called: Path | None = None) -> Container:
    """Walk the container of `path`, a report that is not compressed (see unpacking.py). `called`: the path
    that the user knows it by.

    Raises ReportError when not even its start is whole.
    """
    called = called or path
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Walk(called, data).result()
    except (OSError, ValueError) as error:  # ValueError: of a file that has become empty
        raise ReportError(
            f"{called}: cannot be read: {getattr(error, 'strerror', '') or error}",
            "Check the file's permissions.",
        ) from error


class _Walk:
    """One walk over one file, block by block."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._data, self._size = data, len(data)
        self._path = path
        self._version = b""
        self._names: list[bytes] = []
        self._unnamed: list[int] = []  # numbers of counters whose name had not been seen
        self._results: list[Result] = []
        self._lost = 0
        self._readable = self._file_header()
        self._intact = True  # no damage so far: what was walked can be handed to the reader
        self._truncated = False
        self._problems: list[str] = []

    def result(self) -> Container:
        """Walk to the end of the file."""
        position = self._readable
        while position < self._size:
            position = self._block(position)
        problems = self._problems[:_MOST_PROBLEMS]
        if len(self._problems) > len(problems):
            problems.append(f"is damaged in {len(self._problems) - len(problems)} more places")
        if unnamed := sum(number >= len(self._names) for number in self._unnamed):
            problems.append(f"is damaged: {unnamed} counters in it have no name")
        if wrong := sum(not _NAME.fullmatch(name) for name in self._names):
            problems.append(
                f"is damaged: {wrong} of its counter names are garbled: those counters are not found"
            )
        return Container(
            self._path, self._size, len(self._results) + self._lost, self._version.decode("ascii"),
            self._readable, tuple(self._results),
            frozenset(name.decode("ascii", "replace") for name in self._names),
            self._lost, self._truncated, tuple(problems),
        )  # fmt: skip

    def _file_header(self) -> int:
        """The position behind the file header. Raises ReportError where it is not whole."""
        length = self._u32(4) if self._size >= 8 else 0
        if self._size < 8 or (self._size < 8 + length <= 8 + _LARGEST_HEADER):
            raise ReportError(
                f"{self._path}: is truncated inside its file header ({self._size} bytes)", AGAIN
            )
        if length > _LARGEST_HEADER or fields(self._data[8 : 8 + length]) is None:
            raise ReportError(f"{self._path}: is damaged in its file header", AGAIN)
        return 8 + length

    def _u32(self, position: int) -> int:
        (value,) = struct.unpack_from("<I", self._data, position)
        return int(value)

    def _block(self, position: int) -> int:
        """Walk the block that starts at `position`; returns where the next one starts."""
        header = self._header(position)
        if header is None:
            return self._no_block(position)
        counts = _counts(header)
        size = integer(header, _PAYLOAD_SIZE)
        payload = position + 4 + self._u32(position)
        end = payload + size
        if end > self._size:
            return self._cut_payload(position, payload, size, counts)
        messages = self._messages(payload, end)
        modules = integer(header, _MODULES)
        if messages is None or len(messages) < modules:
            believed = min(sum(counts.values()), size // _SMALLEST_RESULT)
            kinds = [WorkloadKind.KERNEL] * believed
            if size > _FARTHEST or (end < self._size and not self._is_block(end)):
                self._damage(
                    believed, f"is damaged: the block at byte {position:,} does not end where it says"
                )
                return self._next_block(payload)
            self._problems.append(
                f"is damaged: the block at byte {position:,} does not hold what it declares"
            )
        else:
            held = len(messages) - modules
            kinds = [kind for kind, count in counts.items() for _ in range(min(count, held))][:held]
            kinds += [WorkloadKind.KERNEL] * (held - len(kinds))
            if held != sum(counts.values()):
                self._problems.append(
                    f"is damaged: the block at byte {position:,} declares {sum(counts.values())} launches"
                    f" and holds {held}"
                )
        if not self._intact:
            self._lost += len(kinds)
            return end
        self._readable = end
        if not self._version and (found := _VERSION.search(self._data[position:payload])):
            self._version = found[1]
        self._names += [one for _, one in fields(content(header, _NAMES)) or () if isinstance(one, bytes)]
        process = _process(content(header, _PROCESS))
        if messages is None or len(messages) < modules:
            self._results += [Result(kind, "", process, whole=False) for kind in kinds]
        else:
            for kind, place in zip(kinds, messages[modules:], strict=True):
                self._results.append(self._result(kind, process, *place))
        return end

    def _header(self, position: int) -> list[Field] | None:
        """The fields of the block header at `position`; None where there is none."""
        start = position + 4
        if start > self._size:
            return None
        length = self._u32(position)
        if not 0 < length <= min(_LARGEST_HEADER, self._size - start):
            return None
        return fields(self._data[start : start + length])

    def _is_block(self, position: int) -> bool:
        found = self._header(position)
        return found is not None and [number for number, _ in found[:2]] == [1, 2]

    def _messages(self, start: int, end: int) -> list[tuple[int, int]] | None:
        """(start, end) of every message of a payload; None when it is not a row of messages."""
        found: list[tuple[int, int]] = []
        while start < end:
            length = self._u32(start) if start + 4 <= end else 0
            start += 4
            if not 0 < length <= end - start:
                return None
            found.append((start, start + length))
            start += length
        return found

    def _result(self, kind: WorkloadKind, process: Process | None, start: int, end: int) -> Result:
        if end - start > _FARTHEST:  # the reader alone decides
            return Result(kind, "", process)
        message = fields(self._data[start:end])
        if message is None:
            return Result(kind, "", process, whole=False)
        name = content(message, _FUNCTION_NAME) if kind is WorkloadKind.KERNEL else b""
        counters = next(number for one, _, number in _KINDS if one is kind)
        known = len(self._names)
        for number, value in message:
            if number == counters and isinstance(value, bytes) and value[:1] == b"\x08":  # field 1, a varint
                if len(value) > 1 and value[1] < min(known, 0x80):
                    continue  # one byte, and a name that has been seen: most of the time of a walk is here
                read = varint(value, 1)
                if read is None or read[0] >= known:  # a later block may still name it
                    self._unnamed.append(read[0] if read else 1 << 64)
        shape: tuple[Dim3 | None, Dim3 | None] = (None, None)
        if kind is WorkloadKind.KERNEL:
            shape = (_sides(content(message, _GRID)), _sides(content(message, _BLOCK)))
        return Result(kind, name.decode("utf-8", "replace"), process, True, *shape)

    def _damage(self, lost: int, problem: str) -> None:
        """From here on nothing is handed to the reader; what is declared is counted as lost."""
        self._intact = False
        self._lost += lost
        self._truncated = True
        self._problems.append(problem)

    def _cut_payload(self, position: int, payload: int, size: int, counts: dict[WorkloadKind, int]) -> int:
        follows = self._next_block(payload)
        results = sum(counts.values())
        if follows < self._size or results * _SMALLEST_RESULT > size:
            believed = results if results * _SMALLEST_RESULT <= size else 0
            self._damage(believed, f"is damaged: the block at byte {position:,} does not end where it says")
        else:
            self._damage(
                results,
                f"is truncated: its last block {_holds(counts)} and lacks {payload + size - self._size:,} of"
                f" {size:,} bytes; launches after it cannot be counted",
            )
        return follows

    def _no_block(self, position: int) -> int:
        """What there is instead of a block at `position`: a cut one, a damaged one, or something else."""
        start = position + 4
        length = self._u32(position) if start <= self._size else 0
        # A damaged header still says how much it counts if the damage lies behind its first fields.
        header, _ = leading_fields(self._data[start : start + _LARGEST_HEADER])
        counted = sum(_counts(header).values()) if [number for number, _ in header[:2]] == [1, 2] else 0
        lost = counted if counted * _SMALLEST_RESULT <= self._size - position else 0
        follows = self._next_block(start)
        rest = self._size - position
        if follows < self._size or (lost and start + length <= self._size):
            self._damage(lost, f"is damaged: what should be a block at byte {position:,} is none")
        elif start > self._size or (start + length > self._size and length <= _LARGEST_HEADER):
            self._damage(
                lost,
                f"is truncated: it ends at byte {self._size:,}, inside a block header;"
                " launches after it cannot be counted",
            )
        else:
            self._intact = False
            self._problems.append(
                f"has {rest:,} bytes behind its last whole block, from byte {position:,} on, that are not"
                " part of a report: they are not read"
            )
        return follows

    def _next_block(self, position: int) -> int:
        """Where the next whole block starts, of those that begin within the next bytes; else the end."""
        for found in _BLOCK_START.finditer(self._data, position + 4, min(self._size, position + _FARTHEST)):
            start = found.start() - 4
            header = self._header(start)
            if header is None or not self._is_block(start) or not content(header, _PROCESS):
                continue
            payload = start + 4 + self._u32(start)
            end = payload + integer(header, _PAYLOAD_SIZE)
            messages = self._messages(payload, end) if end <= self._size else None
            if messages is not None and len(messages) == integer(header, _MODULES) + sum(
                _counts(header).values()
            ):
                return start
        return self._size


def _counts(header: Sequence[Field]) -> dict[WorkloadKind, int]:
    return {kind: integer(header, number) for kind, number, _ in _KINDS}


def _holds(counts: dict[WorkloadKind, int]) -> str:
    total = sum(counts.values())
    if not total:
        return "holds no launch"
    if total == counts[WorkloadKind.KERNEL]:
        return f"holds {total} launch{'es' if total != 1 else ''}"
    return (
        f"holds {total} workload{'s' if total != 1 else ''} ("
        + ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in counts.items() if count)
        + ")"
    )


def _sides(message: bytes) -> Dim3 | None:
    found = fields(message)
    x, y, z = (integer(found or (), number) for number in (1, 2, 3))
    return (x, y, z) if x and y and z else None


def _process(message: bytes) -> Process | None:
    found = fields(message)
    pid = integer(found, 1) if found else 0
    if not found or not pid:
        return None
    host, executable = (content(found, number).rstrip(b"\0").decode("utf-8", "replace") for number in (2, 3))
    return Process(pid, host, executable)
