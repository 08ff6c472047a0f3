"""The wire format of protobuf, as far as a report's container needs it: the fields of one message.

No schema is needed for that: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Sequence

Field = tuple[int, int | bytes]  # number; varints as int, everything else as its bytes

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# The largest of a real report has 3,000. Bytes made to look like a message of two-byte fields would
# otherwise take fifty times their size as memory.
_MOST_FIELDS = 200_000


def fields(message: bytes) -> list[Field] | None:
    """Every field of a message in order; None when the bytes are not a message."""
    found, end = leading_fields(message)
    return found if end == len(message) else None


def leading_fields(message: bytes) -> tuple[list[Field], int]:
    """The fields up to the first byte that cannot be one, and where that is."""
    found: list[Field] = []
    position, end = 0, len(message)
    while position < end and len(found) < _MOST_FIELDS:
        start = position
        tag = message[position]
        position += 1
        if tag >= 0x80:
            read = varint(message, start)
            if read is None:
                return found, start
            tag, position = read
        number, kind = tag >> 3, tag & 7
        if number == 0:
            return found, start
        if kind in (_VARINT, _BYTES):
            if position >= end:
                return found, start
            value = message[position]
            position += 1
            if value >= 0x80:
                read = varint(message, position - 1)
                if read is None:
                    return found, start
                value, position = read
            if kind == _VARINT:
                found.append((number, value))
                continue
            size = value
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            return found, start
        if position + size > end:
            return found, start
        found.append((number, message[position : position + size]))
        position += size
    return found, position


def varint(message: bytes, position: int) -> tuple[int, int] | None:
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


def integer(found: Sequence[Field], number: int) -> int:
    """The last varint of that number, as protobuf takes it; 0 where there is none."""
    return next((value for one, value in reversed(found) if one == number and isinstance(value, int)), 0)


def content(found: Sequence[Field], number: int) -> bytes:
    """The last length-delimited field of that number; empty where there is none."""
    return next((value for one, value in reversed(found) if one == number and isinstance(value, bytes)), b"")
