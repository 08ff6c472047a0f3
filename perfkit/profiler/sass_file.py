"""The SASS of a run's kernels beside its report: `<report>.sass.json`.

{"kernels": {symbol: "LDC S2R LDG.E.128 ..."}}, the opcodes in address order. The report leaves the SASS out;
with this file the opcode counts can still be told (analysis/opcode_counts.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from perfkit.errors import CannotError, ToolError
from perfkit.model import BuildResult
from perfkit.profiler.sass import listing_of


def write_sass_file(path: Path, built: Iterable[BuildResult]) -> str:
    """Write the file; returns a message where the disassembler was missing or failed, else ""."""
    kernels = list(built)
    if not kernels:
        return ""
    try:
        with ThreadPoolExecutor() as pool:
            listings = list(pool.map(lambda one: listing_of(Path(one.cubin), one.symbol), kernels))
    except (CannotError, ToolError) as error:
        return f"no opcode counts: {error.message}"
    stored = {
        listing.symbol: " ".join(instruction.opcode for instruction in listing.instructions)
        for listing in listings
    }
    path.write_text(json.dumps({"kernels": stored}, indent=1) + "\n", encoding="utf-8")
    return ""
