"""The examples of docs/python.md, on the recorded run that ships with the package."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from perfkit.errors import UsageError
from perfkit.profiler.run_store import resolve_run

DOCS = Path(__file__).parents[2] / "docs"


def test_the_examples_run() -> None:
    try:
        resolve_run("recorded")
    except UsageError as error:
        pytest.skip(f"no recorded run: {error.message}")
    result = doctest.testfile(str(DOCS / "python.md"), module_relative=False)
    assert result.attempted >= 12
    assert result.failed == 0
