"""Opcode counts of a report that holds no SASS, from the listings that perfkit stored beside it.

ncu makes its opcode metrics from the count of every instruction address and the SASS in the report. Reports
of perfkit's own leave the SASS out (a library's module can be 14 MB); the counts by address stay in the
metric `inst_executed`. For kernels that perfkit built the SASS is known: `profiler/` writes
`<report>.sass.json`, and here the two are put together into the metrics as ncu would have made them.

A function's name does not say which code ran: one run may hold two builds of one function. So a listing
belongs to a kernel of the registry and a symbol, and a launch says its kernel in its NVTX range.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfkit.analysis.beside import read_json
from perfkit.analysis.counters import Raw

COUNTS = "inst_executed"  # instances: address -> warp instructions
BASE = "launch__function_pcs"  # address of the function's first instruction
PER_OPCODE = "sass__inst_executed_per_opcode"
PER_OPCODE_AND_MODIFIERS = "sass__inst_executed_per_opcode_with_modifier_all"
OPCODE_METRICS = (PER_OPCODE, PER_OPCODE_AND_MODIFIERS)
INSTRUCTION_BYTES = 16  # since compute capability 7.0


OWN_RANGE = re.compile(r"perfkit:([^:]+):(.*)", re.DOTALL)
_HELD = re.compile(r"@\d+$")  # k6b@1: the same code, held to one block per SM
_MOST_NAMED = 4
_SCHEMA_VERSION = 2

Symbol = str
Key = str


@dataclass(slots=True)
class Listings:
    """What `<report>.sass.json` says, and what is wrong with it.

    `by_kernel` holds the opcodes in address order by kernel and symbol; `by_symbol` those of a file of the
    first version, which does not say the kernel. `problem` is a sentence for people, "" if there is none.
    """

    by_kernel: Mapping[tuple[Key, Symbol], tuple[str, ...]] = field(default_factory=dict)
    by_symbol: Mapping[Symbol, tuple[str, ...]] = field(default_factory=dict)
    problem: str = ""

    def __bool__(self) -> bool:
        return bool(self.by_kernel or self.by_symbol)

    def of(self, key: Key | None, symbol: Symbol) -> tuple[str, ...]:
        """The opcodes of a launch; () where there are none that are known to be its own."""
        if self.by_kernel:
            return self.by_kernel.get((key, symbol), ()) if key is not None else ()
        return self.by_symbol.get(symbol, ())

    def told_apart(self, launches: Iterable[tuple[Key | None, Symbol]]) -> Listings:
        """Without the listings that several kernels of these launches could be meant by."""
        keys: dict[Symbol, set[Key | None]] = {}
        for key, symbol in launches:
            if symbol in self.by_symbol:
                keys.setdefault(symbol, set()).add(key)
        unclear = sorted(symbol for symbol, several in keys.items() if len(several) > 1)
        if not unclear:
            return self
        kernels = sorted({str(key) for symbol in unclear for key in keys[symbol] if key is not None})
        problem = (
            f"has no opcode counts for {_listed(kernels)}: they run the same function, and the listings that"
            " an older perfkit stored beside the report do not say of which build they are; profile again"
        )
        known = {symbol: one for symbol, one in self.by_symbol.items() if symbol not in unclear}
        return Listings({}, known, problem)


def own_label(nvtx: Iterable[str]) -> tuple[str | None, str]:
    """Label and problem of a launch of perfkit's own runner, from the innermost of its NVTX ranges; or
    (None, "").
    """
    label, problem = None, ""
    for text in nvtx:
        if found := OWN_RANGE.fullmatch(text):
            label, problem = found[1], found[2]
    return label, problem


def kernel_of(label: str | None) -> Key | None:
    """The kernel of the registry that a label means: k6b of k6b@1."""
    return None if label is None else _HELD.sub("", label)


def listing_file(report: Path) -> Path:
    """Where perfkit stores the listings of a report's kernels."""
    return report.with_suffix(".sass.json")


