"""What reading says of launches and damage, on real reports and on damaged copies of them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard

import perfkit
from perfkit.analysis.report import read_report, read_reports
from perfkit.errors import ReportError
from perfkit.model import Device, Process, Report, WorkloadKind

DATA = Path(__file__).parents[2] / "data"
CASES = DATA / "cases"
RUNS = DATA / "runs"
TIME = ("gpu__time_duration.sum",)
ONE = CASES / "two_devices.ncu-rep"


def read(path: Path) -> Report:
    (report,) = read_reports([path], TIME, keep_going=True)
    return report


def copy(folder: Path, data: bytes, name: str = "a.ncu-rep") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_kinds_of_workload() -> None:
    found = read(CASES / "kernel_then_graph.ncu-rep").launches
    assert [(one.kind, one.name) for one in found] == [
        (WorkloadKind.KERNEL, "void saxpy<float>(int, T1, const T1 *, T1 *)"),
        (WorkloadKind.GRAPH, "graph 0"),
    ]
    assert found[0].grid is not None
    assert found[1].grid is None
    assert found[1].block is None
    ranges = read(CASES / "two_plain_ranges.ncu-rep").launches
    assert [(one.kind, one.kernel) for one in ranges] == [
        (WorkloadKind.RANGE, "range 0"),
        (WorkloadKind.RANGE, "range 1"),
    ]


@pytest.mark.parametrize(("name", "left"), [("kernel_then_graph_cut", 1), ("graph_cut_payload", 0)])
def test_a_cut_graph_is_one_lost_workload(name: str, left: int) -> None:
    report = read(CASES / f"{name}.ncu-rep")
    assert (len(report.launches), report.lost, report.truncated) == (left, 1, True)
    said = report.error or " ".join(report.problems)
    assert "holds 1 workload (graph 1)" in said


def test_devices_and_processes() -> None:
    first, second = read(ONE).launches
    assert first.device == Device(0, "0000:00:06")
    assert second.device == Device(1, "0000:00:06")
    assert first.process == second.process == Process(2671, "127.0.0.1", "/usr/bin/python3.12")


def test_the_uuid_of_a_run_is_that_of_its_own_launches_only(tmp_path: Path) -> None:
    run = RUNS / "held"
    stored = json.loads((run / "run.json").read_text())
    assert {one.device.uuid for one in read(run / "profile.ncu-rep").launches} == {stored["gpu"]["uuid"]}
    assert {one.device.uuid for one in read(RUNS / "programs" / "cpp" / "profile.ncu-rep").launches} == {""}
    changes: tuple[dict[str, object], ...] = (
        {"gpu": {**stored["gpu"], "name": "NVIDIA A100"}},
        {"kernels": []},
        {"reports": ["other.ncu-rep"]},
        {"gpu": 7},
        {"gpu": {"name": stored["gpu"]["name"], "uuid": ["x"]}},
    )
    for change in changes:
        shutil.copy(run / "profile.ncu-rep", tmp_path)
        (tmp_path / "run.json").write_text(json.dumps({**stored, **change}))
        assert {one.device.uuid for one in read(tmp_path / "profile.ncu-rep").launches} == {""}, change


def test_a_launch_that_cannot_be_parsed_is_lost_and_the_rest_is_read(tmp_path: Path) -> None:
    """One byte: the type of a counter's field, so that the library takes the result for nothing."""
    data = bytearray(ONE.read_bytes())
    place = data.index(b"add_kernel", data.index(b"add_kernel") + 1) + 200
    for offset in range(place, place + 2000):
        changed = bytearray(data)
        changed[offset] ^= 0x07
        report = read(copy(tmp_path, bytes(changed)))
        if report.lost:
            assert (len(report.launches), report.lost, report.expected_launches) == (1, 1, 2)
            assert any("cannot be parsed" in one for one in report.problems)
            assert any("has lost 1 of the 2 launches" in one for one in report.problems)
            assert all(one.name and one.gpu for one in report.launches)
            return
    pytest.fail("no byte made the library give up the launch")


