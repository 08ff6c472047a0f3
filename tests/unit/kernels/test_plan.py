"""From a registry entry to numbers, and through PLAN.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfkit.errors import UsageError
from perfkit.kernels.plan import ArgumentPlan, Plan, label_of, plan_kernel, read_plan, write_plan
from perfkit.kernels.registry import load_registry
from perfkit.model import Argument, KernelSpec


def test_the_ladder_at_1024() -> None:
    plan = plan_kernel(load_registry()["k6b"], None, {"n": 1024})
    assert (plan.grid, plan.block) == ((8, 8, 1), (256, 1, 1))
    assert plan.problem == "n=1024"
    assert plan.label == "k6b"
    assert plan.carveout == -1
    assert [(a.name, a.shape, a.direction, a.value) for a in plan.arguments] == [
        ("A", (1024, 1024), "in", 0),
        ("B", (1024, 1024), "in", 0),
        ("C", (1024, 1024), "out", 0),
        ("n", (), "in", 1024),
    ]


def test_held_kernels_ask_for_all_the_shared_memory() -> None:
    plan = plan_kernel(load_registry()["k6b"], None, {"n": 1024}, blocks_per_sm=1)
    assert (plan.label, plan.carveout) == ("k6b@1", 100)
    assert plan_kernel(load_registry()["k6b"], None, {"n": 1024}, blocks_per_sm=1, carveout=50).carveout == 50
    assert label_of("k6b", 2) == "k6b@2"


def test_library_calls_cannot_be_held() -> None:
    with pytest.raises(UsageError, match="library call cannot be held"):
        plan_kernel(load_registry()["cublas"], None, {"n": 1024}, blocks_per_sm=1)


@pytest.mark.parametrize(
    ("grid", "says"),
    [("n / 3", r"grid = n / 3 is .*, not a whole number"), ("n - 8", r"grid is \(0,\) at n=8")],
)
def test_grids_that_are_none(grid: str, says: str) -> None:
    spec = KernelSpec("k", "", "k.cu", "k", grid=(grid,), block=("32",), size={"n": 8})
    with pytest.raises(UsageError, match=says):
        plan_kernel(spec, None, {"n": 8})


def test_a_python_reference_is_found_from_its_own_file(tmp_path: Path) -> None:
    spec = KernelSpec("k", "", "k.cu", "k", reference="ref.py:saxpy", origin=str(tmp_path / "perfkit.toml"))
    assert plan_kernel(spec, None, {"n": 8}).reference == f"{tmp_path / 'ref.py'}:saxpy"


def test_round_trip(tmp_path: Path) -> None:
    spec = KernelSpec(
        "k", "", "k.cu", "k", grid=("n",), block=("32", "2"), size={"n": 8},
        arguments=(
            Argument("x", "float32", ("n", "2"), "inout", "arange"), Argument("a", "float32", value="n / 16"),
        ),
    )  # fmt: skip
    plan = Plan("r.json", (plan_kernel(spec, None, {"n": 8}),), 3)
    write_plan(plan, tmp_path / "PLAN.json")
    assert read_plan(tmp_path / "PLAN.json") == plan
    assert plan.kernels[0].arguments[1] == ArgumentPlan("a", "float32", value=0.5)


def test_a_plan_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "p").write_text('{"schema_version": 0}')
    with pytest.raises(UsageError, match="schema 0"):
        read_plan(tmp_path / "p")
