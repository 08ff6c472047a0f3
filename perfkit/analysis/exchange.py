"""How a command and its reading processes talk: length-prefixed `marshal` records.

Both sides import this file. It stays light, because every reading process starts with it.
"""

from __future__ import annotations

import marshal
import struct
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from perfkit.errors import CannotError, PerfkitError, ReportError, UsageError

if TYPE_CHECKING:
    from perfkit.analysis.reader import RawLaunch

# What a reading process may raise here, by the name it travels under; the first that fits.
ERRORS = {"report": ReportError, "usage": UsageError, "cannot": CannotError, "error": PerfkitError}

# A Container as plain values, launches, and sentences about what lies beside the report
RawReport: TypeAlias = "tuple[tuple[Any, ...], list[RawLaunch], tuple[str, ...]]"
# offset, SASS, file, line, samples by stall reason, text of the line
RawInstruction = tuple[int, str, str, int, dict[str, float], str]


def send(pipe: IO[bytes], content: Any) -> None:
    data = marshal.dumps(content)
    pipe.write(struct.pack("<Q", len(data)))
    pipe.write(data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    header = pipe.read(8)
    if len(header) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", header)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return marshal.loads(data)
