"""Kinds of workload, devices and grids in explain: what is refused, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfkit.analysis.compare import check_comparable
from perfkit.analysis.explain import explain, explain_alone
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.together import by_call
from perfkit.api import Profile
from perfkit.errors import NotComparableError, UsageError
from perfkit.model import Device, Evaluated, Process, WorkloadKind
from tests.unit.analysis.launches import launch

NOT_KERNELS = [kind for kind in WorkloadKind if kind is not WorkloadKind.KERNEL]


def made(number: int = 0, problem: str = "", **fields: Any) -> Evaluated:
    one = launch(number=number, problem=problem)
    return replace(one, launch=replace(one.launch, **fields))


@pytest.mark.parametrize("kind", NOT_KERNELS)
def test_what_is_not_a_kernel_is_not_explained(kind: WorkloadKind) -> None:
    word = kind.value.replace("_", " ")
    for sides in ([made(), made(1, kind=kind)], [made(0, kind=kind), made(1)], [made(kind=kind)] * 2):
        with pytest.raises(NotComparableError) as caught:
            explain([sides[0]], [sides[1]])
        assert f"is a {word}" in caught.value.message
        assert "sums over all kernels" in caught.value.message
        assert "one by one" in caught.value.remedy
    with pytest.raises(NotComparableError, match=f"is a {word}"):
        explain_alone([made(kind=kind)])


def warnings(a: Evaluated, b: Evaluated) -> str:
    return "\n".join(check_comparable(a, b)[0])


def test_two_cards_of_one_model_are_said() -> None:
    zero, one = made(device=Device(0)), made(1, device=Device(1))
    assert "A ran on device 0 and B on device 1, two cards of one model" in warnings(zero, one)
    assert "two cards" not in warnings(zero, made(1, device=Device(0)))
    assert "two cards" not in warnings(made(), made(1))
    ranks = [made(i, device=Device(0, f"0000:0{i}:00"), process=Process(7 + i, "node")) for i in (0, 1)]
    assert "A ran on device 0000:00:00 and B on device 0000:01:00" in warnings(*ranks)
    machines = [made(i, device=Device(0, "0000:06:00", f"GPU-{i}")) for i in (0, 1)]
    assert "A ran on device GPU-0 and B on device GPU-1" in warnings(*machines)


@pytest.mark.parametrize(
    ("grid", "block", "said"),
    [
        ((128, 1, 1), (256, 1, 1), "A grid 64x1x1 of blocks 256x1x1 (16,384 threads), B grid 128x1x1"),
        ((128, 1, 1), (256, 1, 1), "x2 threads in B"),
        ((128, 1, 1), (128, 1, 1), "as many threads, otherwise divided"),
        ((8, 8, 1), (256, 1, 1), "B grid 8x8x1"),
    ],
)
def test_one_function_at_two_grids_is_said(grid: Any, block: Any, said: str) -> None:
    assert said in warnings(made(), made(1, grid=grid, block=block))


def test_other_grids_are_no_doubt_where_the_problem_is_known_or_the_code_is_other() -> None:
    assert "two ways" not in warnings(made(problem="n=64"), made(1, "n=64", grid=(9, 1, 1)))
    assert "two ways" not in warnings(made(), made(1, name="another", grid=(9, 1, 1)))
    assert "two ways" not in warnings(made(), made(1, grid=None))


def test_a_label_that_means_launches_of_several_shapes_is_refused() -> None:
    """`profile.explain("k", ...)` took the median of two shapes for one kernel."""
    launches = (made(0), made(1, grid=(9, 1, 1)), made(2, name="b", kernel="b", key="b"))
    profile = Profile(launches, (), load_metric_sets(), ("duration",))
    with pytest.raises(UsageError, match=r"'k' means 2 kinds of launches .*they differ in grid"):
        profile.explain("k", "b")
    assert profile.explain(0, "b").a.label == "k"


def test_calls_on_two_devices_are_two_calls() -> None:
    keyed = [made(i, key="k", device=Device(i)) for i in (0, 1)]
    assert len(by_call(keyed)) == 2
    assert len(by_call([keyed[0], replace(keyed[1], launch=replace(keyed[1].launch, device=Device(0)))])) == 1
