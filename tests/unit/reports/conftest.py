"""What the tests of tables, figures and pages share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"report_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """Builders of launches and runs with numbers made by hand."""
    return _load("made")


@pytest.fixture
def measurements(made: Any) -> Any:
    """The hand-made ladder, profiled and timed."""
    from perfkit.analysis.measurements import RunFile, gather

    files = {
        "run/p.ncu-rep": RunFile("run/p.ncu-rep", "a" * 64),
        "bench": RunFile("bench/run.json", "b" * 64),
    }
    return gather(made.ladder(), [made.run("profile"), made.bench()], files)
