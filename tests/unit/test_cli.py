"""The program itself: what it says without a command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perfkit import __version__
from perfkit.cli import COMMANDS


def perfkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perfkit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_version_needs_no_command() -> None:
    done = perfkit("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"perfkit {__version__}\n", "")


def test_help_lists_every_command() -> None:
    done = perfkit("--help")
    assert done.returncode == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in done.stdout] == []


def test_an_unknown_command_is_wrong_usage() -> None:
    done = perfkit("frobnicate")
    assert done.returncode == 2
    assert "No such command 'frobnicate'" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_line_of_the_help_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = perfkit("--help").stdout.split("Commands:")[1].splitlines()
    assert [line for line in lines if line.endswith("...")] == []
