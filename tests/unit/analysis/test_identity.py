"""What a launch is known by, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from perfkit.analysis.identity import devices, identities, names, refuse_several, same_device
from perfkit.errors import UsageError
from perfkit.model import Device, Evaluated, Launch, LaunchId, Process, WorkloadKind
from tests.unit.analysis.launches import launch


def made(number: int, label: str = "k", report: str = "r.ncu-rep", **fields: Any) -> Launch:
    one = replace(launch(label, problem="", number=number).launch, key=None, name=f"{label}(int)")
    return replace(one, id=LaunchId(report, 0, number), **fields)


ONE, TWO = Process(10, "node"), Process(11, "node")
APART: Mapping[str, tuple[list[Launch], list[str]]] = {
    "nothing to tell apart": ([made(0, "a"), made(1, "b")], ["a", "b"]),
    "problem": ([made(0, problem="n=1"), made(1, problem="n=2")], ["k n=1", "k n=2"]),
    "grid": ([made(0, grid=(4, 1, 1)), made(1, grid=(8, 1, 1))], ["k grid 4x1x1", "k grid 8x1x1"]),
    "block": ([made(0, block=(32, 1, 1)), made(1, block=(64, 1, 1))], ["k block 32x1x1", "k block 64x1x1"]),
    "device": ([made(0, device=Device(0)), made(1, device=Device(1))], ["k device 0", "k device 1"]),
    "process": ([made(0, process=ONE), made(1, process=TWO)], ["k process 0", "k process 1"]),
    "function": ([made(0, name="k<1>()"), made(1, name="k<2>()")], ["k k<1>()", "k k<2>()"]),
    "long functions": ([made(0, name="x" * 99), made(1, name="y" * 99)], ["k #0", "k #1"]),
    "repeats": ([made(0), made(1)], ["k #0", "k #1"]),
    "reports": ([made(0), made(0, report="s.ncu-rep")], ["k r #0", "k s #0"]),
    "reports of one name": (
        [made(0, report="a/profile.ncu-rep"), made(0, report="b/profile.ncu-rep")],
        ["k a/profile #0", "k b/profile #0"],
    ),
    "repeats at two shapes": (
        [made(0, grid=(4, 1, 1)), made(1, grid=(8, 1, 1)), made(2, grid=(4, 1, 1))],
        ["k grid 4x1x1 #0", "k grid 8x1x1", "k grid 4x1x1 #2"],
    ),
}


@pytest.mark.parametrize("what", APART)
def test_names_hold_what_tells_launches_apart(what: str) -> None:
    launches, expected = APART[what]
    assert names(launches) == expected
    assert len(set(identities(launches))) == len(launches)


def test_processes_are_counted_in_a_report_and_occurrences_in_order() -> None:
    launches = [made(0, process=TWO), made(1, process=ONE), made(2, process=TWO), made(0, report="s.ncu-rep")]
    assert [(one.process, one.occurrence) for one in identities(launches)] == [(0, 0), (1, 0), (0, 1), (0, 2)]


def test_process_ids_do_not_matter_from_run_to_run() -> None:
    then = [made(0, process=Process(10)), made(1, process=Process(11))]
    now = [made(0, process=Process(3210)), made(1, process=Process(3200))]
    assert identities(then) == identities(now)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (Device(0), Device(0), True),
        (Device(0), Device(1), False),
        (Device(), Device(), None),
        (Device(0, uuid="GPU-1"), Device(1, uuid="GPU-1"), True),
        (Device(0, uuid="GPU-1"), Device(0, uuid="GPU-2"), False),
        (Device(0, "0000:06:00"), Device(0, "0000:07:00"), False),
        (Device(0, "0000:06:00"), Device(1, "0000:06:00"), False),
    ],
)
def test_one_card_or_two(a: Device, b: Device, same: bool | None) -> None:
    assert same_device(made(0, device=a), made(1, device=b)) is same


def test_device_numbers_of_other_reports_tell_only_where_they_differ() -> None:
    # CUDA_VISIBLE_DEVICES makes any card number 0, and another machine has a number 0 too.
    assert same_device(made(0, device=Device(0)), made(0, report="s.ncu-rep", device=Device(0))) is None
    other = made(0, report="s.ncu-rep", device=Device(0, "0000:07:00"))
    assert same_device(made(0, device=Device(0, "0000:06:00")), other) is None
    here, there = (replace(one, process=ONE) for one in (made(0, device=Device(0, "0000:06:00")), other))
    assert same_device(here, there) is False


def test_devices_that_are_numbered_alike_bear_their_bus_address() -> None:
    launches = [made(0, device=Device(0, "0000:06:00")), made(1, device=Device(0, "0000:07:00"))]
    assert list(devices(launches).values()) == ["0 0000:06:00", "0 0000:07:00"]
    assert list(devices(launches[:1]).values()) == ["0"]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"grid": (9, 1, 1)}, "grid"),
        ({"block": (9, 1, 1)}, "block"),
        ({"device": Device(1)}, "device"),
        ({"name": "k<2>()"}, "function"),
        ({"kind": WorkloadKind.GRAPH}, "kind of workload"),
    ],
)
def test_what_differs_is_no_repetition(fields: dict[str, Any], what: str) -> None:
    both = [
        Evaluated(made(0, device=Device(0)), {}),
        Evaluated(made(1, **{"device": Device(0), **fields}), {}),
    ]
    with pytest.raises(UsageError, match=f"k means 2 kinds .*they differ in {what}") as caught:
        refuse_several(both, "k")
    assert "r.ncu-rep:0" in caught.value.remedy
    refuse_several([both[0], both[0]], "k")
