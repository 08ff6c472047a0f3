"""What evidence is called must be what was counted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfkit.analysis import opcode_classes as opcodes
from perfkit.analysis.evidence import Pair
from perfkit.analysis.facts import Facts
from perfkit.model import Evaluated, Launch, LaunchId


def _pair(*, by_opcode: bool) -> Pair:
    nan = math.nan
    classes = {opcodes.FMA: 100.0, opcodes.GLOBAL_LOAD: 2.0}
    facts = Facts(
        duration=nan, clock=nan, cycles=nan, smsps=nan, instructions=nan, issued=nan, issue_rate=nan,
        active=nan, warps=nan, theoretical_warps=nan, classes=classes, by_opcode=by_opcode,
    )  # fmt: skip
    after = replace(facts, classes=classes | {opcodes.LOCAL: 50.0}) if by_opcode else facts
    launch = Launch(LaunchId("x", 0, 0), "k", "k()", "gpu", (9, 0), "", (1, 1, 1), (32, 1, 1), True)
    side = Evaluated(launch, {})
    return Pair(side, side, facts, after)


def test_local_accesses_are_named_only_where_they_were_counted() -> None:
    counted = _pair(by_opcode=True).for_stall("lg_throttle")[0]
    assert counted.title == "global/local instructions per FMA"
    assert counted.after == pytest.approx(0.52)
    uncounted = _pair(by_opcode=False).for_stall("lg_throttle")[0]
    assert uncounted.title == "global instructions per FMA, local not counted"
    assert uncounted.after == pytest.approx(0.02)
