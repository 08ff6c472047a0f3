"""docs/hand-counts.md is what its generator makes of the recorded runs, and every kernel is in it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perfkit.profiler.run_store import load_run, run_folders

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hand_counts", ROOT / "docs" / "generate_hand_counts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hand_counts"] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(generator: ModuleType) -> Any:
    return generator.launches(run_folders(generator.RUNS))


def test_the_page_is_current(generator: ModuleType, found: Any) -> None:
    made = generator.page(generator.read_counts(), found)
    assert (ROOT / "docs" / "hand-counts.md").read_text(encoding="utf-8") == made, (
        "run `python docs/generate_hand_counts.py`"
    )


def test_every_kernel_ran_and_was_right(generator: ModuleType, found: Any) -> None:
    wanted = generator.read_counts()
    assert set(found) == set(wanted)
    assert len(wanted) >= 20
    kernels = [kernel for folder in run_folders(generator.RUNS) for kernel in load_run(folder).kernels]
    assert [kernel.key for kernel in kernels] == generator.registered()
    assert all(kernel.verification is not None and kernel.verification.passed for kernel in kernels)


def test_arithmetic_is_met_exactly(generator: ModuleType, found: Any) -> None:
    rows = [row for row in generator.rows(generator.read_counts(), found) if row.explanation is None]
    arithmetic = [row for row in rows if row.name in ("FFMA", "DFMA", "HFMA2", "HMMA", "LDL", "STL", "ATOMS")]
    assert len(arithmetic) >= 12
    assert [(row.kernel, row.name, row.difference) for row in arithmetic if row.difference] == []
