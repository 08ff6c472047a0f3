"""Kernels of one call taken together: counts add, rates are those of the whole, the identity still holds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.explain import explain
from perfkit.analysis.facts import facts_of
from perfkit.analysis.together import together
from perfkit.model import Counter
from tests.unit.analysis.launches import launch

made_up = st.fixed_dictionaries(
    {
        "duration": st.floats(1e-5, 1.0),
        "clock": st.floats(5e8, 3e9),
        "issue_rate": st.floats(0.01, 1.0),
        "active": st.floats(0.1, 1.0),
        "warps": st.floats(0.1, 16.0),
    }
)


@given(st.lists(made_up, min_size=1, max_size=4))
def test_the_whole_follows_the_identity(parts: list[dict[str, Any]]) -> None:
    launches = [launch(**part) for part in parts]
    whole = facts_of(together(launches))
    each = [facts_of(one) for one in launches]
    assert whole.duration == pytest.approx(sum(one.duration for one in each))
    assert whole.instructions == pytest.approx(sum(one.instructions for one in each))
    assert whole.cycles / whole.clock == pytest.approx(whole.duration)
    slots = whole.instructions / (whole.issue_rate * whole.active * whole.smsps)
    assert slots == pytest.approx(whole.cycles, rel=1e-9)
    assert sum(whole.classes.values()) == pytest.approx(whole.instructions)


def test_twice_the_same_kernel_is_the_kernel_twice() -> None:
    one = launch()
    result = explain([one], [together([one, launch(number=1)])])
    top = {factor.name: factor.contribution for factor in result.factors}
    assert top["instructions"] == pytest.approx(result.log_ratio)
    assert sum(abs(value) for name, value in top.items() if name != "instructions") < 1e-9


def test_what_has_no_meaning_over_several_is_left_out() -> None:
    whole = together([launch(registers_per_thread=32.0), launch(registers_per_thread=64.0, number=1)])
    assert not {"registers_per_thread", "blocks_per_sm", "block_size"} & set(whole.metrics)


def test_every_class_that_a_counter_tells_adds_up() -> None:
    counts = {
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 3200.0,
        "smsp__sass_inst_executed_op_global_ld.sum": 20.0,
        "smsp__inst_executed_pipe_alu.sum": 70.0,
    }
    more = {name: Counter(name, value, "inst") for name, value in counts.items()}
    one = launch()
    counted = dataclasses.replace(
        one, launch=dataclasses.replace(one.launch, counters={**one.launch.counters, **more})
    )
    whole = facts_of(together([counted, counted]), opcodes_held=False).classes
    assert {name: whole[name] for name in ("fma", "global_load", "alu_pipe")} == {
        "fma": 200.0,
        "global_load": 40.0,
        "alu_pipe": 140.0,
    }
