"""Opcode classes, and the hardware counters that stand in for opcodes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from perfkit.analysis.evidence import Pair
from perfkit.analysis.facts import facts_of, facts_of_pair
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.opcode_classes import (
    CLASSES,
    OPCODES,
    OTHER,
    TITLES,
    by_class,
    fmas,
    fp32_flops,
    ideal_sectors,
    opcode_class,
)
from perfkit.model import Counter, Evaluated, MetricValue
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


DOCUMENTED = Path(__file__).parents[2] / "data" / "documented_opcodes.txt"


def documented() -> list[tuple[str, str]]:
    lines = DOCUMENTED.read_text(encoding="utf-8").splitlines()
    return [(line.split()[0], line.split()[1]) for line in lines if not line.startswith("#")]


def test_every_documented_opcode_has_the_class_chosen_for_it() -> None:
    listed = documented()
    assert len(listed) > 250
    assert [(opcode, name) for opcode, name in listed if opcode_class(opcode) != name] == []
    assert OTHER not in {name for _, name in listed}
    # By the table itself, not by a rule for what it does not know.
    known = {opcode for opcodes in OPCODES.values() for opcode in opcodes}
    assert {opcode.split(".")[0] for opcode, _ in listed} <= known


def test_an_opcode_is_in_one_class() -> None:
    every = [opcode for opcodes in OPCODES.values() for opcode in opcodes]
    assert len(every) == len(set(every))
    assert set(CLASSES) <= set(TITLES)


def test_the_mix_metrics_are_the_classes() -> None:
    """Every class is in one mix, so that the mix and the table cannot disagree."""
    metrics = load_metric_sets().metrics
    texts = [one.alternatives[0].expression.text for name, one in metrics.items() if name.startswith("mix_")]
    assert sorted(re.findall(r"class:(\w+)", " ".join(texts))) == sorted(CLASSES)


@pytest.mark.parametrize(
    ("opcode", "fma", "flops", "sectors"),
    [
        ("FFMA", 1, 2, 4),
        ("FFMA2", 2, 4, 4),
        ("FADD2", 0, 2, 4),
        ("FMUL.FTZ", 0, 1, 4),
        ("MUFU", 0, 0, 4),
        ("LDG.E", 0, 0, 4),
        ("LDG.E.LTC128B.128.CONSTANT", 0, 0, 16),
        ("LDG.E.ENL2.256", 0, 0, 32),
        ("LDGSTS.E.BYPASS.128", 0, 0, 16),
        ("LDGSTS.E.64", 0, 0, 8),
        ("STG.E.U8", 0, 0, 1),
        ("STG.E.U16", 0, 0, 2),
    ],
)
def test_figures_of_opcodes(opcode: str, fma: float, flops: float, sectors: float) -> None:
    assert (fmas(opcode), fp32_flops(opcode), ideal_sectors(opcode)) == (fma, flops, sectors)


def test_a_set_of_ones_own_reads_classes_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'title = "T"\ndoc = "D"\n[metrics.flops_per_load]\ntitle = "T"\nunit = ""\ndoc = "D."\n'
        'formula = "{sass__inst_executed_per_opcode}[class:fma|FADD*@fp32_flops]'
        ' / {sass__inst_executed_per_opcode}[class:async_load|class:global_load]"\n'
    )
    counts = (("FFMA2", 10.0), ("FADD", 5.0), ("LDGSTS", 2.0), ("LDG", 1.0), ("IMAD", 99.0))
    held = Counter("sass__inst_executed_per_opcode", 117.0, "inst", instances=counts)
    item = dataclasses.replace(launch().launch, counters={held.name: held})
    found = load_metric_sets([path]).evaluate(item, ["own"]).metrics["flops_per_load"]
    assert found.value == (4 * 10 + 5) / 3


def test_copies_count_as_global_accesses() -> None:
    """cp.async and TMA loads are global loads for the explanation, stores by TMA global accesses."""

    def with_opcodes(counts: dict[str, float]) -> Evaluated:
        total = sum(counts.values())
        name = "sass__inst_executed_per_opcode"
        held = {name: Counter(name, total, "inst", instances=tuple(counts.items()))}
        one = launch()
        metrics = {**one.metrics, "instructions": MetricValue("instructions", total, "instruction")}
        return Evaluated(dataclasses.replace(one.launch, counters=held), metrics)

    plain = with_opcodes({"FFMA": 100.0, "LDG": 10.0, "STG": 5.0})
    copies = with_opcodes({"FFMA": 100.0, "LDGSTS": 8.0, "UTMALDG": 2.0, "UTMASTG": 5.0})
    pair = Pair(plain, copies, *facts_of_pair(plain, copies))
    (loads,) = [one for one in pair.for_stall("long_scoreboard") if one.name == "global_loads_per_fma"]
    assert (loads.before, loads.after) == (0.1, 0.1)
    (both,) = [one for one in pair.for_stall("lg_throttle") if one.name == "global_per_fma"]
    assert (both.before, both.after) == (0.15, 0.15)


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
