"""A kernel against itself held to fewer blocks: what is said to have moved, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from perfkit.analysis.interventions import intervention, pairs
from perfkit.analysis.predict import predict, residency
from perfkit.commands._verify import only_launch
from perfkit.errors import UsageError
from perfkit.model import Counter, Device, Evaluated, MetricValue
from tests.unit.analysis.launches import launch

CARVEOUT = "launch__shared_mem_config_size"


def held(one: Evaluated, carveout: float | None) -> Evaluated:
    counters = dict(one.launch.counters)
    if carveout is not None:
        counters[CARVEOUT] = Counter(CARVEOUT, carveout, "byte")
    return dataclasses.replace(one, launch=dataclasses.replace(one.launch, counters=counters))


def with_metric(one: Evaluated, name: str, value: float) -> Evaluated:
    return dataclasses.replace(one, metrics={**one.metrics, name: MetricValue(name, value, "")})


WATCHED = {
    "l1_hit_rate": (0.50, 0.03, "L1 hit rate 50% -> "),
    "l2_hit_rate": (0.50, 0.05, "L2 hit rate 50% -> "),
    "sm_clock": (1.5e9, 0.01, "SM clock "),
    "dram_read_bytes": (1e9, 0.25, "bytes read from DRAM "),
    "instructions": (1e6, 0.005, "instructions "),
}


@pytest.mark.parametrize("name", list(WATCHED))
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("of_limit", "said"), [(0.95, False), (1.05, True)])
def test_what_moved_by_more_than_its_limit_is_said(name: str, sign: int, of_limit: float, said: bool) -> None:
    """Hit rates by their difference, the others by their ratio."""
    before, limit, text = WATCHED[name]
    move = sign * of_limit * limit
    after = before + move if name.endswith("_rate") else before * (1 + move)
    base = with_metric(launch("k"), name, before)
    changed = with_metric(launch("k@1", blocks=1), name, after)
    moved = intervention(base, changed).moved
    if said:
        shown = f"{after:.0%}" if name.endswith("_rate") else f"{move:+.0%}"
        assert moved == (f"{text}{shown}",)
    else:
        assert moved == ()


def test_what_one_side_does_not_hold_has_not_moved() -> None:
    base, changed = launch("k", l1_hit_rate=0.1), launch("k@1", blocks=1, l2_hit_rate=0.9)
    assert intervention(base, changed).moved == ()
    assert intervention(launch("k"), launch("k@1", blocks=1, l1_hit_rate=0.1)).moved == ()


def test_bytes_out_of_nothing_are_a_move() -> None:
    base, changed = launch("k", dram_read_bytes=0.0), launch("k@1", blocks=1, dram_read_bytes=1e6)
    assert intervention(base, changed).moved == ("bytes read from DRAM +inf%",)


def test_another_carveout_is_refused_with_both_sizes() -> None:
    base, changed = held(launch("k"), 102400.0), held(launch("k@1", blocks=1), 65536.0)
    with pytest.raises(UsageError, match=r"102,400 and 65,536 bytes of shared memory") as caught:
        intervention(base, changed)
    assert caught.value.remedy == "Profile both with --carveout 100."


@pytest.mark.parametrize(
    ("one", "other"), [(102400.0, 102400.0), (None, 65536.0), (65536.0, None), (None, None)]
)
def test_the_same_or_an_unknown_carveout_is_compared(one: float | None, other: float | None) -> None:
    assert intervention(held(launch("k"), one), held(launch("k@1", blocks=1), other)).blocks_after == 1


@pytest.mark.parametrize("blocks", [0.0, float("nan")])
def test_without_blocks_per_sm_there_is_nothing_to_predict(blocks: float) -> None:
    with pytest.raises(UsageError, match="does not tell the blocks per SM"):
        intervention(launch("k"), launch("k@1", blocks=blocks))


def test_observed_is_in_cycles_and_the_error_is_relative_to_it() -> None:
    base = launch("k", duration=1e-3, clock=1.5e9)
    slower = launch("k@1", blocks=1, duration=1.6e-3, clock=1.2e9, issue_rate=0.25)
    found = intervention(base, slower)
    assert found.observed == pytest.approx(1.6 * 1.2 / 1.5)
    wanted = predict(residency(base), 1)
    assert found.predicted == pytest.approx(wanted.slowdown)
    assert found.simple == pytest.approx(wanted.simple_slowdown)
    assert found.error == pytest.approx(wanted.slowdown / (1.6 * 1.2 / 1.5) - 1)
    assert (found.label, found.problem) == ("k@1", "n=64")
    assert (found.blocks_before, found.blocks_after) == (2, 1)
    assert found.issue_rate_predicted == pytest.approx(wanted.issue_rate)
    assert found.issue_rate_observed == 0.25


def test_pairs_are_of_one_report_and_problem_and_were_collected() -> None:
    def of(report: str, one: Evaluated) -> Evaluated:
        identity = dataclasses.replace(one.launch.id, report=report)
        return dataclasses.replace(one, launch=dataclasses.replace(one.launch, id=identity))

    found = pairs([
        launch("k6"), launch("k6@1", blocks=1), launch("k6@12", blocks=1),
        launch("k7@1", blocks=1),  # its base was not profiled
        launch("k8", problem="n=128"), launch("k8@1", problem="n=64"),  # at another problem
        of("other.ncu-rep", launch("k9")), launch("k9@1"),  # in another report
        launch("k5"), launch("k5@1", duration=0.0), launch("k4", duration=0.0), launch("k4@1"),
        launch("k3"), launch("k3@"), launch("k3@x"),
    ])  # fmt: skip
    assert [(one.launch.label, other.launch.label) for one, other in found] == [
        ("k6", "k6@1"),
        ("k6", "k6@12"),
    ]


def test_pairs_of_several_launches_are_of_one_device_and_in_order() -> None:
    def on(device: int, one: Evaluated) -> Evaluated:
        return dataclasses.replace(one, launch=dataclasses.replace(one.launch, device=Device(device)))

    def timed(label: str, device: int, duration: float) -> Evaluated:
        return on(device, launch(label, duration=duration))

    found = pairs([
        timed("k", 0, 1.0), timed("k", 0, 2.0), timed("k", 1, 3.0),
        timed("k@1", 1, 30.0), timed("k@1", 0, 10.0), timed("k@1", 0, 20.0),
    ])  # fmt: skip
    assert [(one.number("duration"), other.number("duration")) for one, other in found] == [
        (3.0, 30.0),
        (1.0, 10.0),
        (2.0, 20.0),
    ]


def test_another_function_or_grid_is_no_arm_of_the_experiment() -> None:
    other = launch("k@1")
    renamed = dataclasses.replace(other, launch=dataclasses.replace(other.launch, name="j"))
    assert pairs([launch("k"), renamed]) == []
    assert pairs([launch("k"), launch("k@1", grid=128)]) == []
    assert len(pairs([launch("k"), launch("k@1")])) == 1


def test_verify_wants_one_launch_of_each_arm() -> None:
    one = launch("k")
    assert only_launch([one, launch("k@1")], "k", "n=64", "r") is one
    with pytest.raises(UsageError, match="the run r holds 2 launches of k at n=64"):
        only_launch([one, launch("k", number=1)], "k", "n=64", "r")
    with pytest.raises(UsageError, match="the run r holds no launch of k@2 at n=64"):
        only_launch([one], "k@2", "n=64", "r")
