"""`perfkit bench` from jobs to tables and run.json, with the measuring process faked at its interface."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from perfkit.commands import _bench_modes as modes
from perfkit.commands import _bench_tables as tables
from perfkit.commands import bench
from perfkit.commands._bench_session import jobs_of, session
from perfkit.errors import CheckFailedError, ToolError, UsageError
from perfkit.kernels.registry import load_registry
from perfkit.model import BenchResult, GpuInfo, KernelSpec, PairComparison, SelfTest, Table
from perfkit.profiler import bench_samples
from perfkit.profiler.run_store import RunStore, load_run
from perfkit.profiler.session import KernelRequest

_SPEC = importlib.util.spec_from_file_location("fake_timer", Path(__file__).with_name("fake_timer.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
fake_timer = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fake_timer)

GPU = GpuInfo("NVIDIA H200", "GPU-0", (9, 0), 132, "580.0", "13.0")
TIME = 50e-6  # s at n = 1024


def _spec(key: str) -> KernelSpec:
    """A library call needs no compiler, so the tests run anywhere."""
    return dataclasses.replace(load_registry()["cublas"], key=key)


def _factory(times: dict[str, float], **options: Any) -> Callable[..., Any]:
    return lambda seed: fake_timer.FakeTimer(times, seed=seed, **options)


def _tables(found: list[Any]) -> list[Table]:
    make: dict[type, Callable[[list[Any]], Table]] = {
        BenchResult: lambda results: tables.results_table(results, GPU),
        PairComparison: tables.comparisons_table,
        SelfTest: tables.self_tests_table,
    }
    return [make[type(found[0])](found)]


def _run(
    tmp_path: Path, times: dict[str, float], act: Callable[[Any], list[Any]], **options: Any
) -> tuple[list[Table], Any]:
    store = RunStore(tmp_path)
    factory = _factory(times, **options)
    with session(
        {"protocol": "quick"}, gpu=GPU, built={}, seed=1, timer_factory=factory, store=store
    ) as current:
        found = act(current)
    return _tables(found), load_run(current.folder.path)


def _jobs(keys: Sequence[str], sizes: Sequence[int] = (1024,)) -> Any:
    """`x`, or `x@N` for one that is held to N blocks per SM."""
    split = [key.partition("@") for key in keys]
    return jobs_of(
        [
            KernelRequest(_spec(key), {"n": n}, int(blocks) if at else None)
            for n in sizes
            for key, at, blocks in split
        ]
    )


def _cell(table: Table, row: int, column: str) -> Any:
    return table.rows[row][[c.name for c in table.columns].index(column)].value


def test_quick_gives_time_clock_and_share(tmp_path: Path) -> None:
    jobs = _jobs(["x", "y"], [1024, 2048])
    shown, record = _run(
        tmp_path,
        {"x": TIME, "y": 2 * TIME},
        lambda s: modes.time(s, jobs, modes.protocol_of("quick", 0, False)),
    )
    (table,) = shown
    assert [(_cell(table, i, "kernel"), _cell(table, i, "problem")) for i in range(4)] == [
        ("x", "n=1024"), ("x", "n=2048"), ("y", "n=1024"), ("y", "n=2048"),
    ]  # fmt: skip
    assert _cell(table, 0, "time") == pytest.approx(TIME, rel=1e-3)
    assert _cell(table, 2, "time") == pytest.approx(2 * TIME, rel=1e-3)
    assert _cell(table, 0, "sm_clock") == pytest.approx(fake_timer.CLOCK, rel=1e-12)
    peak = 132 * 128 * 2 * fake_timer.CLOCK
    expected = 2 * 1024**3 / _cell(table, 0, "time") / peak
    assert _cell(table, 0, "share_of_peak") == pytest.approx(expected, rel=1e-12)
    assert record.status == "complete"
    assert record.gpu.uuid == "GPU-0"
    assert len(record.results) == 4
    assert record.results[0]["kind"] == "bench"
    assert record.kernels[0].verification.passed


def test_samples_are_kept_in_the_order_measured(tmp_path: Path) -> None:
    _, record = _run(
        tmp_path,
        {"x": TIME},
        lambda s: modes.time(s, _jobs(["x"]), modes.protocol_of("quick", 0, False)),
    )
    result = record.results[0]
    rows = bench_samples.read_rows(Path(record.path) / result["samples"])
    assert len(rows) == result["launches"]
    times = sorted(float(row["seconds_per_launch"]) for row in rows)
    assert times[len(times) // 2] == pytest.approx(result["time"], rel=1e-4)
    assert set(record.samples) == {"samples_x_n1024.csv.gz", "sensors_x_n1024.csv.gz"}


def test_a_wrong_result_is_not_timed(tmp_path: Path) -> None:
    shown, record = _run(
        tmp_path,
        {"x": TIME, "bad": TIME},
        lambda s: modes.time(s, _jobs(["x", "bad"]), modes.protocol_of("quick", 0, False)),
        wrong=("bad",),
    )
    assert _cell(shown[0], 0, "time") is not None
    assert _cell(shown[0], 1, "time") is None
    assert _cell(shown[0], 1, "flop_rate") is None
    assert _cell(shown[0], 1, "verified") == "WRONG"
    assert record.status == "failed"
    assert any("bad at n=1024" in message for message in record.messages)
    assert record.results[1]["time"] is None


def test_rounds_are_processes_of_their_own(tmp_path: Path) -> None:
    before = fake_timer.FakeTimer.started
    _, record = _run(
        tmp_path,
        {"x": TIME},
        lambda s: modes.time(s, _jobs(["x"]), modes.protocol_of("quick", 3, False)),
    )
    assert fake_timer.FakeTimer.started - before == 3
    assert len(record.results[0]["round_times"]) == 3


def test_short_launches_are_grouped_and_flagged(tmp_path: Path) -> None:
    shown, record = _run(
        tmp_path,
        {"x": 4e-6},
        lambda s: modes.time(s, _jobs(["x"]), modes.protocol_of("quick", 0, False)),
    )
    assert record.results[0]["launches_per_sample"] == 25
    assert any("launch-bound" in note for note in shown[0].notes)


def test_cold_is_said(tmp_path: Path) -> None:
    _, record = _run(
        tmp_path,
        {"x": TIME},
        lambda s: modes.time(s, _jobs(["x"]), modes.protocol_of("quick", 0, True)),
    )
    assert record.results[0]["cache"] == "cold"
    assert record.results[0]["time"] == pytest.approx(1.2 * TIME, rel=1e-2)


def test_short_cold_launches_are_timed_one_by_one(tmp_path: Path) -> None:
    shown, record = _run(
        tmp_path,
        {"x": 4e-6},
        lambda s: modes.time(s, _jobs(["x"]), modes.protocol_of("quick", 0, True)),
    )
    (result,) = record.results
    assert result["launches_per_sample"] == 1
    assert result["time"] == pytest.approx(1.2 * 4e-6, rel=1e-2)
    assert result["energy_per_launch"] is None
    assert any("one by one" in note for note in shown[0].notes)
    assert any(note.startswith("cold: caches flushed") for note in shown[0].notes)


def test_pairs_find_a_slower_kernel(tmp_path: Path) -> None:
    shown, record = _run(
        tmp_path, {"x": TIME, "y": 1.02 * TIME}, lambda s: modes.compare(s, _jobs(["x", "y"]), 60)
    )
    assert _cell(shown[0], 0, "verdict") == "slower"
    assert _cell(shown[0], 0, "ratio") == pytest.approx(1.02, abs=2e-3)
    rows = bench_samples.read_rows(Path(record.path) / record.results[0]["samples"])
    assert len(rows) == 60
    assert sum(row["a_first"] == "1" for row in rows) == 30


def test_pairs_with_a_wrong_result_give_no_verdict(tmp_path: Path) -> None:
    with session(
        {}, gpu=GPU, built={}, seed=1, store=RunStore(tmp_path),
        timer_factory=_factory({"x": TIME, "y": TIME}, wrong=("y",)),
    ) as current:  # fmt: skip
        assert modes.compare(current, _jobs(["x", "y"]), 60) == []
    with pytest.raises(CheckFailedError, match="y at n=1024"):
        current.raise_wrong()
    record = load_run(current.folder.path)
    assert record.status == "failed"
    assert record.command[0] == "perfkit"


def test_self_test_has_no_false_verdict(tmp_path: Path) -> None:
    shown, record = _run(
        tmp_path, {"x": TIME}, lambda s: modes.self_test(s, _jobs(["x"], [1024, 2048]), 50, 60, 0.0)
    )
    assert [result["wrong"] for result in record.results] == [0, 0]
    assert [result["comparisons"] for result in record.results] == [50, 50]
    assert "0 of 100" in shown[0].notes[0]


def test_self_test_finds_one_percent(tmp_path: Path) -> None:
    _, record = _run(tmp_path, {"x": TIME}, lambda s: modes.self_test(s, _jobs(["x"]), 20, 60, 0.01))
    (result,) = record.results
    assert result["verdicts"]["slower"] >= 19
    assert result["largest_ratio"] == pytest.approx(1.01, abs=3e-3)


def test_a_failure_in_between_keeps_the_run(tmp_path: Path) -> None:
    def act(current: Any) -> list[Any]:
        modes.time(current, _jobs(["x"]), modes.protocol_of("quick", 0, False))
        raise ToolError("the GPU fell off the bus")

    with pytest.raises(ToolError):
        _run(tmp_path, {"x": TIME}, act)
    (stored,) = RunStore(tmp_path).list()
    assert stored.status == "failed"
    assert stored.record is not None
    assert len(stored.record.results) == 1
    assert "the GPU fell off the bus" in stored.record.messages


def test_a_run_that_never_reached_a_gpu_leaves_nothing(tmp_path: Path) -> None:
    def refuse(seed: int) -> Any:
        raise ToolError(f"no GPU {seed}")

    with (
        pytest.raises(ToolError),
        session({}, gpu=GPU, built={}, seed=1, timer_factory=refuse, store=RunStore(tmp_path)) as current,
    ):
        modes.time(current, _jobs(["x"]), modes.protocol_of("quick", 0, False))
    assert RunStore(tmp_path).list() == []


@pytest.mark.parametrize(
    ("keys", "options", "words"),
    [
        (["x"], {"pairs": 60}, "compares two kernels"),
        (["x", "y"], {"pairs": 4}, "95 % interval"),
        (["x", "y"], {"aa": 5}, "one kernel with itself"),
        (["x", "y"], {"pairs": 60, "cold": True}, "--cold"),
        (["x", "y"], {"pairs": 60, "article": True}, "--protocol article"),
        (["x", "y"], {"pairs": 60, "rounds": 2}, "--rounds"),
        (["x"], {"rounds": -1}, "negative"),
        (["x@0"], {}, "x@0: no kernel runs with 0 blocks"),
    ],
)
def test_what_does_not_go_together_is_refused(keys: list[str], options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        modes.check(_jobs(keys), **{"pairs": 0, "aa": 0, "rounds": 0, "cold": False, **options})


@pytest.mark.parametrize(("text", "value"), [("", 0.0), ("1%", 0.01), ("1 %", 0.01), ("0.02", 0.02)])
def test_handicap(text: str, value: float) -> None:
    assert modes.parse_handicap(text, 5) == pytest.approx(value)


@pytest.mark.parametrize("text", ["x", "200%", "-1%", "1 ms"])
def test_handicap_refused(text: str) -> None:
    with pytest.raises(UsageError, match="handicap"):
        modes.parse_handicap(text, 5)


def test_a_file_that_cannot_be_written_is_found_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output, words in ((tmp_path, "is a folder"), (tmp_path / "file" / "x.csv", "no folder")):
        with pytest.raises(UsageError, match=words):
            bench._check_output(output)
    bench._check_output(tmp_path / "new" / "x.csv")
    bench._check_output(None)
    assert not (tmp_path / "new").exists()
