"""A report made ready for the reader: of the right kind, unpacked, walked, and cut to the part that is whole.

Every command reads this way, so that the reader library meets nothing that the container walk did not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perfkit.analysis.container import Container, inspect
from perfkit.analysis.file_kind import check_kind, is_compressed
from perfkit.analysis.unpacking import beginning, unpacked


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the reader may read in place of a file: `file`, whose content is the container's readable part.

    The container's problems are those of its compression too.
    """

    file: Path
    container: Container


@contextmanager
def prepared(path: Path) -> Iterator[Prepared]:
    """The report at `path` as the reader may have it, for as long as the context lives.

    Raises ReportError, naming `path`, when it is not a report or not even its start is whole; CannotError
    when there is no room to unpack it.
    """
    check_kind(path)
    if is_compressed(path):
        with unpacked(path) as (content, problems), _readable(path, content, problems) as found:
            yield found
    else:
        with _readable(path, path, ()) as found:
            yield found


@contextmanager
def _readable(path: Path, content: Path, problems: tuple[str, ...]) -> Iterator[Prepared]:
    walked = inspect(content, called=path)
    cut = any(problem.startswith(("is truncated", "is damaged")) for problem in problems)
    container = replace(walked, truncated=walked.truncated or cut, problems=(*problems, *walked.problems))
    # The reader judges by the extension whether a file is compressed.
    if walked.readable == walked.size and (content is not path or path.suffix.lower() != ".ncu-repz"):
        yield Prepared(content, container)
    else:
        with beginning(content, walked.readable, called=path) as whole:
            yield Prepared(whole, container)
