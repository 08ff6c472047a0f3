"""How far a value may lie from what a rule requires: the larger of margin and tolerance, op by op.

Through `perfkit.check` and the command that records a baseline, on a recorded launch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import perfkit
from perfkit.cli import app

RUN = Path(__file__).parents[2] / "data" / "runs" / "programs" / "cpp" / "profile.ncu-rep"
METRIC = "registers_per_thread"
MEASURED = 16  # registers a thread of the saxpy of that report


def rules_file(folder: Path, ops: dict[str, str], value: float | None, more: str) -> Path:
    """A rule for each op, named by it. With `value` None they compare with base.json."""
    required = "" if value is None else f"value = {value}\n"
    text = "".join(
        f'[[rule]]\nname = "{name}"\nmetric = "{METRIC}"\nop = "{op}"\n{required}{more}\n'
        for name, op in ops.items()
    )
    path = folder / "rules.toml"
    path.write_text(('baseline = "base.json"\n' if value is None else "") + text)
    return path


def passed(rules: Path) -> set[str]:
    findings = perfkit.check(RUN, rules)
    assert {finding.measured for finding in findings} == {MEASURED}
    return {finding.rule.name for finding in findings if not finding.failed}


VALUES = {op: op for op in ("<=", "<", ">=", ">", "==", "!=")}


@pytest.mark.parametrize(
    ("value", "slack", "passing"),
    [
        # 16 against 10, 20 and 16 with the slack in registers that is written in two ways below.
        (10, 4.0, {">=", ">", "!="}),
        (10, 5.0, {">=", ">", "!="}),
        (10, 6.0, {"<=", ">=", ">", "=="}),
        (10, 7.0, {"<=", "<", ">=", ">", "=="}),
        (20, 3.0, {"<=", "<", "!="}),
        (20, 4.0, {"<=", "<", ">=", "=="}),
        (20, 5.0, {"<=", "<", ">=", ">", "=="}),
        (16, 0.0, {"<=", ">=", "=="}),
        (16, 1.0, {"<=", "<", ">=", ">", "=="}),
    ],
)
def test_the_slack_of_every_op(tmp_path: Path, value: int, slack: float, passing: set[str]) -> None:
    for more in (f"margin = {slack}", f"tolerance = {slack / value}"):
        assert passed(rules_file(tmp_path, VALUES, value, more)) == passing


@pytest.mark.parametrize(
    ("margin", "tolerance", "passes"),
    [
        # 16 is 6 above 10. Were the two added up, 4 and 0.3 would do, and 0.4 with 3.
        (4, 0.3, False),
        (3, 0.4, False),
        (6, 0.1, True),  # and were the smaller one taken, these would not
        (1, 0.6, True),
    ],
)
def test_of_margin_and_tolerance_the_larger_counts(
    tmp_path: Path, margin: float, tolerance: float, passes: bool
) -> None:
    more = f"margin = {margin}\ntolerance = {tolerance}"
    assert passed(rules_file(tmp_path, {"most": "<="}, 10, more)) == ({"most"} if passes else set())
    assert passed(rules_file(tmp_path, {"equal": "=="}, 10, more)) == ({"equal"} if passes else set())


def test_a_tolerance_is_of_what_is_required(tmp_path: Path) -> None:
    # 16 is 60 % above 10, and 10 is 37.5 % below 16.
    assert passed(rules_file(tmp_path, {"most": "<="}, 10, "tolerance = 0.5")) == set()
    assert passed(rules_file(tmp_path, {"least": ">="}, 20, "tolerance = 0.21")) == {"least"}
    assert passed(rules_file(tmp_path, {"least": ">="}, 20, "tolerance = 0.19")) == set()


BASELINE = {op: op for op in ("unchanged", "not_above", "not_below")}


def _recorded_as(node: Any, value: float) -> Any:
    """The baseline with `value` where it holds what was measured, whatever its layout."""
    if isinstance(node, dict):
        return {
            key: value if key in (METRIC, "value") and held == MEASURED else _recorded_as(held, value)
            for key, held in node.items()
        }
    return [_recorded_as(one, value) for one in node] if isinstance(node, list) else node


@pytest.mark.parametrize(
    ("recorded", "more", "passing"),
    [
        (16, "", {"unchanged", "not_above", "not_below"}),
        (17, "", {"not_above"}),
        (15, "", {"not_below"}),
        (17, "margin = 1", {"unchanged", "not_above", "not_below"}),
        (15, "margin = 1", {"unchanged", "not_above", "not_below"}),
        (20, "margin = 3", {"not_above"}),
        (10, "margin = 4\ntolerance = 0.3", {"not_below"}),
        (10, "margin = 1\ntolerance = 0.6", {"unchanged", "not_above", "not_below"}),
        (20, "margin = 2\ntolerance = 0.15", {"not_above"}),
    ],
)
def test_the_slack_around_a_baseline(tmp_path: Path, recorded: int, more: str, passing: set[str]) -> None:
    rules = rules_file(tmp_path, BASELINE, None, more)
    done = CliRunner().invoke(app, ["check", str(RUN), "--rules", str(rules), "--update-baseline"])
    assert done.exit_code == 0, done.output
    base = tmp_path / "base.json"
    changed = _recorded_as(json.loads(base.read_text()), recorded)
    base.write_text(json.dumps(changed))
    assert passed(rules) == passing
