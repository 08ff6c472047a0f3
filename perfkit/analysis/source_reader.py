"""What a report says of single instructions: SASS, source line and warp samples by stall reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfkit.analysis.reader import library
from perfkit.model import LaunchId

_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
_ONLY_UNISSUED = "_not_issued"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One SASS instruction: byte offset in its function, text, source line, samples by stall reason.

    `selected` is among the reasons: the warp issued when it was sampled.
    """

    offset: int
    sass: str
    file: str
    line: int
    samples: Mapping[str, float]


def read_instructions(launch: LaunchId) -> tuple[Instruction, ...]:
    """The instructions of a launch that were sampled, in order; () where the report carries no SASS or
    samples.
    """
    action = library().load_report(launch.report).range_by_idx(launch.range).action_by_idx(launch.launch)
    by_pc: dict[int, dict[str, float]] = {}
    for name in action.metric_names():
        if name.startswith(_SAMPLES) and not name.endswith(_ONLY_UNISSUED):
            for pc, count in _instances(action.metric_by_name(name)):
                by_pc.setdefault(pc, {})[name.removeprefix(_SAMPLES)] = count
    if not by_pc:
        return ()
    start = min(by_pc)
    found = tuple(_instruction(action, pc, start, by_pc[pc]) for pc in sorted(by_pc))
    return found if any(one.sass for one in found) else ()


def _instances(metric: Any) -> list[tuple[int, float]]:
    count = metric.num_instances()
    if not count or not metric.has_correlation_ids():
        return []
    pcs = metric.correlation_ids()
    return [(int(pcs.as_uint64(i)), float(metric.as_double(i))) for i in range(count)]


def _instruction(action: Any, pc: int, start: int, samples: Mapping[str, float]) -> Instruction:
    where = action.source_info(pc)
    file, line = (where.file_name(), int(where.line())) if where else ("", 0)
    sass = " ".join((action.sass_by_pc(pc) or "").split())
    return Instruction(pc - start, sass, Path(file).name if line else "", line, samples)
