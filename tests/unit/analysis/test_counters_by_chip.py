"""What perfkit hands to ncu exists on the chip by ncu's own list; what it calls absent is not in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfkit.analysis.metrics import load_metric_sets
from perfkit.model import Launch, LaunchId, Status

LISTED = Path(__file__).parents[2] / "data" / "counters_by_chip.txt"
CHIPS = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
# ncu answers these from the launch or the SASS: they are in no chip's list.
NOT_HARDWARE = ("launch__", "device__", "sass__", "profiler__", "sm__maximum_warps")
SETS = load_metric_sets()


def listed(chip: str) -> set[str]:
    lines = (line.split() for line in LISTED.read_text(encoding="utf-8").splitlines() if line[0] != "#")
    return {name for name, *chips in lines if chip in [one.strip("()") for one in chips]}


def version(chip: str) -> tuple[int, int]:
    major, minor = chip.split(".")
    return int(major), int(minor)


@pytest.mark.parametrize("chip", CHIPS)
def test_what_is_collected_exists(chip: str) -> None:
    wanted = {
        name.split(".")[0] for name in SETS.counters(None, version(chip)) if not name.startswith(NOT_HARDWARE)
    }
    assert len(wanted) > 40
    assert wanted <= listed(chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_what_is_called_absent_is(chip: str) -> None:
    nothing = Launch(LaunchId("r", 0, 0), "k", "k", "GPU", version(chip), "", None, None, True)
    for name, value in SETS.evaluate(nothing).metrics.items():
        ways = [one.expression for one in SETS.metrics[name].alternatives]
        if any(way.metrics or any(one.startswith(NOT_HARDWARE) for one in way.counters) for way in ways):
            continue
        there = any(all(one.split(".")[0] in listed(chip) for one in way.counters) for way in ways)
        if ways:
            assert (value.status is Status.NOT_ON_CHIP) == (not there), name
