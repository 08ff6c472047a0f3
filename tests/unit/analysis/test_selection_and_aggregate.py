"""Choosing launches, and aggregates over repeated ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.aggregate import DEFAULT_KEYS, aggregate
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.selection import Selection
from perfkit.analysis.tables import aggregate_tables
from perfkit.errors import UsageError
from perfkit.model import Counter, Device, Evaluated, Launch, LaunchId, Process, Status, WorkloadKind

SETS = load_metric_sets()
NAMES = ("duration", "sectors_per_load", "achieved_occupancy", "top_stall", "registers_per_thread")
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def launch(
    index: int, kernel: str = "k", *, collected: bool = True, counters: Mapping[str, float] | None = None,
    nvtx: tuple[str, ...] = (), gpu: str = "GPU", name: str = "",
) -> Launch:  # fmt: skip
    units = {"gpu__time_duration.sum": "ns", OCCUPANCY: "%"}
    made = {one: Counter(one, value, units.get(one, "")) for one, value in (counters or {}).items()}
    return Launch(
        LaunchId("r.ncu-rep", 0, index), kernel, name or f"{kernel}()", gpu, (9, 0), "", (8, 1, 1),
        (64, 1, 1), collected, nvtx=nvtx, counters=made,
    )  # fmt: skip


def evaluate(*launches: Launch) -> list[Evaluated]:
    return [SETS.evaluate(one, NAMES) for one in launches]


FIELD = [
    launch(0, "gemm", nvtx=("forward", "layer1")),
    launch(1, "softmax", gpu="NVIDIA A100"),
    launch(2, "gemm", name="void cutlass::Kernel<gemm_128x64>(Params)"),
    launch(3, "copy", nvtx=("backward",)),
]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        (Selection(), [0, 1, 2, 3]),
        (Selection(kernel="^gemm$"), [0, 2]),
        (Selection(kernel="128x64"), [2]),
        (Selection(launches=("0", "2-3")), [0, 2, 3]),
        (Selection(launches=("1,3",)), [1, 3]),
        (Selection(nvtx="layer"), [0]),
        (Selection(gpu="A100"), [1]),
        (Selection(kernel="gemm", launches=("2",)), [2]),
    ],
)
def test_filters(filters: Selection, kept: list[int]) -> None:
    assert [one.id.launch for one in filters.apply(FIELD)] == kept


def test_nothing_matches_says_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"no launch matches --kernel 'gem\+x'") as caught:
        Selection(kernel="gem+x").apply(FIELD)
    assert caught.value.remedy == "Kernels: gemm (2), softmax (1), copy (1)"
    with pytest.raises(UsageError) as caught:
        Selection(launches=("9",), nvtx="zzz", gpu="zzz").apply(FIELD)
    indices, ranges, gpus = caught.value.remedy.split("\n")
    assert indices == "Launches: 0 to 3"
    assert ranges.startswith("NVTX ranges: ")
    assert gpus.startswith("GPUs: ")
    assert "A100" in gpus


@pytest.mark.parametrize(
    "filters", [Selection(kernel="("), Selection(launches=("two",)), Selection(launches=("3-",))]
)
def test_wrong_filters(filters: Selection) -> None:
    with pytest.raises(UsageError):
        filters.apply(FIELD)


def counters(sectors: float, requests: float, ns: float, occupancy: float) -> dict[str, float]:
    return {SECTORS: sectors, REQUESTS: requests, "gpu__time_duration.sum": ns, OCCUPANCY: occupancy}


REPEATED = [
    launch(0, counters=counters(400.0, 100.0, 1000.0, 50.0)),
    launch(1, counters=counters(1600.0, 100.0, 3000.0, 70.0)),
    launch(2, counters=counters(0.0, 0.0, 2000.0, 60.0)),
    launch(3, collected=False),
]


@pytest.mark.parametrize(
    ("function", "duration", "sectors"), [("median", 2e-6, 10.0), ("min", 1e-6, 4.0), ("max", 3e-6, 16.0)]
)
def test_aggregates_leave_the_uncollected_out(function: str, duration: float, sectors: float) -> None:
    (group,) = aggregate(evaluate(*REPEATED), SETS, function, ["kernel"], NAMES)
    assert (group.key, group.used, [one.id.launch for one in group.left_out]) == (("k",), 3, [3])
    assert group.aggregate.metrics["duration"].value == pytest.approx(duration, rel=1e-12)
    load = group.aggregate.metrics["sectors_per_load"]
    assert load.value == sectors
    gaps, caveat = load.reason.split("; ")
    assert gaps == "1 of 3 launches have no value"
    assert caveat.startswith("ideal unknown")


def test_the_total_of_a_ratio_is_a_ratio_of_sums() -> None:
    (group,) = aggregate(evaluate(*REPEATED), SETS, "total", ["kernel"], NAMES)
    metrics = group.aggregate.metrics
    assert metrics["sectors_per_load"].value == 2000.0 / 200.0
    assert metrics["duration"].value == pytest.approx(6e-6, rel=1e-12)
    # A percentage has no total; it is neither added up nor averaged.
    assert (metrics["achieved_occupancy"].value, metrics["achieved_occupancy"].status) == (
        None,
        Status.UNDEFINED,
    )
    assert "cannot be added" in metrics["achieved_occupancy"].reason


def test_words_and_launch_facts_stay_where_all_agree() -> None:
    same = [launch(i, counters={"launch__registers_per_thread": 40.0}) for i in range(2)]
    (group,) = aggregate(evaluate(*same), SETS, "total", ["kernel"], NAMES)
    assert group.aggregate.metrics["registers_per_thread"].value == 40.0
    differ = [*same, launch(2, counters={"launch__registers_per_thread": 64.0})]
    (group,) = aggregate(evaluate(*differ), SETS, "total", ["kernel"], NAMES)
    assert group.aggregate.metrics["registers_per_thread"].value is None
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    mixed = [
        launch(0, counters={stall.format("wait"): 2.0}),
        launch(1, counters={stall.format("barrier"): 2.0}),
    ]
    (group,) = aggregate(evaluate(*mixed), SETS, "median", ["kernel"], NAMES)
    assert group.aggregate.metrics["top_stall"].status is Status.UNDEFINED
    assert "wait, barrier" in group.aggregate.metrics["top_stall"].reason


def test_groups_keep_their_order_and_keys() -> None:
    field = [*FIELD[:2], launch(2, "gemm"), FIELD[3]]
    groups = aggregate(evaluate(*field), SETS, "median", ["kernel", "gpu"], NAMES)
    assert [group.key for group in groups] == [("gemm", "GPU"), ("softmax", "NVIDIA A100"), ("copy", "GPU")]
    assert [group.used for group in groups] == [2, 1, 1]


def test_kernels_of_one_name_and_several_full_names_are_never_joined() -> None:
    first, second = (replace(launch(i, "Kernel"), name=f"cutlass::Kernel<Tile{i}>(Params)") for i in (0, 1))
    again = replace(launch(2, "Kernel"), name=first.name)
    groups = aggregate(evaluate(first, second, again), SETS, "median", ["kernel"], NAMES)
    assert [(group.key, group.used) for group in groups] == [((first.name,), 2), ((second.name,), 1)]
    assert [g.key for g in aggregate(evaluate(first, again), SETS, "min", ["kernel"], NAMES)] == [("Kernel",)]


def test_what_differs_within_a_group_is_said() -> None:
    small, large = (replace(launch(i), problem=f"n={i}", grid=(i + 1, 1, 1)) for i in (0, 1))
    groups = aggregate(evaluate(small, large), SETS, "median", ["kernel"], NAMES)
    assert groups[0].differ == ("problem", "grid")
    table = aggregate_tables(groups, SETS, ["duration"], "median", ["kernel"])[0]
    assert "differ in problem and grid; add it to --by" in table.notes[1]
    apart = aggregate(evaluate(small, large), SETS, "median", DEFAULT_KEYS, NAMES)
    assert [(group.used, group.differ) for group in apart] == [(1, ()), (1, ())]


def test_launches_on_two_devices_are_not_repeats() -> None:
    zero, one = (replace(launch(i), device=Device(i)) for i in (0, 1))
    groups = aggregate(evaluate(zero, one), SETS, "median", DEFAULT_KEYS, NAMES)
    assert [group.key for group in groups] == [("k", "", "GPU", "0"), ("k", "", "GPU", "1")]
    (joined,) = aggregate(evaluate(zero, one), SETS, "median", ["kernel"], NAMES)
    assert joined.differ == ("device",)
    tables = aggregate_tables(groups, SETS, ["duration"], "median", DEFAULT_KEYS)
    assert [column.name for column in tables[0].columns] == [
        "kernel",
        "gpu",
        "device",
        "launches",
        "left_out",
    ]
    alone = aggregate(evaluate(zero), SETS, "median", DEFAULT_KEYS, NAMES)
    shown = aggregate_tables(alone, SETS, ["duration"], "median", DEFAULT_KEYS)[0]
    assert "device" not in [column.name for column in shown.columns]


@pytest.mark.parametrize(
    ("key", "values"), [("device", ["0", "1"]), ("process", ["7", "8"]), ("kind", ["kernel"])]
)
def test_grouping_by_what_a_launch_is_known_by(key: str, values: list[str]) -> None:
    launches = [replace(launch(i), device=Device(i), process=Process(7 + i)) for i in (0, 1)]
    groups = aggregate(evaluate(*launches), SETS, "median", [key], NAMES)
    assert [group.key for group in groups] == [(value,) for value in values]
    shown = aggregate_tables(groups, SETS, ["duration"], "median", [key])[0]
    assert shown.columns[0].name == key


@pytest.mark.parametrize("by", [["kernel"], ["gpu"], ["kind"], ["nvtx", "kernel"], list(DEFAULT_KEYS)])
@pytest.mark.parametrize("kind", [kind for kind in WorkloadKind if kind is not WorkloadKind.KERNEL])
@pytest.mark.parametrize("function", ["median", "total"])
def test_ranges_and_graphs_are_never_joined(by: list[str], kind: WorkloadKind, function: str) -> None:
    made = [replace(launch(i, "range", counters=counters(1.0, 1.0, 1e3, 50.0)), kind=kind) for i in range(2)]
    groups = aggregate(evaluate(*made), SETS, function, by, NAMES)
    assert [group.used for group in groups] == [1, 1]
    assert len({group.key for group in groups}) == 2


@pytest.mark.parametrize(
    ("gpu", "kept"),
    [("device 1", [1]), ("GPU-b", [1]), ("0000:06", [0]), ("H200", [0, 1]), ("06", []), ("device", [])],
)
def test_a_gpu_is_chosen_by_name_number_address_or_uuid(gpu: str, kept: list[int]) -> None:
    launches = [
        replace(launch(0, gpu="NVIDIA H200"), device=Device(0, "0000:06:00", "GPU-a1")),
        replace(launch(1, gpu="NVIDIA H200"), device=Device(1, "0000:07:00", "GPU-b2")),
    ]
    if kept:
        assert [one.id.launch for one in Selection(gpu=gpu).apply(launches)] == kept
    else:
        with pytest.raises(UsageError, match="no launch matches") as caught:
            Selection(gpu=gpu).apply(launches)
        assert "NVIDIA H200, device 0 (1), NVIDIA H200, device 1 (1)" in caught.value.remedy


def test_a_group_of_uncollected_launches_has_no_aggregate() -> None:
    (group,) = aggregate(evaluate(launch(0, collected=False)), SETS, "median", ["kernel"], NAMES)
    assert (group.used, len(group.left_out)) == (0, 1)
    assert group.aggregate.metrics["duration"].value is None


def test_wrong_aggregates() -> None:
    with pytest.raises(UsageError, match="unknown aggregate 'mean'"):
        aggregate(evaluate(*FIELD), SETS, "mean", ["kernel"], NAMES)
    with pytest.raises(UsageError, match="cannot group by 'colour'"):
        aggregate(evaluate(*FIELD), SETS, "median", ["colour"], NAMES)


@given(
    st.lists(
        # Up to 32 sectors a request: more would contradict itself.
        st.tuples(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 10**9)).map(
            lambda drawn: (min(drawn[0], 32 * drawn[1]), *drawn[1:])
        ),
        min_size=1,
        max_size=9,
    )
)
def test_aggregates_for_any_launches(values: list[tuple[int, int, int]]) -> None:
    launches = [
        launch(i, counters=counters(float(s), float(r), float(ns), 50.0))
        for i, (s, r, ns) in enumerate(values)
    ]
    evaluated = evaluate(*launches)
    total = aggregate(evaluated, SETS, "total", ["kernel"], NAMES)[0].aggregate
    assert total.number("sectors_per_load") == sum(s for s, _, _ in values) / sum(r for _, r, _ in values)
    ratios = [s / r for s, r, _ in values]
    assert min(ratios) * (1 - 1e-12) <= total.number("sectors_per_load") <= max(ratios) * (1 + 1e-12)
    median = aggregate(evaluated, SETS, "median", ["kernel"], NAMES)[0].aggregate
    assert median.number("sectors_per_load") == statistics.median(ratios)


def test_a_launch_that_was_not_collected_stays_with_its_repeats() -> None:
    """ncu tells no device of it, which is no other device."""
    launches = [replace(launch(0), device=Device(0)), launch(1, collected=False)]
    (group,) = aggregate(evaluate(*launches), SETS, "median", DEFAULT_KEYS, NAMES)
    assert (group.used, len(group.left_out), group.differ) == (1, 1, ())
    (joined,) = aggregate(evaluate(*launches), SETS, "median", ["kernel"], NAMES)
    assert joined.differ == ()


def test_an_aggregate_keeps_the_caveats_of_its_values() -> None:
    first, second = evaluate(launch(0), launch(1))

    def flagged(one: Evaluated, reason: str, status: Status = Status.OK) -> Evaluated:
        value = replace(one.metrics["duration"], value=1.0, status=status, reason=reason)
        return replace(one, metrics={**one.metrics, "duration": value})

    both = [flagged(first, "threads / 32"), flagged(second, "threads / 32")]
    (group,) = aggregate(both, SETS, "median", ["kernel"], NAMES)
    assert group.aggregate.metrics["duration"].reason == "threads / 32"
    one = [flagged(first, ""), flagged(second, "above its limit", Status.INVALID)]
    (group,) = aggregate(one, SETS, "max", ["kernel"], NAMES)
    assert group.aggregate.metrics["duration"].status is Status.INVALID
    assert group.aggregate.metrics["duration"].reason == "1 of 2 values: above its limit"
