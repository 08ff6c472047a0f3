"""Proving the occupancy cause on a real GPU, and the predictor over the ladder held to fewer blocks per
SM.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfkit.errors import PerfkitError

pytestmark = pytest.mark.gpu

LADDER = ("k1", "k2", "k3", "k4", "k5", "k6", "k6b", "k7", "k8")


@pytest.fixture(scope="module", autouse=True)
def _gpu_only() -> None:
    from perfkit.profiler.doctor import Task, blocked, examine

    try:
        reason = ", ".join(f"{one.name}: {one.detail}" for one in blocked(examine(), Task.PROFILE))
    except PerfkitError as error:
        reason = error.message
    if reason:
        pytest.skip(f"nothing can be profiled here: {reason}")


def perfkit(folder: Path, *arguments: str) -> str:
    """Run the command line with its runs in `folder`; its stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "perfkit", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PERFKIT_RUNS": str(folder), "COLUMNS": "200"},
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(text: str, name: str) -> list[dict[str, Any]]:
    """The rows of a table in JSON output: column -> value."""
    (table,) = [one for one in json.loads(text)["tables"] if one["name"] == name]
    return [{column: cell["value"] for column, cell in row.items()} for row in table["rows"]]


def test_every_kernel_held_to_fewer_blocks_is_predicted(tmp_path: Path) -> None:
    both = [name for kernel in LADDER for name in (kernel, f"{kernel}@1")]
    sizes = [part for n in (1024, 2048, 4096) for part in ("-n", str(n))]
    perfkit(
        tmp_path, "profile", *both, *sizes, "--carveout", "100", "--no-verify", "-o", str(tmp_path / "t.txt")
    )
    found = rows(
        perfkit(tmp_path, "explain", "--interventions", "latest", "--format", "json"), "interventions"
    )
    assert len(found) >= 20
    errors = [abs(row["error"]) for row in found]
    assert statistics.median(errors) <= 0.05
    assert sum(error <= 0.10 for error in errors) >= 0.8 * len(errors)


def test_verify_proves_the_occupancy_cause(tmp_path: Path) -> None:
    perfkit(
        tmp_path, "profile", "k6b", "k6b@1", "-n", "2048", "--carveout", "100", "-o", str(tmp_path / "t.txt")
    )
    text = perfkit(tmp_path, "explain", "k6b", "k6b@1", "--verify")
    assert "k6b n=2048 -> k6b@1 n=2048: slower" in text
    assert "blocks per SM 2 -> 1, so warps per scheduler" in text
    assert "k6b@1: predicted x1." in text
    assert "Residency alone makes" in text
