"""A number that cannot be right is held by the facts, and whatever is made of it says so or refuses."""

from __future__ import annotations

import dataclasses

import pytest

from perfkit.analysis.explain import explain, explain_alone
from perfkit.analysis.facts import CLOCK, facts_of
from perfkit.analysis.interventions import intervention
from perfkit.analysis.predict import residency
from perfkit.analysis.together import together
from perfkit.commands import _explain_tables as tables
from perfkit.errors import UsageError
from perfkit.model import Evaluated, Factor, MetricValue, Status
from tests.unit.analysis.launches import launch


def spoiled(one: Evaluated, name: str) -> Evaluated:
    """With a metric (or counter) flagged, its value kept."""
    if name in one.launch.counters:
        counter = dataclasses.replace(one.launch.counters[name], status=Status.INVALID)
        held = dataclasses.replace(one.launch, counters={**one.launch.counters, name: counter})
        return dataclasses.replace(one, launch=held)
    metric = one.metrics.get(name) or MetricValue(name, 0.5, "fraction")
    metric = dataclasses.replace(metric, status=Status.INVALID, reason="contradicted: made up")
    return dataclasses.replace(one, metrics={**one.metrics, name: metric})


def by_name(factors: tuple[Factor, ...]) -> dict[str, Factor]:
    found: dict[str, Factor] = {}
    for factor in factors:
        found |= {factor.name: factor, **by_name(factor.children)}
    return found


A = launch("a", stalls={"wait": 2.0, "long_scoreboard": 5.0})
B = launch("b", stalls={"wait": 3.0, "long_scoreboard": 2.0}, issue_rate=0.6, warps=6.0, blocks=3)


@pytest.mark.parametrize(
    ("name", "facts", "factors"),
    [
        ("issue_rate", {"issue_rate"}, {"issue_rate", "correction"}),
        ("active_warps_per_scheduler", {"warps"}, {"warps", "correction", "achieved_occupancy"}),
        ("stall_wait", {"stall_wait", "latency"}, {"stall_wait", "latency", "correction"}),
        ("instructions", {"instructions"}, {"instructions", "issued_per_executed"}),
        ("active_fraction", {"active"}, {"active"}),
        ("blocks_per_sm", {"theoretical_warps"}, {"theoretical_occupancy", "achieved_occupancy"}),
        (CLOCK, {"clock"}, {"clock"}),
    ],
)
def test_facts_and_factors_made_of_it_are_marked(name: str, facts: set[str], factors: set[str]) -> None:
    bad = spoiled(B, name)
    assert facts <= facts_of(bad).invalid
    found = by_name(explain([A], [bad]).factors)
    marked = {factor.name for factor in found.values() if not factor.valid}
    assert factors & found.keys() <= marked
    assert factors & marked
    sound = by_name(explain([A], [B]).factors)
    assert all(factor.valid for factor in sound.values())


def test_what_can_be_off_says_when_it_rests_on_it() -> None:
    result = explain([A], [spoiled(B, "stall_wait")])
    assert {check.name for check in result.checks if not check.valid} == {"correction", "warp_states"}
    (table,) = (one for one in tables.comparison_tables(result) if one.name == "explain_checks")
    cells = {str(row[0].value).split(":")[0]: row[2].status for row in table.rows}
    assert cells["correction k"] is Status.INVALID
    assert cells["duration x clock / cycles"] is Status.OK


def test_a_loss_by_such_a_stall_is_said_with_its_doubt() -> None:
    one = dataclasses.replace(
        A,
        metrics={
            **A.metrics,
            "share_of_peak": MetricValue("share_of_peak", 0.2, "fraction"),
            "fma_share": MetricValue("fma_share", 0.8, "fraction"),
        },
    )
    result = explain_alone([spoiled(one, "stall_long_scoreboard")])
    assert not by_name(result.losses)["stall_long_scoreboard"].valid
    assert by_name(result.losses)["stall_wait"].valid
    (said,) = (text for text in result.sentences if "long scoreboard" in text)
    assert "(by counters that cannot be right)" in said
    assert not any("cannot be right" in text for text in explain_alone([one]).sentences)


@pytest.mark.parametrize("name", ["issue_rate", "stall_wait", "blocks_per_sm"])
def test_no_prediction_from_it(name: str) -> None:
    with pytest.raises(UsageError, match="no prediction from values that cannot be right"):
        residency(spoiled(A, name))
    residency(A)


def test_an_intervention_says_what_cannot_be_told() -> None:
    base = launch("k", l2_hit_rate=0.5)
    changed = launch("k@1", blocks=1, l2_hit_rate=0.9)
    (moved,) = intervention(base, spoiled(changed, "l2_hit_rate")).moved
    assert moved == "L2 hit rate: cannot be told, its counters cannot be right"
    with pytest.raises(UsageError, match="its elapsed cycles cannot be right"):
        intervention(base, spoiled(changed, "smsp__cycles_elapsed.avg"))


def test_kernels_of_a_call_taken_together_keep_the_doubt() -> None:
    whole = together([A, spoiled(launch("a", number=1), "issue_rate")])
    assert whole.metrics["issue_rate"].status is Status.INVALID
    assert "contradicted: made up" in whole.metrics["issue_rate"].reason
    assert together([A, launch("a", number=1)]).metrics["issue_rate"].status is Status.OK
