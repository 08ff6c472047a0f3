"""The queueing network against results that are known in closed form."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.interventions import intervention, pairs
from perfkit.analysis.predict import (
    Residency,
    calibrate,
    compute_rates,
    grid_time,
    issue_rate,
    predict,
    residency,
)
from perfkit.errors import UsageError
from tests.unit.analysis.launches import launch

BASE = Residency(
    issue_rate=0.5,
    blocks=2,
    warps_per_block=8,
    grid=1000,
    sms=10,
    issue_service=1.0,
    exposed=0.0,
    latency=4.0,
    simple_readiness=0.2,
)


def repairmen(customers: int, think: float, service: float) -> float:
    """Throughput of the machine repairman model, M/M/1//N: closed form of its state probabilities."""
    ratio = service / think
    weights = [
        math.factorial(customers) / math.factorial(customers - k) * ratio**k for k in range(customers + 1)
    ]
    return (1 - weights[0] / sum(weights)) / service


@pytest.mark.parametrize("customers", [1, 2, 8, 32])
@pytest.mark.parametrize("demand", [0.1, 0.5, 3.0])
def test_with_one_queue_the_network_is_the_machine_repairman(customers: int, demand: float) -> None:
    # The issue slots serve in no time, so warps queue at the shared pipe alone.
    model = dataclasses.replace(BASE, issue_service=0.0)
    assert compute_rates(model, customers, demand)[-1] == pytest.approx(
        repairmen(customers, 4.0, demand), rel=1e-12
    )


@given(st.integers(1, 64), st.floats(0.0, 5.0), st.floats(0.1, 50.0), st.floats(1.0, 2.0))
def test_throughput_stays_under_its_bounds(warps: int, demand: float, latency: float, service: float) -> None:
    model = dataclasses.replace(BASE, latency=latency, issue_service=service)
    rate = compute_rates(model, warps, demand)[-1]
    assert rate <= warps / (latency + service + demand) * (1 + 1e-9)
    assert rate <= 4 / service * (1 + 1e-9)
    assert demand == 0 or rate <= 1 / demand * (1 + 1e-9)


def test_one_block_with_an_exposed_phase_takes_both_in_turn() -> None:
    model = dataclasses.replace(BASE, exposed=3.0)
    alone = compute_rates(model, 8, 0.5)[-1]
    # One block: 8 warps issue one instruction each in 8 / alone cycles, then wait 3.
    assert issue_rate(model, 1, 0.5) == pytest.approx(8 / (3.0 + 8 / alone) / 4)


def test_two_blocks_hide_each_other_but_not_wholly() -> None:
    model = dataclasses.replace(BASE, exposed=6.0)
    one, two = issue_rate(model, 1, 0.5), issue_rate(model, 2, 0.5)
    assert one < two < 2 * one


@given(st.floats(0.02, 0.9), st.floats(0.1, 30.0), st.floats(0.0, 20.0), st.integers(1, 8))
def test_the_calibrated_model_meets_the_measurement(
    rate: float, latency: float, exposed: float, blocks: int
) -> None:
    model = dataclasses.replace(BASE, issue_rate=rate, latency=latency, exposed=exposed, blocks=blocks)
    demand, correction = calibrate(model)
    assert correction * issue_rate(model, model.resident, demand) == pytest.approx(rate, rel=1e-6)
    assert predict(model, model.blocks).slowdown == pytest.approx(1.0)


@given(st.floats(0.02, 0.9), st.floats(0.1, 30.0), st.floats(0.0, 20.0), st.integers(2, 8))
def test_fewer_blocks_never_help_in_the_model(
    rate: float, latency: float, exposed: float, blocks: int
) -> None:
    # A grid of full waves: a tail that no longer fits differently would be another effect.
    model = dataclasses.replace(
        BASE,
        issue_rate=rate,
        latency=latency,
        exposed=exposed,
        blocks=blocks,
        grid=10 * math.lcm(*range(1, 9)),
    )
    slowdowns = [predict(model, held).slowdown for held in range(blocks, 0, -1)]
    assert all(more > less - 1e-9 for less, more in itertools.pairwise(slowdowns))
    assert slowdowns[-1] <= blocks * (1 + 1e-6)


def test_a_saturated_pipe_does_not_miss_the_warps() -> None:
    # 64 warps in front of a pipe that takes 6 cycles an instruction: half of them keep it as busy.
    model = dataclasses.replace(
        BASE, issue_rate=1 / 24, warps_per_block=32, latency=20.0, simple_readiness=1 / 380
    )
    found = predict(model, 1)
    assert found.demand == pytest.approx(6.0, rel=1e-3)
    assert found.slowdown == pytest.approx(1.0, abs=0.01)
    assert found.simple_slowdown > 1.9


def test_a_grid_that_does_not_fill_the_sms_does_not_notice() -> None:
    model = dataclasses.replace(BASE, grid=10)
    assert model.resident == 1
    assert predict(model, 1).slowdown == 1.0


@pytest.mark.parametrize(
    ("grid", "blocks", "time"),
    [
        (20, 2, 2.0),  # one wave of two blocks on each of 10 SMs
        (10, 2, 1.0),  # one each
        (21, 2, 3.0),  # and one block left
        (40, 1, 4.0),
    ],
)
def test_the_grid_is_dealt_out_in_waves(grid: int, blocks: int, time: float) -> None:
    assert grid_time(dataclasses.replace(BASE, grid=grid), blocks, lambda _: 1.0) == time


def test_inputs_come_from_the_stalls() -> None:
    found = residency(
        launch(
            warps=4.0,
            grid=64,
            smsps=8,
            not_selected=1.0,
            stalls={
                "barrier": 0.5,
                "long_scoreboard": 2.0,
                "dispatch_stall": 0.4,
                "wait": 0.3,
                "mio_throttle": 7.0,
            },
        )
    )
    assert (found.warps_per_block, found.sms, found.blocks, found.grid) == (8, 2, 2, 64)
    assert found.issue_service == pytest.approx(1.2)
    assert found.exposed == pytest.approx(2.5)
    assert found.latency == pytest.approx(0.3)
    # Without barriers nobody waits together.
    alone = residency(launch(stalls={"long_scoreboard": 2.0, "wait": 0.3}))
    assert alone.exposed == 0.0
    assert alone.latency == pytest.approx(2.3)


def test_a_report_without_stalls_gets_no_prediction() -> None:
    with pytest.raises(UsageError, match="no prediction without the stall reasons"):
        residency(launch(stalls={}))


def test_no_blocks_are_no_question() -> None:
    with pytest.raises(UsageError, match="cannot predict 0 blocks"):
        predict(BASE, 0)


def test_an_intervention_says_what_else_moved() -> None:
    base = launch("k", l2_hit_rate=0.9, l1_hit_rate=0.5, dram_read_bytes=100.0)
    held = launch(
        "k@1", duration=1.5e-3, blocks=1, warps=2.0, l2_hit_rate=0.7, l1_hit_rate=0.51, dram_read_bytes=190.0
    )
    other = launch("k@1", problem="n=128", blocks=1)
    assert [(a.launch.label, b.launch.label) for a, b in pairs([base, held, other])] == [("k", "k@1")]
    case = intervention(base, held)
    assert case.observed == pytest.approx(1.5)
    assert case.error == pytest.approx(case.predicted / 1.5 - 1)
    assert (case.blocks_before, case.blocks_after) == (2, 1)
    assert any(text.startswith("L2 hit rate 90% -> 70%") for text in case.moved)
    assert any(text.startswith("bytes read from DRAM +90%") for text in case.moved)
    assert not any("L1" in text for text in case.moved)
