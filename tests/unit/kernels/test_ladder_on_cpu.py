"""The ladder computes C = A x B, bit for bit as chains of FMAs: run on the CPU, without a GPU."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from perfkit.kernels.registry import load_registry
from perfkit.kernels.sizes import check_size, evaluate
from perfkit.model import KernelSpec

COMPILER = shutil.which("g++")
HARNESS = Path(__file__).with_name("ladder_on_cpu.cpp")


pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")


@pytest.mark.parametrize(
    ("key", "n"),
    [
        *((key, 128) for key in ("k1", "k2", "k3", "k4")),
        *((key, 256) for key in ("k5", "k6", "k6b", "k7", "k8")),
    ],
)
def test_kernel_equals_a_chain_of_fmas(tmp_path: Path, key: str, n: int) -> None:
    spec = load_registry()[key]
    size = check_size(spec, {"n": n})
    sides = [[str(evaluate(side, size)) for side in (*sides, "1")[:2]] for sides in (spec.grid, spec.block)]
    assert run(tmp_path, spec, n, sides) == "equal\n"


def test_a_block_that_is_missing_is_noticed(tmp_path: Path) -> None:
    found = run(tmp_path, load_registry()["k5"], 256, [["2", "1"], ["256", "1"]])
    assert found.startswith("C[128][0] is nan, not ")


def run(folder: Path, spec: KernelSpec, n: int, sides: list[list[str]]) -> str:
    """What the harness prints for one kernel at size n, with these sides of grid and block."""
    program = folder / "program"
    machine = ["-mfma"] if platform.machine() in ("x86_64", "AMD64") else []
    command = [str(COMPILER), "-std=c++20", "-O2", "-ffp-contract=fast", *machine, "-pthread", "-w"]
    command += [f'-DSOURCE="{spec.source}"', f"-DENTRY={spec.entry}", str(HARNESS), "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    done = subprocess.run(
        [str(program), str(n), *sides[0], *sides[1]], capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout
