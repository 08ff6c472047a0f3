"""Reading a small file that a user named: rules, claims, a baseline, ceilings, a template, TOML.

Whatever stands at that path is a person's to choose, so nothing but a regular file of a sane size is read: a
FIFO would wait for its writer for ever, and /dev/zero never ends.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# The largest of a real run, a baseline of all launches, is some hundred kilobytes.
LARGEST = 64 * 1024 * 1024

_SPECIAL = {
    stat.S_IFIFO: "a FIFO (a named pipe)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFDIR: "a folder",
}


def special_kind(mode: int) -> str:
    """A few words for what a path with this `st_mode` is; "" for a regular file."""
    return "" if stat.S_ISREG(mode) else _SPECIAL.get(stat.S_IFMT(mode), "a special file")


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """The content of a regular file of at most `largest` bytes. Waits for nothing.

    Raises OSError, whose `strerror` says what is there instead.
    """
    _refuse_special(path, path.stat().st_mode)
    # Should it have become a FIFO in between: opening one waits, without O_NONBLOCK, for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as stream:
        _refuse_special(path, os.fstat(stream.fileno()).st_mode)
        too_large = os.fstat(stream.fileno()).st_size > largest
        content = b"" if too_large else stream.read(largest + 1)  # a file of /proc says a size of 0
    if too_large or len(content) > largest:
        raise OSError(errno.EFBIG, f"it is too large (more than {largest:,} bytes)", str(path))
    return content


def read_text(path: Path, largest: int = LARGEST) -> str:
    """The content of such a file as UTF-8 text, a byte order mark left out, line ends as `\\n`.

    Raises OSError as `read_bytes` does, UnicodeDecodeError for other bytes than UTF-8.
    """
    text = read_bytes(path, largest).decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _refuse_special(path: Path, mode: int) -> None:
    if kind := special_kind(mode):
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
