"""The explanation adds up, reads the same from both ends, and blames what moved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.explain import explain, explain_alone, flat, waterfall, waterfall_alone
from perfkit.errors import UsageError
from perfkit.model import Comparison, Evaluated, Factor, MetricValue
from tests.unit.analysis.launches import launch

count = st.one_of(st.just(0.0), st.floats(1e-6, 1e3))
made_up = st.fixed_dictionaries(
    {
        "duration": st.floats(1e-6, 10.0),
        "clock": st.floats(5e8, 3e9),
        "smsps": st.floats(4, 600),
        "issue_rate": st.floats(0.001, 1.0),
        "active": st.floats(0.01, 1.0),
        "warps": st.floats(0.1, 16.0),
        "blocks": st.integers(1, 32),
        "replayed": st.floats(1.0, 1.5),
        "off": st.floats(0.9, 1.1),
        "stalls": st.dictionaries(
            st.sampled_from(["barrier", "wait", "lg_throttle", "drain"]), count, min_size=1
        ),
        "opcodes": st.dictionaries(
            st.sampled_from(["FFMA", "LDS", "BAR", "IMAD", "XYZ"]), st.floats(1.0, 1e3), min_size=1
        ),
    }
)


def every(factors: tuple[Factor, ...]) -> Iterator[Factor]:
    for factor in factors:
        yield factor
        yield from every(factor.children)


def by_name(result: Comparison) -> dict[str, Factor]:
    return {factor.name: factor for factor in every(result.factors)}


@given(made_up, made_up)
def test_contributions_add_up_at_every_level(a: dict[str, Any], b: dict[str, Any]) -> None:
    result = explain([launch(**a)], [launch(**b)])
    assert result.log_ratio == pytest.approx(math.log(b["duration"] / a["duration"]), abs=1e-12)
    total = sum(factor.contribution for factor in result.factors) + result.residual
    assert total == pytest.approx(result.log_ratio, abs=1e-9)
    for factor in every(result.factors):
        assert math.isfinite(factor.contribution)
        if factor.children:
            assert sum(c.contribution for c in factor.children) == pytest.approx(
                factor.contribution, abs=1e-9
            )


@given(made_up, made_up)
def test_the_way_back_is_the_negative_of_the_way_there(a: dict[str, Any], b: dict[str, Any]) -> None:
    there, back = explain([launch(**a)], [launch(**b)]), explain([launch(**b)], [launch(**a)])
    forward, backward = by_name(there), by_name(back)
    assert forward.keys() == backward.keys()
    for name, factor in forward.items():
        assert factor.contribution == pytest.approx(-backward[name].contribution, abs=1e-9)


@given(made_up)
def test_a_launch_against_itself_has_no_causes(a: dict[str, Any]) -> None:
    result = explain([launch(**a)], [launch(**a)])
    assert result.verdict.kind == "same"
    assert all(factor.contribution == pytest.approx(0.0, abs=1e-12) for factor in every(result.factors))


def test_the_residual_is_what_the_counters_leave() -> None:
    # B's cycles are 2 % more than its duration times its clock: other passes than the one that was timed.
    result = explain([launch()], [launch(off=1.02)])
    assert result.residual == pytest.approx(-math.log(1.02), abs=1e-12)
    assert "unexplained" in result.sentences[-1]


def test_twice_the_work_is_a_factor_of_its_own() -> None:
    from perfkit.analysis.compare import Origin

    a, b = launch(problem="n=64"), launch(duration=2e-3, problem="n=128")
    result = explain([a], [b], origin_a=Origin(work=1.0), origin_b=Origin(work=2.0))
    found = by_name(result)
    assert result.work_ratio == 2.0
    assert found["work"].contribution == pytest.approx(math.log(2))
    assert found["instructions"].contribution == pytest.approx(0.0, abs=1e-12)
    assert found["instructions"].title == "instructions per unit of work"
    assert result.verdict.kind == "same"


def test_more_work_is_no_cause_but_what_changed_for_the_same_work_is() -> None:
    from perfkit.analysis.compare import Origin

    a, b = launch(problem="n=64", active=0.4), launch(duration=40e-3, problem="n=128", active=0.8)
    result = explain([a], [b], origin_a=Origin(work=1.0), origin_b=Origin(work=80.0))
    first, second = result.sentences[:2]
    assert first == (
        "k n=128 is 2.00 times as fast as k n=64 per unit of work (1 ms to 40 ms for 80 times the work)."
    )
    assert second.startswith("The SMs hold work in 80% of the cycles instead of 40%")


def test_smaller_blocks_are_named_where_they_make_fewer_warps() -> None:
    a = launch(warps=7.9, blocks=2, block_size=512, registers_per_thread=56, occupancy_limiter="registers")
    b = launch(
        duration=2e-3,
        issue_rate=0.25,
        warps=4.0,
        blocks=2,
        block_size=256,
        registers_per_thread=96,
        occupancy_limiter="registers",
    )
    assert (
        "egisters per thread 56 -> 96 and threads per block 512 -> 256 at 2 blocks per SM, so warps per "
        "scheduler 7.9 -> 4, so issue rate 0.50 -> 0.25" in " ".join(explain([a], [b]).sentences)
    )


def test_a_fallen_occupancy_is_told_as_a_chain() -> None:
    a = launch(
        "k6b",
        duration=1e-3,
        issue_rate=0.62,
        warps=3.9,
        blocks=2,
        registers_per_thread=120,
        occupancy_limiter="registers",
    )
    b = launch(
        "k6",
        duration=1.5e-3,
        issue_rate=0.41,
        warps=2.0,
        blocks=1,
        registers_per_thread=130,
        occupancy_limiter="registers",
    )
    result = explain([a], [b])
    assert result.verdict.kind == "slower"
    assert by_name(result)["warps"].contribution > 2 / 3 * result.log_ratio
    assert (
        "Registers per thread 120 -> 130, so blocks per SM 2 -> 1, so warps per scheduler 3.9 -> 2, "
        "so issue rate 0.62 -> 0.41" in result.sentences[1]
    )


def test_not_selected_is_never_a_cause() -> None:
    result = explain([launch(not_selected=0.1)], [launch(not_selected=9.0, duration=2e-3)])
    assert not any("selected" in name for name in by_name(result))
    assert by_name(result)["latency"].contribution == pytest.approx(0.0, abs=1e-12)


def test_near_ties_are_called_ties() -> None:
    stalls = {"barrier": 1.0, "wait": 1.0, "drain": 1.0}
    grown = {"barrier": 3.0, "wait": 2.95, "drain": 1.5}
    found = by_name(explain([launch(stalls=stalls)], [launch(stalls=grown, duration=2e-3)]))
    assert [found[f"stall_{name}"].tied for name in ("barrier", "wait", "drain")] == [True, True, False]


def test_top_causes_that_tie_are_said_to() -> None:
    # Twice the instructions at half the issue rate: each makes x2.
    result = explain([launch()], [launch(duration=4e-3, issue_rate=0.25, warps=2.0, not_selected=2.0)])
    found = {factor.name: factor for factor in result.factors}
    assert found["instructions"].tied
    assert found["issue_rate"].tied
    assert not found["clock"].tied
    assert ", as much as that" in result.sentences[1]


def test_what_is_missing_is_said_and_nothing_is_lost() -> None:
    def without(one: Evaluated, *names: str) -> Evaluated:
        return Evaluated(one.launch, {name: held for name, held in one.metrics.items() if name not in names})

    a, b = launch(), launch(duration=2e-3)
    stalls = [name for name in a.metrics if name.startswith("stall_")]
    no_stalls = explain([without(a, *stalls)], [without(b, *stalls)])
    assert by_name(no_stalls)["issue_rate"].note == "not split: the reports lack the stall reasons"
    assert sum(f.contribution for f in no_stalls.factors) + no_stalls.residual == pytest.approx(math.log(2))
    no_issue = explain([without(a, "issue_rate")], [without(b, "issue_rate")])
    assert [factor.name for factor in no_issue.factors] == ["cycles", "clock"]
    assert "the issue rate" in no_issue.factors[0].note
    assert sum(f.contribution for f in no_issue.factors) == pytest.approx(math.log(2))


@given(made_up, made_up, st.floats(0.0, 1.0))
def test_the_front_of_the_tree_keeps_the_sum(a: dict[str, Any], b: dict[str, Any], least: float) -> None:
    result = explain([launch(**a)], [launch(**b)])
    front = flat(result.factors, least)
    whole = sum(factor.contribution for factor in result.factors)
    assert sum(factor.contribution for factor in front) == pytest.approx(whole, abs=1e-9)


def test_the_waterfall_ends_where_the_comparison_does() -> None:
    result = explain([launch()], [launch(duration=2e-3, issue_rate=0.25, warps=2.0, blocks=1)])
    drawn = waterfall(result)
    assert drawn.start + sum(step.value for step in drawn.steps) == pytest.approx(drawn.end)
    assert drawn.end == pytest.approx(math.log(2))


def ideal(share: float, fma_share: float = 0.6, **more: Any) -> Evaluated:
    one = launch(**more)
    metrics = {"share_of_peak": share, "fma_share": fma_share}
    return Evaluated(
        one.launch, {**one.metrics, **{k: MetricValue(k, v, "fraction") for k, v in metrics.items()}}
    )


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_share_and_losses_make_one(issue_rate: float, active: float, lanes: float) -> None:
    share = issue_rate * active * 0.6 * lanes
    result = explain_alone([ideal(share, issue_rate=issue_rate, active=active)])
    assert result.share + sum(loss.contribution for loss in result.losses) == pytest.approx(1.0, abs=1e-9)
    for loss in every(result.losses):
        if loss.children:
            assert sum(c.contribution for c in loss.children) == pytest.approx(loss.contribution, abs=1e-9)
    drawn = waterfall_alone(result)
    assert drawn.start + sum(step.value for step in drawn.steps) == pytest.approx(share, abs=1e-9)


def test_a_lone_kernel_loses_its_slots_to_its_stalls() -> None:
    result = explain_alone([ideal(0.27)])
    slots = {factor.name: factor for factor in every(result.losses)}
    # Stalls 3 : 1 : 0.5 : 0.5, so the long scoreboard has 3/5 of what empty slots cost.
    assert slots["stall_long_scoreboard"].contribution == pytest.approx(
        0.6 * slots["issue_rate"].contribution
    )
    # 200 of the 400 other instructions are shared loads.
    assert slots["instructions_shared_load"].contribution == pytest.approx(
        0.5 * slots["fma_share"].contribution
    )


def test_no_share_of_peak_is_refused_with_its_reason() -> None:
    with pytest.raises(UsageError, match=r"k \(made-up.ncu-rep:0\) has no share of FP32 peak to explain"):
        explain_alone([launch()])


def test_a_kernel_without_an_fma_is_told_so() -> None:
    with pytest.raises(UsageError, match="it executes no FP32 FMA, so the share is 0"):
        explain_alone([ideal(0.0)])


def test_two_launches_of_one_name_get_short_names_that_differ() -> None:
    from perfkit.analysis.compare import Origin

    def names(a: Evaluated, b: Evaluated, *called: str) -> tuple[str, str]:
        one, other = (Origin(called=text) for text in called)
        result = explain([a], [b], origin_a=one, origin_b=other)
        return result.a.label, result.b.label

    a, b = launch("k"), launch("k", number=1)
    assert names(a, b, "old:k", "new:k") == ("old:k", "new:k")
    long = "/a/folder/with/a/name/that/makes/no/title/made-up.ncu-rep:"
    assert names(a, b, long + "0", long + "1") == ("k #0", "k #1")
