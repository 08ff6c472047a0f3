"""What a report says of single instructions: SASS, source line and warp samples by stall reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfkit.analysis.container import unpacked
from perfkit.analysis.reader import library
from perfkit.model import LaunchId

_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
_ONLY_UNISSUED = "_not_issued"
_EXECUTED = "inst_executed"
_ADDRESS = re.compile(r"0x[0-9a-f]{8,}")
_LONGEST = 1 << 24  # bytes of a function: an address farther off is elsewhere


@dataclass(frozen=True, slots=True)
class Instruction:
    """One SASS instruction: byte offset in its function, text, source line, samples by stall reason.

    `selected` is among the reasons: the warp issued when it was sampled. `source` is the line's text, ""
    where the report does not carry it.
    """

    offset: int
    sass: str
    file: str
    line: int
    samples: Mapping[str, float]
    source: str = ""


def read_instructions(launch: LaunchId) -> tuple[Instruction, ...]:
    """The instructions of a launch in order, with the samples that were taken at each; () where the report
    carries no SASS or samples.
    """
    with unpacked(Path(launch.report)) as (path, _):
        report = library().load_report(str(path))
        return _read(report.range_by_idx(launch.range).action_by_idx(launch.launch))


def _read(action: Any) -> tuple[Instruction, ...]:
    by_pc: dict[int, dict[str, float]] = {}
    for name in action.metric_names():
        if name.startswith(_SAMPLES) and not name.endswith(_ONLY_UNISSUED):
            for pc, count in _instances(action.metric_by_name(name)):
                by_pc.setdefault(pc, {})[name.removeprefix(_SAMPLES)] = count
    if not by_pc:
        return ()
    # Every instruction of the function has an execution count.
    executed = action.metric_by_name(_EXECUTED)
    for pc, _ in _instances(executed) if executed else ():
        by_pc.setdefault(pc, {})
    start = min(by_pc)
    sources = _sources(action)
    found = tuple(_instruction(action, pc, start, by_pc[pc], sources) for pc in sorted(by_pc))
    return found if any(one.sass for one in found) else ()


def _sources(action: Any) -> dict[str, list[str]]:
    """Source lines by file, as far as the report carries them (`--import-source yes`)."""
    return {str(path): str(text).splitlines() for path, text in (action.source_files() or {}).items()}


def _instances(metric: Any) -> list[tuple[int, float]]:
    count = metric.num_instances()
    if not count or not metric.has_correlation_ids():
        return []
    pcs = metric.correlation_ids()
    return [(int(pcs.as_uint64(i)), float(metric.as_double(i))) for i in range(count)]


def _instruction(
    action: Any, pc: int, start: int, samples: Mapping[str, float], sources: Mapping[str, list[str]]
) -> Instruction:
    where = action.source_info(pc)
    path, line = (where.file_name(), int(where.line())) if where else ("", 0)
    lines = sources.get(path, [])
    source = " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""
    sass = " ".join((action.sass_by_pc(pc) or "").split())

    def offset(match: re.Match[str]) -> str:
        """A jump's target as the table names places: +0x0120."""
        beyond = int(match[0], 16) - start
        return f"+{beyond:#06x}" if 0 <= beyond < _LONGEST else match[0]

    sass = _ADDRESS.sub(offset, sass)
    return Instruction(pc - start, sass, Path(path).name if line else "", line, samples, source)
