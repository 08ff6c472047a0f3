"""Reading processes against a stand-in reader that crashes, hangs, raises and prints."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.analysis import reader, workers
from perfkit.analysis.report import read_reports
from perfkit.errors import ReportError
from perfkit.model import Report

FAKE = Path(__file__).parent / "fake_reader"
COUNTERS = ("gpu__time_duration.sum",)
Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers import the stand-in; nothing is read in this process."""
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    monkeypatch.setattr(reader, "library", lambda: None)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file whose container is whole and declares one launch."""

    def write_file(name: str) -> Path:
        header = bytes((8, 0, 16, 1, 40, 0))
        path = tmp_path / f"{name}.ncu-rep"
        path.write_bytes(b"NVR\0" + struct.pack("<I", 2) + b"\x08\x07" + struct.pack("<I", 6) + header)
        return path

    return write_file


def read(*paths: Path, jobs: int = 1) -> list[Report]:
    return read_reports(paths, COUNTERS, jobs=jobs, keep_going=True)


def process_of(report: Report) -> float:
    return float(report.launches[0].counters["gpu__time_duration.sum"].value or 0)


def test_a_good_file_is_read_in_another_process(write: Write) -> None:
    (report,) = read(write("good"))
    assert report.error == ""
    assert report.problems == (
        "does not say which GPU it is of: it may have been cut after its first launches",
    )
    assert process_of(report) not in (0, os.getpid())
    launch = report.launches[0]
    assert (launch.key, launch.problem, launch.label) == ("k6b@1", "n=4096", "k6b@1")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("abort", "ncu_report crashed while reading it (SIGABRT)"),
        ("exit", "ncu_report crashed while reading it (exit code 3)"),
        ("raise", "ncu_report cannot read it: cannot parse the message"),
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_crash_takes_down_one_file(write: Write, kind: str, words: str, jobs: int) -> None:
    bad = write(kind)
    before, broken, after = read(write("a"), bad, write("b"), jobs=jobs)
    assert broken.error == f"{bad}: {words}"
    assert broken.remedy
    assert (broken.launches, broken.lost) == ((), 1)
    assert len(before.launches) == len(after.launches) == 1


def test_a_hang_is_ended(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_TIMEOUT_S", 0.5)
    start = time.monotonic()
    hung, after = read(write("hang"), write("good"))
    assert time.monotonic() - start < 20
    assert "did not finish reading it" in hung.error
    assert len(after.launches) == 1


def test_without_keep_going_the_first_error_is_raised(write: Write) -> None:
    with pytest.raises(ReportError, match="crashed"):
        read_reports([write("good"), write("abort")], COUNTERS)


def test_processes_are_replaced_before_the_library_has_filled_them(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [write(str(number)) for number in range(4)]
    same = {process_of(report) for report in read(*files)}
    assert len(same) == 1
    monkeypatch.setattr(workers, "_BYTES_PER_PROCESS", 2 * files[0].stat().st_size)
    replaced = {process_of(report) for report in read(*files)}
    assert len(replaced) == 2


def test_no_process_is_left_behind(write: Write) -> None:
    reports = read(write("a"), write("b"), jobs=2)
    time.sleep(0.1)
    for report in reports:
        with pytest.raises(ProcessLookupError):
            os.kill(int(process_of(report)), 0)


def test_progress_is_told_for_every_file(write: Write) -> None:
    seen: list[str] = []
    files = [write("a"), write("abort"), write("b")]
    read_reports(files, COUNTERS, jobs=2, keep_going=True, progress=lambda one: seen.append(one.path))
    assert sorted(seen) == sorted(map(str, files))
