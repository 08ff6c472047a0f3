"""`perfkit roofline` says which of the sizes it does not draw."""

from __future__ import annotations

from typer.testing import CliRunner

from perfkit.cli import app


def test_sizes_left_out_are_said_unless_one_was_chosen() -> None:
    done = CliRunner().invoke(app, ["roofline", "recorded"])
    assert done.exit_code == 0
    assert "left out: " in done.stderr
    assert "Choose a size with -n" in done.stderr
    chosen = CliRunner().invoke(app, ["roofline", "recorded", "-n", "4096"])
    assert chosen.exit_code == 0
    assert "left out: " not in chosen.stderr
