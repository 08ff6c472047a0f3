"""What a report says of single instructions: SASS, source line and warp samples by stall reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfkit.analysis.exchange import RawInstruction
from perfkit.analysis.reader import counter_names, library, text_of
from perfkit.errors import ReportError
from perfkit.model import LaunchId

_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
_ONLY_UNISSUED = "_not_issued"
_EXECUTED = "inst_executed"
_ADDRESS = re.compile(r"0x[0-9a-f]{8,}")
_LONGEST = 1 << 24  # bytes of a function: an address farther off is elsewhere


@dataclass(frozen=True, slots=True)
class Instruction:
    """One SASS instruction: byte offset in its function, text, source line, samples by stall reason.

    `file` is the source file's name, with as many of its folders as tell it from others of that name.
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
    """The instructions of a launch in order; see `read_all_instructions`."""
    return read_all_instructions([launch])[0]


def read_all_instructions(launches: Sequence[LaunchId]) -> list[tuple[Instruction, ...]]:
    """The instructions of each launch in order, with the samples that were taken at each; () where the report
    carries no SASS or samples. Read in a process of its own, as every report is.

    Raises ReportError where the report can no longer be read.
    """
    from perfkit.analysis.workers import Failure, Workers  # the reading process imports this file too

    found: list[tuple[Instruction, ...]] = []
    with Workers(1) as workers:
        for launch in launches:
            raw = workers.instructions(launch.report, launch.range, launch.launch)
            if isinstance(raw, Failure):
                raise ReportError(
                    f"{launch}: its instructions cannot be read: {raw.what}",
                    "Everything else of the report was read without them.",
                )
            found.append(tuple(Instruction(*one) for one in raw))
    return found


def is_sampled(counters: Iterable[str]) -> bool:
    """Whether a report that may hold these counters can hold warp samples by instruction."""
    return any(name.startswith(_SAMPLES) for name in counters)


def read_raw_instructions(path: str, range_index: int, index: int) -> list[RawInstruction]:
    """The reading process's side of `read_instructions`."""
    return _read(library().load_report(path).range_by_idx(range_index).action_by_idx(index))


def _read(action: Any) -> list[RawInstruction]:
    by_pc: dict[int, dict[str, float]] = {}
    for name in counter_names(action):
        if name.startswith(_SAMPLES) and not name.endswith(_ONLY_UNISSUED):
            for pc, count in _instances(action.metric_by_name(name)):
                by_pc.setdefault(pc, {})[name.removeprefix(_SAMPLES)] = count
    if not by_pc:
        return []
    # Every instruction of the function has an execution count.
    executed = action.metric_by_name(_EXECUTED)
    for pc, _ in _instances(executed) if executed else ():
        by_pc.setdefault(pc, {})
    start = min(by_pc)
    sources = _sources(action)
    found = [_instruction(action, pc, start, by_pc[pc], sources) for pc in sorted(by_pc)]
    if not any(sass for _, sass, *_ in found):
        return []
    short = short_paths({path for _, _, path, line, *_ in found if line})
    return [
        (at, sass, short.get(path, ""), line, samples, text) for at, sass, path, line, samples, text in found
    ]


def short_paths(paths: Iterable[str]) -> dict[str, str]:
    """Path -> its last part, or as many of its last parts as it takes to tell it from the others."""
    found: dict[str, str] = {}
    split = {path: re.split(r"[/\\]", path) for path in paths}
    for path, parts in split.items():
        others = [other for one, other in split.items() if one != path]
        length = 1
        while length < len(parts) and any(other[-length:] == parts[-length:] for other in others):
            length += 1
        found[path] = "/".join(parts[-length:])
    return found


def _sources(action: Any) -> dict[str, list[str]]:
    """Source lines by file, as far as the report carries them (`--import-source yes`)."""
    return {str(path): text_of(text).splitlines() for path, text in (action.source_files() or {}).items()}


def _instances(metric: Any) -> list[tuple[int, float]]:
    count = metric.num_instances()
    if not count or not metric.has_correlation_ids():
        return []
    pcs = metric.correlation_ids()
    return [(int(pcs.as_uint64(i)), float(metric.as_double(i))) for i in range(count)]


def _instruction(
    action: Any, pc: int, start: int, samples: dict[str, float], sources: Mapping[str, list[str]]
) -> RawInstruction:
    where = action.source_info(pc)
    path, line = (where.file_name(), int(where.line())) if where else ("", 0)
    lines = sources.get(path, [])
    source = " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""
    sass = " ".join(text_of(action.sass_by_pc(pc)).split())

    def offset(match: re.Match[str]) -> str:
        """A jump's target as the table names places: +0x0120."""
        beyond = int(match[0], 16) - start
        return f"+{beyond:#06x}" if 0 <= beyond < _LONGEST else match[0]

    sass = _ADDRESS.sub(offset, sass)
    return pc - start, sass, text_of(path) if line else "", line, samples, source
