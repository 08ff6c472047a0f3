"""Opcode counts of a report that holds no SASS, from the listing that perfkit stored beside it.

ncu makes its opcode metrics from the count of every instruction address and the SASS in the report. Reports
of perfkit's own leave the SASS out (a library's module can be 14 MB); the counts by address stay in the
metric `inst_executed`. For kernels that perfkit built the SASS is known: `profiler/` writes
`<report>.sass.json`, and here the two are put together into the metrics as ncu would have made them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfkit.analysis.counters import Raw

COUNTS = "inst_executed"  # instances: address -> warp instructions
BASE = "launch__function_pcs"  # address of the function's first instruction
PER_OPCODE = "sass__inst_executed_per_opcode"
PER_OPCODE_AND_MODIFIERS = "sass__inst_executed_per_opcode_with_modifier_all"
OPCODE_METRICS = (PER_OPCODE, PER_OPCODE_AND_MODIFIERS)
INSTRUCTION_BYTES = 16  # since compute capability 7.0


def read_listings(report: Path) -> Mapping[str, tuple[str, ...]]:
    """Symbol -> opcodes in address order, from the file beside `report`; empty where there is none to use."""
    try:
        stored = json.loads(report.with_suffix(".sass.json").read_text(encoding="utf-8"))
        return {str(symbol): tuple(str(opcodes).split()) for symbol, opcodes in stored["kernels"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}  # the report is as good as any other without it


def opcode_counters(
    opcodes: Sequence[str], base: int, counts: Sequence[tuple[int, float]], total: float
) -> dict[str, Raw]:
    """Both opcode metrics of a launch, or nothing where the listing does not fit the counts.

    `counts` are (address, warp instructions) pairs, `base` the function's address, `total` the launch's warp
    instructions: the counts must add up to it, and every counted address must be one of the listing's.
    """
    by_opcode: Counter[str] = Counter()
    by_modifiers: Counter[str] = Counter()
    for address, count in counts:
        index, rest = divmod(address - base, INSTRUCTION_BYTES)
        if rest or not 0 <= index < len(opcodes):
            return {}
        by_modifiers[opcodes[index]] += int(count)
        by_opcode[opcodes[index].partition(".")[0]] += int(count)
    if not by_opcode or by_opcode.total() != total:
        return {}
    return {
        PER_OPCODE: (total, "inst", tuple(sorted(by_opcode.items()))),
        PER_OPCODE_AND_MODIFIERS: (total, "inst", tuple(sorted(by_modifiers.items()))),
    }


def opcodes_of_action(
    action: Any, symbol: str, listings: Mapping[str, Sequence[str]], wanted: Sequence[str]
) -> dict[str, Raw]:
    """Those of the two opcode metrics that are wanted, for an action of ncu_report that lacks them."""
    asked = [name for name in OPCODE_METRICS if name in wanted]
    opcodes = listings.get(symbol)
    if not asked or not opcodes or action.metric_by_name(asked[0]) is not None:
        return {}
    executed, pcs = action.metric_by_name(COUNTS), action.metric_by_name(BASE)
    if executed is None or pcs is None or not executed.has_correlation_ids() or pcs.num_instances() != 1:
        return {}
    ids = executed.correlation_ids()
    counts = [(ids.as_uint64(i), executed.as_uint64(i)) for i in range(executed.num_instances())]
    made = opcode_counters(opcodes, pcs.as_uint64(0), counts, executed.as_uint64())
    return {name: made[name] for name in asked if name in made}
