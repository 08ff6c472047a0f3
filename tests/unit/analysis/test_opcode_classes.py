"""Opcode classes, and the hardware counters that stand in for opcodes."""

from __future__ import annotations

import dataclasses

import pytest

from perfkit.analysis.facts import facts_of, facts_of_pair
from perfkit.analysis.opcode_classes import TITLES, by_class, opcode_class
from perfkit.model import Counter, Evaluated
from tests.unit.analysis.launches import launch


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        ("FFMA", "fma"),
        ("FFMA2", "fma"),
        ("FADD.FTZ", "fp32_other"),
        ("LDG.E.128", "global_load"),
        ("LDS", "shared_load"),
        ("STS", "shared_store"),
        ("LDGSTS", "async_load"),
        ("STL", "local"),
        ("BAR", "barrier"),
        ("HMMA", "tensor"),
        ("HGMMA", "tensor"),
        ("UTCHMMA", "tensor"),
        ("HFMA2", "half"),
        ("DFMA", "fp64"),
        ("IMAD", "integer"),
        ("UIADD3", "uniform"),
        ("ULDC", "constant"),
        ("SHFL", "warp"),
        ("BRA", "control"),
        ("NEWTHING", "other"),
    ],
)
def test_opcodes_fall_in_their_class(opcode: str, name: str) -> None:
    assert opcode_class(opcode) == name
    assert name in TITLES


def test_counts_add_up_by_class() -> None:
    assert by_class({"FFMA": 3.0, "LDS": 1.0, "LDSM": 2.0}) == {"fma": 3.0, "shared_load": 3.0}


def counted(one: Evaluated, **counters: float) -> Evaluated:
    """The same launch without opcodes and with these counters (dots written as two underscores at the
    end).
    """
    held = {name: c for name, c in one.launch.counters.items() if "opcode" not in name}
    held |= {f"{name}.sum": Counter(f"{name}.sum", value, "inst") for name, value in counters.items()}
    return Evaluated(dataclasses.replace(one.launch, counters=held), one.metrics)


def test_without_opcodes_the_counters_tell_the_classes() -> None:
    one = launch()
    total = one.number("instructions")
    facts = facts_of(
        counted(
            one,
            smsp__sass_thread_inst_executed_op_ffma_pred_on=32 * total / 2,
            smsp__inst_executed_op_shared_ld=total / 8,
            smsp__inst_executed_op_global_ld=total / 16,
        )
    )
    assert facts.classes["fma"] == pytest.approx(total / 2)
    assert facts.classes["shared_load"] == pytest.approx(total / 8)
    assert sum(facts.classes.values()) == pytest.approx(total)
    assert facts.per_fma("shared_load", "global_load") == pytest.approx(0.375)


def test_without_opcodes_and_counters_there_are_no_classes() -> None:
    assert facts_of(counted(launch())).classes == {}


def test_classes_of_a_pair_come_from_one_source() -> None:
    one = launch()
    total = one.number("instructions")
    other = counted(launch(), smsp__sass_thread_inst_executed_op_ffma_pred_on=32 * total * 0.6)
    both = Evaluated(
        dataclasses.replace(one.launch, counters={**other.launch.counters, **one.launch.counters}),
        one.metrics,
    )
    before, after = facts_of_pair(both, other)
    assert not before.by_opcode
    assert before.classes == after.classes
    assert before.classes["fma"] == pytest.approx(0.6 * total)
    before, after = facts_of_pair(both, both)
    assert before.by_opcode
    assert "shared_load" in before.classes
