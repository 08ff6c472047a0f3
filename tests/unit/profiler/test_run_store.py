"""The run store: everything by rename, run.json last, ids that sort and never collide."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.errors import CannotError, UsageError
from perfkit.model import GpuInfo, KernelRun, RunRecord, Verification
from perfkit.profiler import run_store
from perfkit.profiler.run_store import RunStore, load_run, record_from_dict, record_to_dict, resolve_run


def record(run_id: str, *, what: str = "profile", status: str = "complete") -> RunRecord:
    gpu = GpuInfo("NVIDIA H200", "GPU-1", (9, 0), 132, "580.1", "13.0", 2**37)
    verification = Verification(True, "cuBLAS SGEMM", True, 0.0, 64, 9.5e-5)
    kernel = KernelRun(
        "k6b", "k6b@1", "two blocks", "n=4096", {"n": 4096}, 2.0 * 4096**3, 3.0 * 4096**2 * 4,
        1, 1, 107648, {"registers": 125}, verification,
    )  # fmt: skip
    return RunRecord(
        run_id, what, status, ("perfkit", "profile", "k6b@1"), "2026-01-02T03:04:05.678Z",
        "2026-01-02T03:04:06.000Z", "0.1.0", gpu, {"ncu": "2025.3.1.0"}, {"passes": 11}, (kernel,),
        reports=("profile.ncu-rep",), messages=("größe <b>",),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


def make(store: RunStore, *, what: str = "profile", status: str = "complete") -> Path:
    folder = store.create(what)
    (folder.scratch / "profile.ncu-rep").write_bytes(b"report")
    folder.keep("profile.ncu-rep")
    folder.finish(record(folder.id, what=what, status=status))
    return folder.path


class TestRecord:
    def test_round_trip_through_disk(self, store: RunStore) -> None:
        path = make(store)
        assert load_run(path) == dataclasses.replace(record(path.name), path=str(path))

    def test_the_folder_can_be_moved(self, store: RunStore, tmp_path: Path) -> None:
        path = make(store)
        moved = path.rename(tmp_path / "elsewhere")
        assert load_run(moved).path == str(moved)
        assert "path" not in json.loads((moved / "run.json").read_text())

    def test_fields_of_a_later_version_are_kept(self) -> None:
        raw = {**record_to_dict(record("a")), "weather": "mild"}
        raw["gpu"]["fans"] = 3
        raw["kernels"][0]["colour"] = "red"
        read = record_from_dict(raw)
        assert read.extra == {"weather": "mild"}
        assert read.kernels == record("a").kernels

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("{", "cannot be read"),
            ("[]", "schema version None"),
            ('{"schema_version": 99}', "schema version 99"),
            ('{"schema_version": 1}', "is no run record"),
            ('{"schema_version": 1, "kernels": 3}', "is no run record"),
        ],
    )
    def test_damage_is_an_error_that_names_the_file(self, tmp_path: Path, text: str, says: str) -> None:
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(UsageError, match=says) as caught:
            load_run(tmp_path)
        assert str(tmp_path / "run.json") in caught.value.message


class TestIncomplete:
    def test_a_run_in_the_making_is_no_result(self, store: RunStore) -> None:
        folder = store.create("profile")
        (folder.scratch / "profile.ncu-rep").write_bytes(b"half")
        assert [(run.status, run.record) for run in store.list()] == [("incomplete", None)]
        with pytest.raises(UsageError, match="no complete run"):
            load_run(folder.path)
        with pytest.raises(UsageError, match="no complete run"):
            store.latest()

    def test_latest_passes_over_what_is_not_complete(self, store: RunStore) -> None:
        good = make(store)
        make(store, status="failed")
        make(store, status="timeout")
        store.create("profile")
        assert store.latest() == good
        assert [run.status for run in store.list()] == ["complete", "failed", "timeout", "incomplete"]

    def test_killed_while_writing(self, tmp_path: Path) -> None:
        """A process that makes runs without end is killed at many moments; no run.json is half there."""
        root = tmp_path / "runs"
        code = (
            "import sys; sys.path.insert(0, sys.argv[2])\n"
            "from test_run_store import make\n"
            "from perfkit.profiler.run_store import RunStore\n"
            "from pathlib import Path\n"
            "while True: make(RunStore(Path(sys.argv[1])))\n"
        )
        for attempt in range(6):
            process = subprocess.Popen([sys.executable, "-c", code, str(root), str(Path(__file__).parent)])
            deadline = time.monotonic() + 20
            before = len(list(root.glob("*/run.json")))
            while len(list(root.glob("*/run.json"))) == before and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.007 * attempt)
            process.send_signal(signal.SIGKILL)
            process.wait()
        runs = RunStore(root).list()
        assert len(runs) >= 6
        for run in runs:
            assert run.status in ("complete", "incomplete")
            assert not (run.problem and (run.path / "run.json").exists())


def _create(root: str) -> str:
    return RunStore(Path(root)).create("profile").id


class TestIds:
    def test_never_collide_across_processes(self, tmp_path: Path) -> None:
        with multiprocessing.get_context("fork").Pool(4) as pool:
            ids = pool.map(_create, [str(tmp_path)] * 40)
        assert len(set(ids)) == 40

    def test_sort_by_time(self, store: RunStore) -> None:
        ids = [store.create("profile").id for _ in range(25)]
        assert ids == sorted(ids)
        assert ids[0].endswith("Z_profile")


class TestResolve:
    def test_path_id_prefix_latest(self, store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PERFKIT_RUNS", str(store.root))
        monkeypatch.setattr(run_store, "recorded_root", lambda: store.root / "none")
        first, second = make(store), make(store, what="bench")
        assert resolve_run(str(first)) == first
        assert resolve_run(first.name) == first
        assert resolve_run(second.name[:-3]) == second
        assert resolve_run("latest") == second
        assert store.latest("profile") == first
        with pytest.raises(UsageError, match="is the start of 2 runs"):
            resolve_run(first.name[:4])
        with pytest.raises(UsageError, match="there is no run 'nonsense'"):
            resolve_run("nonsense")

    def test_a_folder_of_runs_is_a_collection(self, store: RunStore) -> None:
        first, second = make(store), make(store, what="bench")
        store.create("profile")
        assert resolve_run(str(store.root)) == store.root
        assert run_store.run_folders(store.root) == [first, second]
        assert run_store.run_reports(store.root) == [first / "profile.ncu-rep", second / "profile.ncu-rep"]

    def test_an_ordinary_folder_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is no run"):
            resolve_run(str(tmp_path))

    def test_recorded(self, store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_store, "recorded_root", lambda: store.root)
        with pytest.raises(UsageError, match="without its recorded runs"):
            resolve_run("recorded")
        first = make(store)
        assert resolve_run("recorded") == first
        make(store)
        assert resolve_run("recorded") == store.root


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("perfkit.profiler.run_store.tempfile.NamedTemporaryFile", refuse)
    with pytest.raises(CannotError, match="Permission denied"):
        RunStore(tmp_path / "runs").create("profile")


def test_disk_full_while_the_record_is_written(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = store.create("profile")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotError, match="the disk is full"):
        folder.finish(record(folder.id))
    assert not list(folder.path.glob("*run.json*"))


@given(
    st.dictionaries(
        st.text(max_size=8), st.one_of(st.text(max_size=8), st.integers(), st.booleans()), max_size=4
    )
)
def test_any_options_survive(options: dict[str, object]) -> None:
    changed = dataclasses.replace(record("a"), options=options)
    assert record_from_dict(json.loads(json.dumps(record_to_dict(changed)))) == changed
