"""What reading one report file gave."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfkit.model.values import Launch

REPORT_SUFFIXES = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")


@dataclass(frozen=True, slots=True)
class Report:
    """One report file as read.

    `expected_launches` is what the file's own container declares, None where that cannot be told. `lost`
    counts the launches known to be missing; of a truncated file it is the least possible number, because
    what was cut away cannot be counted. `problems` are sentences for people; `error` is set when nothing at
    all could be read, and then `remedy` says what to do.
    """

    path: str
    launches: tuple[Launch, ...]
    ncu_version: str  # of the ncu that wrote the file, "" when the file does not say
    expected_launches: int | None = None
    lost: int = 0
    truncated: bool = False
    problems: tuple[str, ...] = field(default=())
    error: str = ""
    remedy: str = ""
