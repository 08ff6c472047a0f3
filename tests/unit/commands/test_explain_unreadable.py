"""`perfkit explain` where the library fails at the single instructions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import perfkit

REPORT = Path(__file__).parents[2] / "data" / "source" / "k6-k6b-k8.ncu-repz"
# The real library, but for one function: it ends the process, as it does on some damaged files.
CRASHES = """
import os, sys
sys.path.remove(os.path.dirname(__file__))
del sys.modules["ncu_report"]
import ncu_report
ncu_report.IAction.sass_by_pc = lambda *_: os.abort()
"""


def explain(*folders: Path) -> subprocess.CompletedProcess[str]:
    """`explain` of two launches, with these folders before the library's."""
    path = os.pathsep.join(map(str, (*folders, Path(perfkit.__file__).parents[1])))
    return subprocess.run(
        [sys.executable, "-m", "perfkit", "explain", f"{REPORT}:0", f"{REPORT}:1"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_else_is_explained(tmp_path: Path) -> None:
    (tmp_path / "ncu_report.py").write_text(CRASHES)
    whole, without = explain(), explain(tmp_path)
    assert (whole.returncode, without.returncode) == (0, 0)
    assert "instructions cannot be read" not in whole.stderr
    said = f"{REPORT}:0: its instructions cannot be read: ncu_report crashed while reading it (SIGABRT)"
    assert said in without.stderr
    # What is missing is the table of places, and nothing else changed.
    left = [line for line in whole.stdout.splitlines() if line not in without.stdout.splitlines()]
    assert any("+0x" in line for line in left)
    assert set(without.stdout.splitlines()) <= set(whole.stdout.splitlines())
