"""Where output goes: a pipe whose reader went away is no error, and no gate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perfkit import cli
from perfkit.commands import _console

RULES = """
[[rule]]
kernel = "k6"
problem = "n=4096"
metric = "blocks_per_sm"
op = ">="
value = {value}
"""


@pytest.mark.parametrize(("value", "code"), [(1, 0), (2, 1)])
def test_a_reader_that_went_away_changes_no_exit_code(tmp_path: Path, value: int, code: int) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES.format(value=value))
    command = [sys.executable, "-m", "perfkit", "check", "recorded", "--rules", str(rules)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        said = started.stderr.read()
    assert started.returncode == code
    assert ("1 of 1 checks" in said) == (code == 1)
    assert "Errno" not in said


def test_no_name_in_a_message_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    _console.note("a\nb \x1b[31mred\r.ncu-rep")
    assert capsys.readouterr().err == "a\nb \\x1b[31mred .ncu-rep\n"
    cli._say("no \x1b[2J.toml", "Give\nanother.")
    assert capsys.readouterr().err == "perfkit: error: no \\x1b[2J.toml\n  Give\n  another.\n"
