"""`perfkit check` says each failure once, with both values, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfkit.analysis.rules import RuleSet
from perfkit.commands.check import _sentences, _table
from perfkit.model import Finding, Rule, RuleOutcome


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
