"""Tables, frames and JSON of evaluated launches."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from perfkit.analysis.aggregate import aggregate
from perfkit.analysis.counters import CounterMap
from perfkit.analysis.frames import LONG_COLUMNS, counter_frame, long_frame, wide_frame
from perfkit.analysis.launch_json import launches_json
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.tables import (
    SIDE_BY_SIDE,
    aggregate_tables,
    labels,
    launch_table,
    long_table,
    raw_table,
    set_tables,
)
from perfkit.errors import UsageError
from perfkit.model import (
    Contradiction,
    Device,
    Evaluated,
    Launch,
    LaunchId,
    Process,
    Report,
    Status,
    WorkloadKind,
)
from perfkit.reports import render

SETS = load_metric_sets()


def launch(
    index: int = 0, kernel: str = "k", report: str = "a/r.ncu-rep", key: str | None = None, **counters: Any
) -> Launch:
    raw = {
        "gpu__time_duration.sum": (2000.0 + index, "ns", ()),
        "launch__registers_per_thread": (32, "register/thread", ()),
        "sm__warps_active.avg.pct_of_peak_sustained_active": (float("nan"), "%", ()),
        **{name.replace("__DOT__", "."): (value, "", ()) for name, value in counters.items()},
    }
    return Launch(
        LaunchId(report, 0, index), kernel, f"void {kernel}<1>(int)", "GPU", (9, 0), "2025.3.1.0 (build 1)",
        (4, 2, 1), (64, 1, 1), True, key=key, problem="n=64" if key else "", counters=CounterMap(raw),
    )  # fmt: skip


def evaluated(*launches: Launch) -> list[Evaluated]:
    return [SETS.evaluate(one) for one in launches]


def test_labels_are_short_and_unambiguous() -> None:
    assert labels([launch(0, "a"), launch(1, "b")]) == ["a", "b"]
    assert labels([launch(0, "a"), launch(1, "a")]) == ["a #0", "a #1"]
    assert labels([launch(0, "a"), launch(0, "a", "b/s.ncu-rep")]) == ["a r #0", "a s #0"]
    assert labels([launch(0, "a"), launch(0, "a", "b/r.ncu-rep")]) == ["a a/r #0", "a b/r #0"]
    assert labels([launch(0, "sgemm", key="k6"), launch(1, "sgemm", key="k6b")]) == ["k6", "k6b"]
    other = replace(launch(2, "sgemm", key="k6"), problem="n=128")
    assert labels([launch(0, "sgemm", key="k6"), other]) == ["k6 n=64", "k6 n=128"]


def test_few_launches_stand_side_by_side_with_a_unit_column() -> None:
    (table,) = set_tables(evaluated(launch(0, "a"), launch(1, "b")), SETS, ["launch"])
    assert [column.title for column in table.columns] == ["metric", "unit", "a", "b"]
    registers = next(row for row in table.rows if row[0].value == "registers_per_thread")
    assert [cell.value for cell in registers] == ["registers_per_thread", "register", 32.0, 32.0]
    # What no launch answers is not dropped silently.
    assert any("achieved_occupancy" in note and "`ncu --section Occupancy`" in note for note in table.notes)
    # Nor does a set of which nothing was collected fill a table with nothing.
    (empty,) = set_tables(evaluated(launch()), SETS, ["stalls"])
    assert empty.rows == ()
    assert any("stall_wait" in note and "`ncu --section WarpStateStats`" in note for note in empty.notes)


def test_a_library_s_name_heads_a_column_by_its_start_and_index() -> None:
    name = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8"
    (table,) = set_tables(evaluated(launch(0, name), launch(1, name), launch(2, "a")), SETS, ["launch"])
    assert [(column.title, column.doc) for column in table.columns[2:]] == [
        ("#0 sm80_xmma_gemm_f32f32…", f"{name} #0"),
        ("#1 sm80_xmma_gemm_f32f32…", f"{name} #1"),
        ("a", ""),
    ]


def test_many_launches_are_rows() -> None:
    many = evaluated(*(launch(i) for i in range(SIDE_BY_SIDE + 1)))
    (table,) = set_tables(many, SETS, ["issue"])
    assert len(table.rows) == SIDE_BY_SIDE + 1
    duration = [column.name for column in table.columns].index("duration")
    assert [row[duration].value for row in table.rows] == [
        (2000.0 + i) / 1e9 for i in range(SIDE_BY_SIDE + 1)
    ]


def test_every_metric_of_a_set_is_in_its_table_or_its_notes() -> None:
    one = evaluated(launch())
    for name in SETS.sets:
        (table,) = set_tables(one, SETS, [name], detail=True)
        told = {str(row[0].value) for row in table.rows} | set(
            " ".join(table.notes).replace(",", " ").split()
        )
        assert set(SETS.sets[name].metrics) <= told


def test_the_launch_table_needs_no_metric() -> None:
    one = SETS.evaluate(launch(), ["registers_per_thread"])
    table = launch_table([one], SETS)
    row = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert row["duration"].value == 2e-6
    assert (row["grid"].value, row["block"].value) == ("4 x 2 x 1", "64 x 1 x 1")


def test_raw_counters() -> None:
    table = raw_table(evaluated(launch(0, "a"), launch(1, "b")), "gpu__time")
    assert [cell.value for cell in table.rows[0]] == ["gpu__time_duration.sum", "ns", 2000.0, 2001.0]
    many = raw_table(evaluated(*(launch(i) for i in range(20))), "gpu__time")
    assert len(many.rows) == 20
    for pattern in ("(", "no_such_counter"):
        with pytest.raises(UsageError):
            raw_table(evaluated(launch()), pattern)


def test_the_long_frame() -> None:
    frame = long_frame(evaluated(launch(0), launch(1)))
    assert tuple(frame.columns) == LONG_COLUMNS
    assert len(frame) == 2 * len(SETS.names())
    row = frame[(frame.launch == 1) & (frame.metric == "duration")].iloc[0]
    assert (row["value"], row["unit"], row["status"]) == (2001.0 / 1e9, "s", "ok")
    missing = frame[frame.metric == "achieved_occupancy"].iloc[0]
    assert math.isnan(missing["value"])
    assert missing["status"] == "not_collected"
    assert str(frame["value"].dtype) == "float64"


def test_the_csv_is_the_long_frame_and_safe_for_spreadsheets() -> None:
    pandas = pytest.importorskip("pandas")
    hostile = evaluated(launch(0, '=cmd()|"a",b\n<script>'))
    text = render([long_table(hostile)], "csv", width=80, color=False)
    read = pandas.read_csv(io.StringIO(text), keep_default_na=False, na_values={"value": [""]})
    frame = long_frame(hostile)
    assert list(read.columns) == list(frame.columns)
    assert read["value"].equals(frame["value"])
    assert list(read["status"]) == list(frame["status"])
    assert set(read["kernel"]) == {'\'=cmd()|"a",b\n<script>'}


def test_the_wide_frame() -> None:
    wide = wide_frame(evaluated(launch(0), launch(1)), ["duration", "top_stall"])
    assert list(wide.columns) == ["kernel", "key", "problem", "duration", "top_stall"]
    assert wide.index.names == ["report", "range", "launch"]
    assert wide.loc[("a/r.ncu-rep", 0, 1), "duration"] == 2001.0 / 1e9


def test_the_counter_frame() -> None:
    frame = counter_frame(evaluated(launch()))
    assert set(frame["counter"]) >= {"gpu__time_duration.sum"}
    assert frame[frame.counter.str.startswith("sm__warps")].iloc[0]["status"] == "not_collected"


def test_the_json_has_no_nan_and_keeps_what_matters() -> None:
    report = Report("a/r.ncu-rep", (launch(),), "2025.3.1.0", 2, 1, True, ("is truncated",))
    text = launches_json(evaluated(launch(key="k6")), [report], "9.9")
    document = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))
    assert (document["schema_version"], document["perfkit_version"]) == (1, "9.9")
    assert document["reports"][0]["launches_lost"] == 1
    one = document["launches"][0]
    assert {
        "report",
        "range",
        "launch",
        "kernel",
        "name",
        "gpu",
        "compute_capability",
        "ncu_version",
        "metrics",
    } <= set(one)
    assert (one["compute_capability"], one["key"], one["problem"]) == ("9.0", "k6", "n=64")
    assert one["metrics"]["duration"]["value"] == 2e-6
    assert one["metrics"]["duration"]["counters"] == ["gpu__time_duration.sum"]
    occupancy = one["metrics"]["achieved_occupancy"]
    assert (occupancy["value"], occupancy["status"]) == (None, "not_collected")
    assert set(one["metrics"]) == set(SETS.names())


def test_counters_are_made_only_when_asked_for() -> None:
    counters = CounterMap(
        {
            "a": (1.0, "ns", ()),
            "nan": (float("nan"), "", ()),
            "none": (None, "", ()),
            "inf": (math.inf, "", ()),
        }
    )
    assert len(counters) == 4
    assert list(counters) == ["a", "nan", "none", "inf"]
    assert "a" in counters
    assert counters.get("b") is None
    assert counters["a"].value == 1.0
    assert (counters["nan"].value, counters["nan"].status) == (None, Status.NOT_COLLECTED)
    assert counters["none"].status is Status.NOT_COLLECTED
    assert counters["inf"].status is Status.INVALID


def columns_of(*launches: Launch) -> dict[str, list[Any]]:
    table = launch_table(evaluated(*launches), SETS)
    return {
        column.name: [row[index].value for row in table.rows] for index, column in enumerate(table.columns)
    }


def test_device_process_and_kind_are_columns_where_they_tell_launches_apart() -> None:
    one = replace(launch(0), device=Device(0), process=Process(7))
    assert not {"device", "process", "kind"} & set(columns_of(one, replace(launch(1), device=Device(0))))
    assert columns_of(one, replace(launch(1), device=Device(1)))["device"] == ["0", "1"]
    assert columns_of(one, replace(launch(1), process=Process(8), device=Device(0)))["process"] == ["7", "8"]
    # A name says which of two models it was; several runs are several processes.
    assert "device" not in columns_of(one, replace(launch(1), device=Device(1), gpu="GPU B"))
    other = replace(launch(0, report="b/s.ncu-rep"), device=Device(0), process=Process(8))
    assert "process" not in columns_of(one, other)
    graph = replace(launch(1), kind=WorkloadKind.GRAPH, grid=None, block=None)
    assert columns_of(one, graph)["kind"] == ["kernel", "graph"]
    assert columns_of(graph)["kind"] == ["graph"]


def test_processes_that_each_see_one_gpu_are_told_apart_by_bus_address() -> None:
    ranks = [
        replace(launch(i), device=Device(0, f"0000:0{i}:00"), process=Process(7 + i, "node")) for i in (0, 1)
    ]
    assert columns_of(*ranks)["device"] == ["0 0000:00:00", "0 0000:01:00"]
    assert columns_of(*ranks)["process"] == ["7", "8"]
    hosts = [replace(one, process=Process(7, f"node{i}")) for i, one in enumerate(ranks)]
    assert columns_of(*hosts)["process"] == ["node0:7", "node1:7"]


def test_labels_name_device_and_process_where_they_differ() -> None:
    both = [replace(launch(i, "a"), device=Device(i)) for i in (0, 1)]
    assert labels(both) == ["a device 0 #0", "a device 1 #1"]
    assert labels([replace(one, process=Process(5 + i)) for i, one in enumerate(both)]) == [
        "a device 0 process 5 #0",
        "a device 1 process 6 #1",
    ]


def test_what_a_range_cannot_have_is_one_note() -> None:
    graph = replace(launch(), kind=WorkloadKind.GRAPH, grid=None, counters=CounterMap({}))
    (table,) = set_tables(evaluated(graph), SETS, ["launch"])
    (note,) = [one for one in table.notes if "registers_per_thread" in one]
    assert note.startswith("undefined: registers_per_thread, shared_bytes_per_block, block_size, grid_size")
    assert "a graph has no such value" in note
    assert "collect" not in note


CONTRADICTION = Contradiction(
    "FMAs", (("by opcode", 1000.0), ("threads / 32", 1100.0)), "inst", 0.01, ("fma_share",)
)


def test_contradictions_are_notes_below_the_launches() -> None:
    one, other = evaluated(launch(0, "a"), launch(1, "a"))
    table = launch_table([one, replace(other, contradictions=(CONTRADICTION,))], SETS)
    assert table.notes == (
        "a #1: FMAs contradict one another: 1 kinst by opcode, 1.1 kinst (threads / 32) (9.1% apart, "
        "1.0% allowed); invalid for it: fma_share",
    )


def test_contradictions_are_not_lost_in_an_aggregate() -> None:
    one, other = evaluated(launch(0), launch(1))
    groups = aggregate(
        [one, replace(other, contradictions=(CONTRADICTION,))], SETS, "median", ["kernel"], ["duration"]
    )
    first, _ = aggregate_tables(groups, SETS, ["duration"], "median", ["kernel"])
    assert any(
        "a/r.ncu-rep:1: FMAs contradict one another: 1 kinst by opcode" in note for note in first.notes
    )


def test_the_json_tells_kind_device_process_and_contradictions_of_every_launch() -> None:
    told = replace(launch(), device=Device(1, "0000:06:00", "GPU-1"), process=Process(7, "node", "app"))
    (one,) = evaluated(told)
    read = json.loads(
        launches_json([replace(one, contradictions=(CONTRADICTION,)), *evaluated(launch(1))], [], "1")
    )
    first, second = read["launches"]
    assert first["kind"] == "kernel"
    assert first["device"] == {"index": 1, "pci": "0000:06:00", "uuid": "GPU-1"}
    assert first["process"] == {"pid": 7, "host": "node", "executable": "app"}
    assert first["contradictions"] == [
        {
            "what": "FMAs",
            "readings": [{"by": "by opcode", "value": 1000.0}, {"by": "threads / 32", "value": 1100.0}],
            "unit": "inst",
            "tolerance": 0.01,
            "metrics": ["fma_share"],
            "likely": None,
        }
    ]
    assert second["device"] == {"index": None, "pci": None, "uuid": None}
    assert (second["process"], second["contradictions"]) == (None, [])


def test_the_long_frame_tells_kind_device_and_process() -> None:
    told = replace(launch(), kind=WorkloadKind.RANGE, device=Device(1), process=Process(7))
    frame = long_frame(evaluated(told, launch(1)))
    first, last = frame.iloc[0], frame.iloc[-1]
    assert (first["kind"], first["device"], first["process"]) == ("range", "1", "7")
    assert (last["kind"], last["device"], last["process"]) == ("kernel", "", "")
