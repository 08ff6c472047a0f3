"""`perfkit check` says each failure once, with both values, in words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import perfkit
from perfkit.analysis.rules import RuleSet
from perfkit.commands.check import _sentences, _table, check
from perfkit.errors import CheckFailedError, ConfigError, ReportError
from perfkit.model import Finding, Rule, RuleOutcome

CASES = Path(__file__).parents[2] / "data" / "cases"


def finding(
    rule: Rule, launch: str, required: float | None, measured: float | None, reason: str = ""
) -> Finding:
    missing = required is None or measured is None
    outcome = RuleOutcome.MISSING if missing else RuleOutcome.FAILED
    return Finding(rule, launch, outcome, required, measured, reason=reason)


def by_default(op: str, value: float | None = None) -> Rule:
    said = op if value is None else f"{op} {value:g}"
    return Rule(f"registers_per_thread(k*) {said}", "k*", "registers_per_thread", op, value)


@pytest.mark.parametrize(
    ("op", "value", "said"),
    [
        ("<=", 128.0, "k6: registers_per_thread is 130, required <= 128"),
        ("unchanged", None, "k6: registers_per_thread is 130, required unchanged from the baseline's 128"),
        ("not_above", None, "k6: registers_per_thread is 130, required not above the baseline's 128"),
    ],
)
def test_a_failure_names_both_values(op: str, value: float | None, said: str) -> None:
    assert _sentences([finding(by_default(op, value), "k6", 128.0, 130.0)]) == [said]


def test_a_given_name_is_said_and_one_made_of_the_rule_is_not() -> None:
    named = Rule("two blocks an SM", "k6", "blocks_per_sm", ">=", 2.0)
    failed = [finding(named, "k6", 2.0, 1.0), finding(by_default("<=", 64.0), "k6", 64.0, 130.0)]
    assert _sentences(failed)[0] == "two blocks an SM: k6: blocks_per_sm is 1, required >= 2"
    rows = _table(failed, RuleSet(Path("rules.toml"), (), None)).rows
    assert [row[0].text for row in rows] == ["two blocks an SM", "k*"]


def test_many_values_missing_for_one_reason_are_one_line() -> None:
    rule = by_default("unchanged")
    lost = [finding(rule, f"k{i}", None, 32.0, "there is no baseline yet") for i in range(1, 9)]
    failed = [*lost[:4], finding(rule, "k9", 32.0, 40.0), *lost[4:]]
    assert _sentences(failed) == [
        "registers_per_thread of 8 launches (k1 to k8): there is no baseline yet",
        "k9: registers_per_thread is 40, required unchanged from the baseline's 32",
    ]
    assert len(_sentences(lost[:3])) == 3
    none = [finding(rule, "k*", None, None, "no launch is called k*")]
    assert _sentences(none) == ["k*: registers_per_thread has no value: no launch is called k*"]


def run(report: str, rules: Path, **options: Any) -> None:
    check([str(CASES / report)], rules, **options)


def test_a_baseline_of_two_shapes_passes_on_its_own_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = Path(shutil.copy(CASES / "rules_repeat.toml", tmp_path))
    report = "same_name_two_shapes.ncu-rep"
    with pytest.raises(CheckFailedError, match="there is no baseline yet"):
        run(report, rules)
    run(report, rules, update_baseline=True)
    run(report, rules)
    assert "4 checks of" in capsys.readouterr().err
    # A doubled time of the launch that the old baseline forgot.
    baseline = tmp_path / "baseline_repeat.json"
    text = baseline.read_text()
    assert '"duration": {"value": 5.7728e-05, "unit": "s"}' in text
    baseline.write_text(text.replace("5.7728e-05", "2.8864e-05"))
    with pytest.raises(CheckFailedError) as caught:
        run(report, rules)
    assert caught.value.message.startswith("1 of 4 checks")
    where = f"work grid 65536x1x1 (cases/{report}:0)"
    assert f"no slower: {where}: duration is 57.73 µs, required not above" in caught.value.message


def test_what_a_percentage_is_compared_with_is_said_with_its_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nmetric = "sm__warps_active.avg.pct_of_peak_sustained_active"\nop = ">="\nvalue = 90\n'
    )
    with pytest.raises(ConfigError, match="states no unit"):
        run("same_name_two_shapes.ncu-rep", rules)
    rules.write_text(rules.read_text() + 'unit = "%"\n')
    with pytest.raises(CheckFailedError, match=r"is 74\.\d+ %, required >= 90 %"):
        run("same_name_two_shapes.ncu-rep", rules)
    capsys.readouterr()
    with pytest.raises(CheckFailedError):
        run("same_name_two_shapes.ncu-rep", rules, output_format="json")
    document = json.loads(capsys.readouterr().out)
    assert str(CASES / "same_name_two_shapes.ncu-rep:0") in json.dumps(document)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Two launches, of which the last one is cut."""
    whole = (CASES / "same_name_two_shapes.ncu-rep").read_bytes()
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(whole[: len(whole) - 20_000])
    return path


RULES = '[[rule]]\nmetric = "registers_per_thread"\nop = "<="\nvalue = 255\n'


def test_a_report_that_lost_launches_fails_unless_told_otherwise(
    tmp_path: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    with pytest.raises(CheckFailedError) as caught:
        check([str(damaged)], rules)
    assert f"every launch read: {damaged}: launches_lost is 1, required == 0" in caught.value.message
    assert "--allow-lost" in caught.value.remedy
    assert "launches_lost" in capsys.readouterr().out
    check([str(damaged)], rules, allow_lost=True)
    first, *_ = perfkit.check(damaged, rules)
    assert (first.launch, first.measured, first.failed) == (str(damaged), 1.0, True)
    assert not any(f.failed for f in perfkit.check(damaged, rules, allow_lost=True))


def test_an_unreadable_report_fails_the_gate_and_the_others_are_checked(tmp_path: Path) -> None:
    rules, empty = tmp_path / "rules.toml", tmp_path / "empty.ncu-rep"
    rules.write_text(RULES)
    empty.touch()
    both = [str(empty), str(CASES / "same_name_two_shapes.ncu-rep")]
    with pytest.raises(CheckFailedError, match="1 of 3 checks") as caught:
        check(both, rules)
    assert f"every launch read: {empty}" in caught.value.message
    check(both, rules, allow_lost=True)
    assert [f.failed for f in perfkit.check(both, rules)] == [True, False, False]
    with pytest.raises(ReportError, match="is empty"):
        check([str(empty)], rules)
    with pytest.raises(ReportError, match="is empty"):
        perfkit.check(empty, rules, allow_lost=True)


def test_a_baseline_of_a_damaged_report_is_not_recorded(tmp_path: Path, damaged: Path) -> None:
    rules = Path(shutil.copy(CASES / "rules_repeat.toml", tmp_path))
    with pytest.raises(CheckFailedError, match="no baseline is recorded"):
        check([str(damaged)], rules, update_baseline=True)
    assert not (tmp_path / "baseline_repeat.json").exists()
