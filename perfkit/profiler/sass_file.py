"""The SASS of a run's kernels beside its report: `<report>.sass.json`.

{"schema_version": 2, "kernels": [{"kernel": "k6", "symbol": "sgemm_k6", "cubin_sha256": "...",
"arch": "sm_90", "opcodes": "LDC S2R LDG.E.128 ..."}]}, the opcodes in address order. The report leaves the
SASS out; with this file the opcode counts can still be told (analysis/opcode_counts.py). The symbol alone
would not do: two kernels of the registry may be two builds of one function.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from perfkit.errors import CannotError, ToolError
from perfkit.model import BuildResult
from perfkit.profiler.sass import listing_of

SCHEMA_VERSION = 2


def write_sass_file(path: Path, built: Iterable[BuildResult]) -> str:
    """Write the file; returns a message where the disassembler was missing or failed, else ""."""
    kernels = list(built)
    if not kernels:
        return ""
    try:
        with ThreadPoolExecutor() as pool:
            stored = list(pool.map(_entry, kernels))
    except (CannotError, ToolError) as error:
        return f"no opcode counts: {error.message}"
    content = {"schema_version": SCHEMA_VERSION, "kernels": stored}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return ""


def _entry(built: BuildResult) -> dict[str, str]:
    cubin = Path(built.cubin)
    listing = listing_of(cubin, built.symbol)
    return {
        "kernel": built.key,
        "symbol": listing.symbol,
        "cubin_sha256": hashlib.sha256(cubin.read_bytes()).hexdigest(),
        "arch": built.arch,
        "opcodes": " ".join(instruction.opcode for instruction in listing.instructions),
    }