def read_listings(report: Path) -> Listings:
    """The listings from the file beside `report`. The report is as good as any other without them."""
    path = listing_file(report)
    stored, problem = read_json(path)
    if stored is None and not problem:
        return Listings()
    found = None if problem else _listings(stored)
    if found is None:
        version = stored.get("schema_version") if isinstance(stored, dict) else None
        newer = isinstance(version, int) and version > _SCHEMA_VERSION
        why = problem or (
            f"it is of a newer perfkit (schema_version {version}; this one reads {_SCHEMA_VERSION})"
            if newer
            else "it does not hold listings of kernels"
        )
        return Listings(problem=f"has no opcode counts: {path.name} beside it cannot be used: {why}")
    return found


def _listings(stored: object) -> Listings | None:
    """The content of the file; None where it is not what `profiler/sass_file.py` writes."""
    if not isinstance(stored, dict):
        return None
    kernels = stored.get("kernels")
    if isinstance(kernels, dict) and "schema_version" not in stored:
        if all(isinstance(text, str) for text in kernels.values()):
            return Listings(by_symbol={symbol: tuple(text.split()) for symbol, text in kernels.items()})
        return None
    if not isinstance(kernels, list) or stored.get("schema_version") != _SCHEMA_VERSION:
        return None
    found: dict[tuple[Key, Symbol], tuple[str, ...]] = {}
    for entry in kernels:
        if not isinstance(entry, dict):
            return None
        kernel, symbol, opcodes = (entry.get(name) for name in ("kernel", "symbol", "opcodes"))
        if not (isinstance(kernel, str) and isinstance(symbol, str) and isinstance(opcodes, str)):
            return None
        if found.setdefault((kernel, symbol), tuple(opcodes.split())) != tuple(opcodes.split()):
            return None  # two listings of one kernel: neither is known to be the one that ran
    return Listings(by_kernel=found)


def unfit(kernels: Iterable[str], file: str) -> str:
    """The sentence about launches of these kernels whose counts the listing in `file` cannot have made."""
    return (
        f"has no opcode counts for {_listed(sorted(set(kernels)))}: the listing in {file} beside it is not of"
        " the code that ran (its instructions do not fit the counts by address); put the file back that was"
        " made with the report, or profile again"
    )


def unlisted(listings: Listings, launches: Iterable[tuple[Key | None, Symbol]], file: str) -> tuple[str, ...]:
    """A sentence about the kernels that `file` lists under no function that their launches ran, if any.

    A kernel that it does not list at all, as of a library, has no listing by design.
    """
    ran: dict[Key, set[Symbol]] = {}
    for key, symbol in launches:
        if key is not None:
            ran.setdefault(key, set()).add(symbol)
    listed: dict[Key, set[Symbol]] = {}
    for key, symbol in listings.by_kernel:
        listed.setdefault(key, set()).add(symbol)
    without = sorted(key for key, symbols in ran.items() if key in listed and not symbols & listed[key])
    if not without:
        return ()
    return (
        f"has no opcode counts for {_listed(without)}: {file} beside it lists other functions under that name"
        " than were launched; put the file back that was made with the report, or profile again",
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


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


def opcodes_of_action(action: Any, opcodes: Sequence[str], wanted: Sequence[str]) -> dict[str, Raw] | None:
    """Those of the two opcode metrics that are wanted, for an action of ncu_report that lacks them; None
    where its counts are there and the listing does not fit them.
    """
    asked = [name for name in OPCODE_METRICS if name in wanted]
    if not asked or not opcodes or action.metric_by_name(asked[0]) is not None:
        return {}
    executed, pcs = action.metric_by_name(COUNTS), action.metric_by_name(BASE)
    if executed is None or pcs is None or not executed.has_correlation_ids() or pcs.num_instances() != 1:
        return {}
    ids = executed.correlation_ids()
    counts = [(ids.as_uint64(i), executed.as_uint64(i)) for i in range(executed.num_instances())]
    made = opcode_counters(opcodes, pcs.as_uint64(0), counts, executed.as_uint64())
    if not made and any(count for _, count in counts):
        return None
    return {name: made[name] for name in asked if name in made}
