"""The queueing model worked out by hand for one and two warps and for grids of a few waves."""

from __future__ import annotations

import dataclasses

import pytest

from perfkit.analysis.predict import Residency, calibrate, compute_rates, grid_time, issue_rate, predict

ONE_WARP = Residency(
    issue_rate=0.1, blocks=2, warps_per_block=1, grid=8, sms=2, issue_service=1.0, exposed=0.0, latency=3.0,
    simple_readiness=0.25,
)  # fmt: skip


def test_mean_value_analysis_of_two_warps() -> None:
    # One warp: 1 / (3 + 1). Of it a quarter each waits at the 4 slots: 0.0625, so 2 / (3 + 1.0625).
    assert compute_rates(ONE_WARP, 2, 0.0) == pytest.approx([0.0, 1 / 4, 2 / 4.0625])
    # With a pipe of demand 2: 1 / 6, of which 2 / 6 are at the pipe and 1 / 24 at a slot.
    assert compute_rates(ONE_WARP, 2, 2.0) == pytest.approx([0.0, 1 / 6, 2 / (3 + 25 / 24 + 2 * 4 / 3)])


def test_the_rate_is_that_of_one_of_four_schedulers() -> None:
    assert issue_rate(ONE_WARP, 2, 0.0) == pytest.approx(2 / 4.0625 / 4)


def test_blocks_between_exposed_and_compute_phases() -> None:
    model = dataclasses.replace(ONE_WARP, exposed=4.0)
    # Weights 1, 2/4 / (1/4) = 2, 2 x 1/4 / (2 / 4.0625) = 1.015625; each times its rate over their sum.
    weights, rates = (1.0, 2.0, 1.015625), (0.0, 0.25, 2 / 4.0625)
    through = sum(w * r for w, r in zip(weights, rates, strict=True)) / sum(weights)
    assert issue_rate(model, 2, 0.0) == pytest.approx(through / 4)


@pytest.mark.parametrize(
    ("grid", "blocks", "time"),
    [
        (4, 2, 2 / 20),  # one wave of 2 SMs x 2 blocks
        (8, 2, 4 / 20),
        (9, 2, 4 / 20 + 1 / 10),  # and one block alone on an SM
        (11, 2, 4 / 20 + 2 / 20),  # three more: 2 on one of the SMs
        (8, 1, 4 / 10),
        (1, 2, 1 / 10),
    ],
)
def test_a_grid_is_dealt_out_in_waves(grid: int, blocks: int, time: float) -> None:
    model = dataclasses.replace(ONE_WARP, grid=grid)
    assert grid_time(model, blocks, lambda resident: 10.0 * resident) == pytest.approx(time)


@pytest.mark.parametrize(("grid", "resident"), [(1, 1), (2, 1), (3, 2), (8, 2)])
def test_a_small_grid_does_not_fill_an_sm(grid: int, resident: int) -> None:
    assert dataclasses.replace(ONE_WARP, grid=grid).resident == resident


def test_a_launch_faster_than_the_model_allows_is_corrected() -> None:
    fastest = issue_rate(ONE_WARP, 2, 0.0)
    assert calibrate(dataclasses.replace(ONE_WARP, issue_rate=2 * fastest)) == pytest.approx((0.0, 2.0))


def test_the_simple_model_counts_the_warps_of_all_resident_blocks() -> None:
    model = dataclasses.replace(ONE_WARP, warps_per_block=8)
    # 2 waves at 2 blocks (4 warps a scheduler), 4 at 1 (2 warps): 1 - 0.75^4 against 1 - 0.75^2.
    assert predict(model, 1).simple_slowdown == pytest.approx((1 - 0.75**4) / (1 - 0.75**2))
