"""Writing the file of `-o`: in one step where it is a regular file, straight into it where it is not."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

from perfkit.errors import CannotError, PerfkitError, UsageError

# What no other choice of arguments on this machine would have changed: the disk, a quota, a limit.
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def write_file(path: Path, content: bytes) -> None:
    """Write `content` to `path`, making its folders. A reader never sees half of a regular file.

    A symlink stays and the file that it leads to is written. What is there and is not a regular file (a FIFO,
    a device, /dev/stdout) is written into. Raises UsageError naming the path, CannotError where space is out.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            found = path.stat()
        except FileNotFoundError:  # also a link to a file that is not there yet
            _replace(Path(os.path.realpath(path)), content, 0o644)
            return
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if stat.S_ISREG(found.st_mode) and not _is_stdout(found):
            _replace(Path(os.path.realpath(path)), content, stat.S_IMODE(found.st_mode))
            return
        with open(1 if _is_stdout(found) else path, "wb", closefd=not _is_stdout(found)) as stream:
            stream.write(content)
    except OSError as error:
        raise cannot_write(str(path), error) from error


def cannot_write(what: str, error: OSError) -> PerfkitError:
    """The error of a failed write to `what`, with the exit code that fits its cause."""
    message = f"cannot write {what}: {error.strerror or error}"
    if error.errno in OUT_OF_SPACE:
        return CannotError(message, "Free some space, or write to another disk.")
    return UsageError(message, "Give -o a file in a folder you can write to.")


def _is_stdout(found: os.stat_result) -> bool:
    """Whether the file is standard output itself: replaced, what `>> FILE` kept so far would be lost."""
    try:
        return os.path.samestat(found, os.fstat(1))
    except OSError:
        return False


def _replace(target: Path, content: bytes, mode: int) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
