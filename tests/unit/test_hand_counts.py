"""docs/hand-counts.md: its generator says what is wrong, and its instruction counts fit the listings.

The kernels: tests/data/field_kernels. What the counters gave: tests/unit/test_hand_counts_page.py.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perfkit.errors import CannotError
from perfkit.kernels.plan import plan_sides
from perfkit.kernels.registry import load_registry
from perfkit.kernels.sizes import evaluate
from perfkit.model import Counter, Evaluated, KernelSpec, Launch, LaunchId, MetricValue, Status
from perfkit.profiler.build import build, build_many
from perfkit.profiler.toolchain import Compiler, find_compiler

ROOT = Path(__file__).parents[2]
FIELD = ROOT / "tests" / "data" / "field_kernels"
N = 1024


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hand_counts", ROOT / "docs" / "generate_hand_counts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hand_counts"] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def registry() -> Mapping[str, KernelSpec]:
    everything = load_registry(FIELD / "perfkit.toml")
    return {key: spec for key, spec in everything.items() if Path(spec.source).parent == FIELD}


@pytest.fixture(scope="module")
def nvcc() -> Compiler:
    try:
        return find_compiler("nvcc")
    except CannotError as error:
        pytest.skip(error.message)


def launch(label: str = "copy", read: float = 4 * N, **metrics: MetricValue) -> Evaluated:
    opcodes = Counter(
        "sass__inst_executed_per_opcode", 99, "inst", instances=(("LDG", N / 32), ("LDGSTS", 7), ("REDG", 3))
    )
    made = Launch(
        LaunchId("r", 0, 0),
        label,
        label,
        "GPU A",
        (9, 0),
        "2025.3",
        (1, 1, 1),
        (1, 1, 1),
        collected=True,
        key=label,
        problem=f"n={N}",
        counters={opcodes.name: opcodes, "l1tex__x.sum": Counter("l1tex__x.sum", 5, "sector")},
    )
    return Evaluated(made, {"l2_read_bytes": MetricValue("l2_read_bytes", read, "byte"), **metrics})


def counts(generator: ModuleType, tmp_path: Path, text: str) -> Any:
    file = tmp_path / "hand_counts.toml"
    file.write_text(text, encoding="utf-8")
    return generator.read_counts(file)


COPY = '[copy]\nwhy = "because"\n[copy.counts]\nl2_read_bytes = "4 * n"\nLDG = "n / 32"\n'
EXPLAINED = (
    COPY + '[copy.differences]\nl2_read_bytes = "once_more"\n[differences]\nonce_more = "It is read again."\n'
)


def test_a_page_of_what_agrees(generator: ModuleType, tmp_path: Path) -> None:
    made = generator.page(counts(generator, tmp_path, COPY), {"copy": launch(read=4 * N * 1.004)})
    assert "| copy | `4 * n` | 4,096 | 4,112 | +0.40 |" in made
    assert "| copy | `LDG` | `n / 32` | 32 | 32 | 0 |" in made
    assert "Of 2 counts 1 are met exactly, 1 more within 1 %; 0 differ by more" in made
    assert "| copy | n=1024 | because |" in made


@pytest.mark.parametrize("read", [4 * N * 1.011, 4 * N * 0.989, 0.0])
def test_an_unexplained_difference_over_a_percent(generator: ModuleType, tmp_path: Path, read: float) -> None:
    with pytest.raises(
        generator.HandCountError, match=r"copy: l2_read_bytes: 4,096 by hand .* no explanation"
    ):
        generator.page(counts(generator, tmp_path, COPY), {"copy": launch(read=read)})


def test_something_where_nothing_was_expected(generator: ModuleType, tmp_path: Path) -> None:
    text = COPY.replace("4 * n", "0")
    with pytest.raises(generator.HandCountError, match="no explanation"):
        generator.page(counts(generator, tmp_path, text), {"copy": launch()})
    assert "| 0 | 0 | 0 |" in generator.page(counts(generator, tmp_path, text), {"copy": launch(read=0)})


def test_an_explanation_is_a_note(generator: ModuleType, tmp_path: Path) -> None:
    made = generator.page(counts(generator, tmp_path, EXPLAINED), {"copy": launch(read=8 * N)})
    assert "| copy | `4 * n` | 4,096 | 8,192 | +100.00 [1] |" in made
    assert "- [1] It is read again." in made


def test_an_explanation_of_nothing(generator: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(generator.HandCountError, match="there is nothing to explain"):
        generator.page(counts(generator, tmp_path, EXPLAINED), {"copy": launch()})


def test_an_explanation_that_is_a_number_must_be_right(generator: ModuleType, tmp_path: Path) -> None:
    text = COPY + '[copy.differences]\nl2_read_bytes = { text = "Twice.", value = "8 * n" }\n'
    made = generator.page(counts(generator, tmp_path, text), {"copy": launch(read=8 * N)})
    assert "- [1] Twice. copy: `8 * n` = 8,192, 0 % from the counter." in made
    with pytest.raises(generator.HandCountError, match="the explanation gives 8,192"):
        generator.page(counts(generator, tmp_path, text), {"copy": launch(read=9 * N)})


def test_what_is_missing_is_named(generator: ModuleType, tmp_path: Path) -> None:
    wanted = counts(generator, tmp_path, COPY)
    missing = MetricValue("l2_read_bytes", None, "byte", Status.NOT_COLLECTED, "not there")
    with pytest.raises(generator.HandCountError, match="copy: l2_read_bytes: not_collected: not there"):
        generator.page(wanted, {"copy": launch(l2_read_bytes=missing)})
    with pytest.raises(generator.HandCountError, match="copy: was counted, but not run"):
        generator.page(wanted, {})
    with pytest.raises(generator.HandCountError, match="fill: was run, but nobody counted it"):
        generator.page(wanted, {"copy": launch(), "fill": launch("fill")})


def test_what_perfkit_calls_invalid_is_shown_with_its_reason(generator: ModuleType, tmp_path: Path) -> None:
    doubted = MetricValue("l2_read_bytes", 4.0 * N, "byte", Status.INVALID, "two readings differ")
    made = generator.page(counts(generator, tmp_path, COPY), {"copy": launch(l2_read_bytes=doubted)})
    assert "as have the 1 that perfkit itself calls invalid" in made
    assert "| copy | `4 * n` | 4,096 | 4,096 | 0 [1] |" in made
    assert "- [1] perfkit calls it invalid. copy: two readings differ." in made


def test_an_explanation_of_no_count(generator: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(generator.HandCountError, match="copy: STG: neither"):
        counts(generator, tmp_path, COPY + '[copy.differences]\nSTG = "why"\n')


def test_an_opcode_is_not_the_start_of_another(generator: ModuleType) -> None:
    assert generator.value_of(launch(), "LDG") == (N / 32, "")
    assert generator.value_of(launch(), "RED*") == (3, "")
    assert generator.value_of(launch(), "STG") == (0, "")
    assert generator.value_of(launch(), "l1tex__x.sum") == (5, "")
    with pytest.raises(generator.HandCountError, match=r"does not hold sass__.*_with_modifier_all"):
        generator.value_of(launch(), "MUFU.EX2")


def test_every_kernel_has_its_counts(generator: ModuleType, registry: Mapping[str, KernelSpec]) -> None:
    wanted = generator.read_counts()
    assert generator.registered() == list(registry)
    assert [kernel for kernel, expected in wanted.items() if not expected.program] == list(registry)
    assert len(registry) >= 20
    for kernel, expected in wanted.items():
        size = expected.size or registry[kernel].size
        values = {name: evaluate(formula, size) for name, formula in expected.formulas.items()}
        # Bytes one way or the other, and instructions; whole numbers, but for ratios and expected values.
        assert {"l2_read_bytes", "l2_write_bytes", "dram_read_bytes"} & values.keys(), kernel
        assert any(name[0].isupper() for name in values), kernel
        assert all(float(value).is_integer() for name, value in values.items() if name[0].isupper()), kernel
        assert all(value >= 0 for value in values.values()), kernel


def test_every_kernel_is_verified(registry: Mapping[str, KernelSpec]) -> None:
    assert [key for key, spec in registry.items() if not spec.reference] == []


def test_one_function_two_sets_of_flags(
    nvcc: Compiler, registry: Mapping[str, KernelSpec], tmp_path: Path
) -> None:
    plain, tight = (
        build(registry[key], "sm_90", compiler=nvcc, cache=tmp_path) for key in ("spill", "spill_r32")
    )
    assert plain.symbol == tight.symbol
    assert (plain.source_hash, plain.arch, plain.compiler) == (tight.source_hash, tight.arch, tight.compiler)
    assert (plain.spill_load_bytes, plain.registers > 64) == (0, True)
    assert (tight.spill_load_bytes > 0, tight.registers) == (True, 32)
    # What the hand counts rest on.
    assert plain.loop is not None
    assert tight.loop is not None
    assert (plain.loop.total, plain.loop.ffma) == (69, 64)
    assert (tight.loop.total, tight.loop.ffma) == (178, 64)
    assert (tight.loop.opcodes["LDL"], tight.loop.opcodes["STL"]) == (55, 54)
    assert (listing(plain.opcodes), listing(tight.opcodes)) == (211, 457)
    assert (tight.opcodes["LDL"], tight.opcodes["STL"]) == (55 + 68, 54 + 39 + 30)


def listing(opcodes: Mapping[str, int]) -> int:
    """Instructions up to the last EXIT: without the branch to itself behind it, and without NOPs."""
    return sum(opcodes.values()) - opcodes.get("NOP", 0) - 1


def test_straight_kernels_are_counted_as_the_compiler_lists_them(
    nvcc: Compiler, generator: ModuleType, registry: Mapping[str, KernelSpec], tmp_path: Path
) -> None:
    wanted = generator.read_counts()
    jobs = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
    branching = (
        "bulk",
        "reduce_shuffle",
        "reduce_tree",
        "scan",
        "spill",
        "divergent",
        "local",
        "wmma",
        "softmax",
    )
    specs = [spec for key, spec in registry.items() if not any(word in key for word in branching)]
    checked = []
    for built in build_many(specs, "sm_90", compiler=nvcc, cache=tmp_path, jobs=jobs):
        if built.opcodes["EXIT"] > 1 or built.opcodes["BRA"] > 1:
            continue
        checked.append(built.key)
        spec, formulas = registry[built.key], wanted[built.key].formulas
        grid, block = (plan_sides(spec, name, getattr(spec, name), spec.size) for name in ("grid", "block"))
        warps = grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2] // 32
        for name, formula in formulas.items():
            if name == "instructions":
                assert evaluate(formula, spec.size) == listing(built.opcodes) * warps, built.key
            elif name[0].isupper() and "*" not in name and "." not in name:
                assert evaluate(formula, spec.size) == built.opcodes.get(name, 0) * warps, (built.key, name)
    assert len(checked) >= 18