@pytest.mark.parametrize("size", [37, 40_000_000])
def test_junk_behind_a_report(tmp_path: Path, size: int) -> None:
    path = copy(tmp_path, ONE.read_bytes() + bytes(size))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    start = time.monotonic()
    report = read(path)
    assert time.monotonic() - start < 10
    assert (len(report.launches), report.lost) == (2, 0)
    assert any(f"has {size:,} bytes behind its last whole block" in one for one in report.problems)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 300_000)  # kB


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.ncu-rep")
    report = read(tmp_path / "a.ncu-rep")
    assert "is a FIFO (a named pipe)" in report.error
    assert "to a file" in report.remedy


def test_frames_and_junk_behind_a_compressed_report(tmp_path: Path) -> None:
    data = ONE.read_bytes()
    half = len(data) // 2
    two = copy(tmp_path, zstandard.compress(data[:half]) + zstandard.compress(data[half:]), "two.ncu-repz")
    report = read(two)
    assert len(report.launches) == 2
    assert any("is made of 2 zstd frames" in one for one in report.problems)
    junk = copy(tmp_path, zstandard.compress(data) + b"x" * 5000, "junk.ncu-repz")
    report = read(junk)
    assert len(report.launches) == 2
    assert any("has 5,000 bytes behind its zstd frame" in one for one in report.problems)
    packed = zstandard.compress((RUNS / "held" / "profile.ncu-rep").read_bytes())
    cut = read(copy(tmp_path, packed[: len(packed) * 9 // 10], "cut.ncu-repz"))
    assert any("is truncated: its zstd compression ends after" in one for one in cut.problems)
    assert cut.truncated
    assert cut.lost > 0


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """131 kB that hold 4 GB."""
    zeros = zstandard.ZstdCompressor(level=1).compressobj()
    packed = bytearray(zeros.compress(ONE.read_bytes()))
    for _ in range(4096):
        packed += zeros.compress(bytes(1 << 20))
    packed += zeros.flush()
    path = copy(tmp_path, bytes(packed), "bomb.ncu-repz")
    report = read(path)
    assert "is not unpacked" in report.error
    assert "PERFKIT_UNPACK_LIMIT" in report.remedy
    small = copy(tmp_path, zstandard.compress(ONE.read_bytes()), "small.ncu-repz")
    monkeypatch.setenv("PERFKIT_UNPACK_LIMIT", "50000")
    assert "hold more than 50,000" in read(small).error
    monkeypatch.setenv("PERFKIT_UNPACK_LIMIT", "100000")
    assert len(read(small).launches) == 2
    monkeypatch.setenv("PERFKIT_UNPACK_LIMIT", "much")
    assert "is not a number of bytes" in read(small).error


def test_a_full_disk_is_what_the_machine_cannot_do(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk that is full."""
    path = copy(tmp_path, zstandard.compress((RUNS / "held" / "profile.ncu-rep").read_bytes()), "a.ncu-repz")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "sys.argv = ['perfkit', 'show', sys.argv[1]]; from perfkit.cli import main; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(perfkit.__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 3, ended.stderr
    assert f"{path}: cannot be unpacked into" in ended.stderr
    assert "TMPDIR" in ended.stderr


def test_a_link_to_a_report_is_read(tmp_path: Path) -> None:
    link = tmp_path / "link.ncu-rep"
    link.symlink_to(ONE)
    assert len(read(link).launches) == 2
    packed = tmp_path / "named.ncu-repz"
    packed.symlink_to(ONE)
    assert len(read(packed).launches) == 2


def test_an_error_of_one_file_is_raised_with_its_name(tmp_path: Path) -> None:
    path = copy(tmp_path, b"NVR\0" + bytes(3))
    with pytest.raises(ReportError, match=r"a\.ncu-rep: is truncated inside its file header"):
        read_report(path, TIME)
