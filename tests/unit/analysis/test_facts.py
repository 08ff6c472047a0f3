"""The plain numbers of a launch: warps and schedulers by hand, and where they come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from perfkit.analysis.facts import facts_of
from perfkit.model import Counter, Evaluated
from tests.unit.analysis.launches import launch

ELAPSED = ("smsp__cycles_elapsed.avg", "smsp__cycles_elapsed.sum")


def with_counters(
    one: Evaluated,
    more: Mapping[str, float],
    without: tuple[str, ...] = (),
    chip: tuple[int, int] = (8, 9),
) -> Evaluated:
    held = {name: counter for name, counter in one.launch.counters.items() if name not in without}
    held |= {name: Counter(name, value, "") for name, value in more.items()}
    changed = dataclasses.replace(one.launch, counters=held, compute_capability=chip)
    return dataclasses.replace(one, launch=changed)


@pytest.mark.parametrize(
    ("blocks", "block_size", "warps"),
    [
        (2, 256, 4.0),  # 2 blocks x 8 warps / 4 schedulers
        (1, 32, 0.25),
        (3, 80, 2.25),  # 80 threads occupy 3 warps: the third is half empty and takes its place all the same
        (5, 33, 2.5),
        (16, 1, 4.0),
    ],
)
def test_theoretical_warps_per_scheduler(blocks: float, block_size: float, warps: float) -> None:
    assert facts_of(launch(blocks=blocks, block_size=block_size)).theoretical_warps == warps


def test_without_the_occupancy_limits_there_are_no_theoretical_warps() -> None:
    for one in (launch(blocks=0), launch(block_size=0)):
        found = facts_of(one).theoretical_warps
        assert found != found


@pytest.mark.parametrize("name", ["launch__sm_count", "device__attribute_multiprocessor_count"])
def test_schedulers_of_the_gpu_from_its_sms(name: str) -> None:
    found = facts_of(with_counters(launch(), {name: 132}, without=ELAPSED))
    assert found.smsps == 528
    # Cycles of a scheduler from time and clock: 1 ms at 1.5 GHz.
    assert found.cycles == pytest.approx(1.5e6)


def test_schedulers_of_the_gpu_by_their_cycles_come_first() -> None:
    """A launch on part of a GPU (MIG, green contexts) runs on fewer than the device has."""
    assert facts_of(with_counters(launch(smsps=8), {"launch__sm_count": 132})).smsps == 8


def test_the_sms_of_the_launch_come_before_those_of_the_device() -> None:
    both = {"launch__sm_count": 66, "device__attribute_multiprocessor_count": 132}
    assert facts_of(with_counters(launch(), both, without=ELAPSED)).smsps == 264


def test_the_mean_cycles_of_a_scheduler_from_their_sum() -> None:
    one = with_counters(
        launch(smsps=8), {"launch__sm_count": 2, "smsp__cycles_elapsed.sum": 8e6}, without=ELAPSED[:1]
    )
    assert facts_of(one).cycles == 1e6


@pytest.mark.parametrize(
    ("chip", "schedulers"), [((6, 0), 2), ((6, 1), 4), ((7, 0), 4), ((9, 0), 4), ((12, 0), 4), ((99, 0), 4)]
)
def test_schedulers_an_sm_are_those_of_the_chip(chip: tuple[int, int], schedulers: int) -> None:
    one = with_counters(launch(blocks=3, block_size=80), {"launch__sm_count": 10}, ELAPSED, chip)
    found = facts_of(one)
    assert found.smsps == 10 * schedulers
    assert found.theoretical_warps == 9 / schedulers


def test_schedulers_an_sm_as_the_report_says() -> None:
    told = {"launch__sm_count": 10, "device__attribute_num_schedulers_per_multiprocessor": 2}
    found = facts_of(with_counters(launch(blocks=3, block_size=80), told, ELAPSED))
    assert (found.smsps, found.theoretical_warps) == (20, 4.5)
