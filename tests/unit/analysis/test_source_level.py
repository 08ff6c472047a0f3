"""Instructions and lines whose stalls grew: shares of A's time, aligned by opcode."""

from __future__ import annotations

import pytest

from perfkit.analysis.source_level import compare_source
from perfkit.analysis.source_reader import Instruction


def instruction(offset: int, sass: str, line: int = 0, **samples: float) -> Instruction:
    return Instruction(offset, sass, "k.cu" if line else "", line, samples)


A = (
    instruction(0x00, "LDG.E R1, [R2]", 10, long_scoreboard=0, selected=10),
    instruction(0x10, "FFMA R1, R1, R3, R4", 11, long_scoreboard=30, selected=10),
    instruction(0x20, "@P0 BRA 0x0", 12, wait=40, selected=10),
)
# The same with a shared store and a barrier added, half again as long.
B = (
    instruction(0x00, "LDG.E R5, [R2]", 10, selected=10),
    instruction(0x10, "STS [R1], R5", 10, mio_throttle=20, selected=10),
    instruction(0x20, "BAR.SYNC 0x0", 20, barrier=100, selected=10),
    instruction(0x30, "FFMA R9, R9, R3, R4", 11, long_scoreboard=20, selected=10),
    instruction(0x40, "@!P1 BRA 0x0", 12, wait=20, selected=0),
)


def test_what_grew_is_in_parts_of_the_time_of_a() -> None:
    found = {line.where: line for line in compare_source(A, B, 1.5)}
    # B was sampled 200 times over 1.5 of A's time: the barrier took half of the samples, 0.75 of A's time.
    assert found["k.cu:20"].after == pytest.approx(0.75)
    assert found["+0x0020"].after == pytest.approx(0.75)
    assert found["+0x0020"].before == 0.0
    assert found["+0x0020"].top_stall == "barrier"
    assert found["+0x0020"].text == "BAR.SYNC 0x0"
    # Line 10 stalls at the store only; selected is no stall.
    assert found["k.cu:10"].before == 0.0
    assert found["k.cu:10"].after == pytest.approx(0.15)


def test_instructions_are_matched_by_opcode_and_those_that_shrank_are_left_out() -> None:
    found = {line.where for line in compare_source(A, B, 1.5)}
    # FFMA: 0.3 of A's time before, 0.15 after; BRA under another predicate: 0.4 and 0.15.
    assert "+0x0030" not in found
    assert "+0x0040" not in found


def test_lines_come_first_and_largest_first() -> None:
    found = compare_source(A, B, 1.5)
    assert [line.where for line in found] == ["k.cu:20", "k.cu:10", "+0x0020", "+0x0010"]
    assert [line.where for line in compare_source(A, B, 1.5, most=1)] == ["k.cu:20", "+0x0020"]


def test_without_samples_or_growth_there_is_silence() -> None:
    assert compare_source((), B, 1.0) == ()
    assert compare_source(A, (), 1.0) == ()
    assert compare_source(A, A, 1.0) == ()


def test_without_line_information_only_instructions_are_named() -> None:
    plain = tuple(Instruction(one.offset, one.sass, "", 0, one.samples) for one in B)
    assert all(line.where.startswith("+") for line in compare_source(A, plain, 1.5))
