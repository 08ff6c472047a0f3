"""How the tests themselves run: the profiles of property tests, and the time limit of every test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]

CONFTEST = ROOT / "tests" / "conftest.py"
PROPERTY = f"""
import runpy
runpy.run_path({str(CONFTEST)!r})
from hypothesis import given, settings, strategies as st
drawn = []
@given(st.integers(0, 10**9))
def a_property(number):
    drawn.append(number)
a_property()
print(len(drawn), settings.default.deadline, sum(drawn))
"""

HANGS = """
import subprocess
def test_that_hangs():
    subprocess.run(["sleep", "600"])
def test_after_it():
    pass
"""


def drawn(folder: Path, **environment: str) -> tuple[int, str, int]:
    """How many examples a property is given, with what deadline, and their sum."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PERFKIT_EXAMPLES")}
    printed = subprocess.run(
        [sys.executable, "-c", PROPERTY],
        capture_output=True, text=True, env={**kept, **environment}, cwd=folder, check=True,
    ).stdout.split()  # fmt: skip
    return int(printed[0]), printed[1], int(printed[2])


def test_no_property_has_a_deadline() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None


@pytest.mark.parametrize("on", ["true", "1"])
def test_ci_draws_the_same_examples_each_time(tmp_path: Path, on: str) -> None:
    first, again = drawn(tmp_path, CI=on), drawn(tmp_path, CI=on)
    assert first == again
    assert first[:2] == (100, "None")


@pytest.mark.parametrize("off", [{}, {"CI": ""}, {"CI": "false"}])
def test_elsewhere_the_examples_are_new_each_time(tmp_path: Path, off: dict[str, str]) -> None:
    first, again = drawn(tmp_path, **off), drawn(tmp_path, **off)
    assert first != again
    assert first[:2] == again[:2] == (100, "None")


@pytest.mark.parametrize("ci", ["", "true"])
def test_more_examples_can_be_asked_for(tmp_path: Path, ci: str) -> None:
    assert drawn(tmp_path, CI=ci, PERFKIT_EXAMPLES="321")[0] == 321


def test_every_test_has_a_time_limit(request: pytest.FixtureRequest) -> None:
    assert float(request.config.getini("timeout")) == 300


def test_a_hanging_test_fails_alone(tmp_path: Path) -> None:
    """Also where it waits for another program, in a worker of xdist, which must live on."""
    (tmp_path / "test_inner.py").write_text(HANGS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path),
         "-p", "no:cacheprovider", "-n", "1", "-o", "timeout=3", str(tmp_path / "test_inner.py")],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout
    assert "Timeout" in done.stdout
    assert "crashed" not in done.stdout
