"""Reading processes against a stand-in reader that crashes, hangs, raises and prints."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import perfkit
from perfkit.analysis import reader, workers
from perfkit.analysis.report import read_reports
from perfkit.errors import ReportError
from perfkit.model import Report

FAKE = Path(__file__).parent / "fake_reader"
ROOT = Path(perfkit.__file__).parents[1]
COUNTERS = ("gpu__time_duration.sum", "size.sum")
Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers import the stand-in; nothing is read in this process."""
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    monkeypatch.setattr(reader, "library", lambda: None)


def content() -> bytes:
    """A container with one kernel named "kernel" and no counter."""
    message = bytes((8, 1, 50, 6)) + b"kernel"
    payload = struct.pack("<I", len(message)) + message
    header = bytes((8, 0, 16, 1, 40, len(payload)))
    return b"NVR\0" + struct.pack("<I", 2) + b"\x08\x07" + struct.pack("<I", len(header)) + header + payload


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file whose container is whole and holds one launch."""

    def write_file(name: str) -> Path:
        path = tmp_path / f"{name}.ncu-rep"
        path.write_bytes(content())
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
    monkeypatch.setattr(workers, "_TIMEOUT_S", 4)  # a busy machine takes a second to start Python
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


def ended(pid: int, within: float = 10) -> bool:
    """Whether a process is gone, or dead and not yet collected, within so many seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("packed", [False, True])
def test_a_killed_command_leaves_no_process_and_no_file(
    write: Write, tmp_path: Path, how: signal.Signals, packed: bool
) -> None:
    """Killed while the library is busy, with what it reads unpacked."""
    file = write("hang")
    if packed:
        zstandard = pytest.importorskip("zstandard")
        file = file.with_suffix(".ncu-repz")
        file.write_bytes(zstandard.compress(content()))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    told = tmp_path / "reader.pid"
    code = (
        "import sys; from perfkit.analysis import reader; reader.library = lambda: None\n"
        "from perfkit.analysis.report import read_reports\n"
        "read_reports(sys.argv[1:], None)"
    )
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join([str(FAKE), str(Path(perfkit.__file__).parents[1])]),
        "FAKE_READER_HANGS": str(told),
    }
    command = subprocess.Popen(
        [sys.executable, "-c", code, str(file)], env=environment, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 30
    while not (told.exists() and told.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    worker = int(told.read_text())
    assert not ended(worker, within=0.2)
    command.send_signal(how)
    command.wait(timeout=20)
    assert ended(worker)
    assert list(temporary.iterdir()) == []


def test_a_reading_process_that_waits_ends_with_its_parent(write: Write) -> None:
    code = (
        "import os, sys; from perfkit.analysis.workers import Workers\n"
        "workers = Workers(1)\n"
        "print(int(workers.read(sys.argv[1], ['x'])[1][0][7]['gpu__time_duration.sum'][0]), flush=True)\n"
        "os._exit(0)"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(FAKE), str(Path(perfkit.__file__).parents[1])]),
    }
    said = subprocess.run(
        [sys.executable, "-c", code, str(write("good"))], env=environment, capture_output=True, check=True
    )
    assert ended(int(said.stdout))


def test_the_library_gets_the_whole_part_only(write: Write) -> None:
    """Junk behind a report never reaches it; the junk is reported with its size."""
    file = write("good")
    file.write_bytes(content() + bytes(37))
    (report,) = read(file)
    assert len(report.launches) == 1
    assert report.lost == 0
    assert any(problem.startswith("has 37 bytes behind its last whole block") for problem in report.problems)
    assert float(report.launches[0].counters["size.sum"].value or 0) == len(content())


def test_a_launch_that_the_library_cannot_parse_is_lost(write: Write) -> None:
    (report,) = read(write("nameless"))
    assert report.launches == ()
    assert (report.lost, report.expected_launches) == (1, 1)
    assert "launch 0 cannot be parsed" in report.error


def test_text_that_is_not_unicode_can_be_printed(write: Write) -> None:
    (report,) = read(write("surrogate"))
    launch = report.launches[0]
    for text in (launch.kernel, launch.name, launch.gpu):
        text.encode("utf-8")
    assert any("name other launches" in problem for problem in report.problems)


def test_a_file_in_the_current_folder_is_not_imported(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of Python's name beside the report must not run in the reading process."""
    file = write("good")
    for name in ("queue", "signal", "struct", "mmap", "tempfile", "zstandard", "json", "ncu_report"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'hijacked')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    assert len(read(file)[0].launches) == 1
    assert not (tmp_path / "hijacked").exists()


def test_a_command_keeps_its_process_for_the_next_reading(write: Write) -> None:
    file = write("good")
    with workers.one_process_kept():
        first, second = (process_of(read(file)[0]) for _ in range(2))
        crashed = read(write("abort"))[0]
        third, fourth = (process_of(read(file)[0]) for _ in range(2))
    assert "crashed" in crashed.error
    assert first == second != third == fourth
    assert ended(int(fourth), within=0.2)
    assert process_of(read(file)[0]) != process_of(read(file)[0])  # elsewhere none outlives its reading


def test_several_processes_at_a_time_are_not_kept(write: Write) -> None:
    """One that was started again after a crash ends with the thread that started it."""
    good, bad = write("good"), write("abort")
    with workers.one_process_kept():
        for _ in range(3):
            crashed = read(*[bad, good, good] * 4, jobs=2)
            assert [bool(one.error) for one in crashed] == [True, False, False] * 4
            assert [one.error for one in read(good)] == [""]


def test_a_reading_process_starts_light() -> None:
    """Each start costs what it imports; these are for the command alone."""
    code = "import sys; from perfkit.analysis.isolated import serve; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"subprocess", "concurrent.futures", "tempfile", "logging", "numpy", "pandas", "typer"}
    heavy |= {f"perfkit.{name}" for name in ("model.explain", "model.bench", "analysis.workers", "cli")}
    assert heavy & set(said.stdout.split()) == set()
