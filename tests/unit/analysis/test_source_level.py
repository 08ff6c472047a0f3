"""Instructions and lines whose stalls moved: shares of A's time, aligned by opcode and by text."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from perfkit.analysis.source_level import compare_source
from perfkit.analysis.source_reader import Instruction, read_instructions
from perfkit.model import LaunchId

# k6, k6b and k8 at n=1024 on an H200, profiled with --source.
REPORT = Path(__file__).parents[2] / "data" / "source" / "k6-k6b-k8.ncu-repz"
K6, K6B, K8 = (LaunchId(str(REPORT), 0, i) for i in range(3))


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


def test_instructions_are_matched_by_opcode() -> None:
    found = {line.where: (line.before, line.after) for line in compare_source(A, B, 1.5)}
    # FFMA: 0.3 of A's time before, 0.15 after; BRA under another predicate: 0.4 and 0.15.
    assert found["+0x0030"] == pytest.approx((0.3, 0.15))
    assert found["+0x0040"] == pytest.approx((0.4, 0.15))


def test_lines_come_first_and_largest_first() -> None:
    found = compare_source(A, B, 1.5)
    assert [line.where for line in found] == [
        *("k.cu:20", "k.cu:10", "k.cu:11", "k.cu:12"),
        *("+0x0020", "+0x0010", "+0x0030", "+0x0040"),
    ]
    assert [line.is_instruction for line in found] == [False] * 4 + [True] * 4
    few = compare_source(A, B, 1.5, most=1)
    assert [line.where for line in few] == ["k.cu:20", "k.cu:12", "+0x0020", "+0x0040"]


def test_lines_that_moved_in_the_file_are_the_same_by_their_text() -> None:
    def at(line: int, source: str, file: str = "k.cu", **samples: float) -> Instruction:
        return Instruction(16 * line, "FFMA R1, R1, R3, R4", file, line, samples, source)

    before = (at(1, "load", wait=50), at(2, "use", barrier=50))
    after = (at(1, "new", wait=40), at(2, "load", wait=30), at(3, "use", barrier=30))
    found = {
        line.where: (line.before, line.after) for line in compare_source(before, after, 1.0) if line.text
    }
    lines = {where: shares for where, shares in found.items() if where.startswith("k.cu")}
    assert lines["k.cu:1"] == pytest.approx((0.0, 0.4))
    assert lines["k.cu:2"] == pytest.approx((0.5, 0.3))
    assert lines["k.cu:3"] == pytest.approx((0.5, 0.3))
    gone = compare_source(after, before, 1.0)
    assert ("A: k.cu:1", "new", "wait") in [(line.where, line.text, line.top_stall) for line in gone]


def test_a_report_with_source_tells_lines_text_and_targets() -> None:
    found = read_instructions(K8)
    assert found[0].offset == 0
    assert {one.file for one in found if one.line} == {"k8_double_buffered.cu"}
    (back,) = [one for one in found if one.offset == 0x29C0]
    assert back.sass == "@!P0 BRA +0x0600"
    assert (back.line, back.source) == (54, "for (int k0 = DEPTH; k0 < n; k0 += DEPTH) {")
    assert max(back.samples, key=back.samples.__getitem__) == "barrier"


def test_double_buffering_moves_the_wait_for_global_loads_away() -> None:
    found = compare_source(read_instructions(K6B), read_instructions(K8), math.exp(-0.408))
    lines = [line for line in found if not line.is_instruction]
    # The FMAs stand in a function of their own in k8, further up: the same line all the same.
    assert not any(line.where == "A: k6_vectorized.cu:54" for line in lines)
    stores = next(line for line in lines if line.where == "A: k6_vectorized.cu:33")
    assert (stores.text, stores.top_stall, stores.after) == (
        "As[a_col + 0][a_row] = a4.x;",
        "long_scoreboard",
        0.0,
    )
    assert stores.before == pytest.approx(0.229, abs=0.001)
    assert stores is lines[-1]


def test_one_source_built_twice_is_compared_line_by_line() -> None:
    found = compare_source(read_instructions(K6), read_instructions(K6B), 1.0)
    lines = [line for line in found if not line.is_instruction]
    assert all(line.where.startswith("k6_vectorized.cu:") for line in lines)
    assert all(abs(line.after - line.before) < 0.02 for line in lines)


def test_kernels_of_ten_thousand_instructions_take_seconds() -> None:
    one = read_instructions(K6) * 5
    assert len(one) > 9000
    assert compare_source(one, one, 1.0) == ()


def test_without_samples_or_growth_there_is_silence() -> None:
    assert compare_source((), B, 1.0) == ()
    assert compare_source(A, (), 1.0) == ()
    assert compare_source(A, A, 1.0) == ()


def test_without_line_information_only_instructions_are_named() -> None:
    plain = tuple(Instruction(one.offset, one.sass, "", 0, one.samples) for one in B)
    assert all(line.is_instruction for line in compare_source(A, plain, 1.5))
