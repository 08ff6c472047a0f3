"""One function built with two sets of flags, recorded on an H200: both in one run, and each in its own.

The two builds have the same symbol, so what is read of one must not be laid over the other. How they are
built: tests/unit/test_hand_counts.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import perfkit
from perfkit import Profile
from perfkit.analysis.identity import refuse_several
from perfkit.analysis.opcode_classes import by_class
from perfkit.errors import UsageError
from perfkit.model import Comparison, Evaluated, Factor

RUNS = Path(__file__).parents[2] / "data" / "runs" / "field_pair"
KERNELS = ("spill", "spill_r32")
WARPS = 2**20 // 32
OPCODES = ("sass__inst_executed_per_opcode", "sass__inst_executed_per_opcode_with_modifier_all")


def loaded(*runs: str) -> Profile:
    profile = perfkit.load([RUNS / run for run in runs], every_counter=True)
    assert profile.problems == ()
    assert [one.label for one in profile.launches] == list(KERNELS)
    return profile


@pytest.fixture(scope="module")
def together() -> Profile:
    return loaded("pair")


@pytest.fixture(scope="module")
def apart() -> Profile:
    return loaded("plain", "r32")


def opcodes(one: Evaluated, metric: str) -> dict[str, float]:
    return {str(name): value for name, value in one.launch.counters[metric].instances}


def test_it_is_one_function(together: Profile) -> None:
    plain, tight = together.launches
    assert plain.name == tight.name
    assert "spill" in plain.name
    assert plain.grid == tight.grid


@pytest.mark.parametrize("index", [0, 1], ids=KERNELS)
@pytest.mark.parametrize("metric", OPCODES)
def test_the_same_opcodes_in_one_run_as_in_two(
    together: Profile, apart: Profile, index: int, metric: str
) -> None:
    counted = opcodes(together[index], metric)
    assert counted == opcodes(apart[index], metric)
    assert by_class(counted) == by_class(opcodes(apart[index], metric))
    assert sum(counted.values()) == together[index].number("instructions")


@pytest.mark.parametrize("index", [0, 1], ids=KERNELS)
def test_the_same_fma_share(together: Profile, apart: Profile, index: int) -> None:
    share = together[index].number("fma_share")
    assert share == apart[index].number("fma_share")
    # 64 FMAs in each of 128 turns.
    assert share == 64 * 128 * WARPS / together[index].number("instructions")


def test_local_accesses_where_the_registers_do_not_do(together: Profile) -> None:
    plain, tight = (opcodes(one, OPCODES[0]) for one in together)
    assert plain.get("LDL", 0) == plain.get("STL", 0) == 0
    assert (tight["LDL"], tight["STL"]) == ((55 * 128 + 68) * WARPS, (54 * 128 + 39 + 30) * WARPS)


def test_nothing_is_invalid(together: Profile, apart: Profile) -> None:
    for one in (*together, *apart):
        assert one.contradictions == ()
        lanes = one.metrics["fma_lane_fraction"]
        assert lanes.status == "ok"
        assert lanes.number == pytest.approx(1.0, rel=1e-9)
        assert one.metrics["share_of_peak"].status == "ok"


def every(factors: tuple[Factor, ...]) -> Iterator[Factor]:
    for factor in factors:
        yield factor
        yield from every(factor.children)


def explained(profile: Profile) -> tuple[Comparison, dict[str, Factor]]:
    comparison = profile.explain(*KERNELS)
    return comparison, {factor.name: factor for factor in every(comparison.factors)}


def test_the_same_explanation(together: Profile, apart: Profile) -> None:
    (one, factors), (two, others) = explained(together), explained(apart)
    assert one.verdict.kind == two.verdict.kind == "slower"
    # Times are of different runs: a few percent apart. Counts of instructions are not.
    assert one.log_ratio == pytest.approx(two.log_ratio, abs=0.05)
    assert factors.keys() == others.keys()
    for name, factor in factors.items():
        assert factor.contribution == pytest.approx(others[name].contribution, abs=0.05), name
    instructions = factors["instructions"]
    assert instructions.contribution == pytest.approx(
        math.log(together[1].number("instructions") / together[0].number("instructions")), rel=1e-9
    )
    for mine, theirs in zip(every((instructions,)), every((others["instructions"],)), strict=True):
        assert (mine.name, mine.before, mine.after) == (theirs.name, theirs.before, theirs.after)
        assert mine.contribution == pytest.approx(theirs.contribution, rel=1e-9, abs=1e-12)


def test_the_name_of_both_means_the_kernel_that_is_called_so(together: Profile) -> None:
    comparison = together.explain(*KERNELS)
    assert (comparison.a.repeats, comparison.b.repeats) == (1, 1)
    one = together[0].launch
    with pytest.raises(UsageError, match="differ in kernel"):
        refuse_several(together.evaluated, one.kernel)


def test_local_accesses_are_the_story(together: Profile) -> None:
    _, factors = explained(together)
    instructions = factors["instructions"]
    largest = max(instructions.children, key=lambda factor: abs(factor.contribution))
    assert "local" in largest.name
    # Half-precision instructions move constants here; nothing of it is work.
    assert not any("half-precision work" in sentence for sentence in explained(together)[0].sentences)
