"""Where output cannot simply be put: links, FIFOs, devices, a full disk."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perfkit.commands import _output_file
from perfkit.commands._console import emit
from perfkit.commands._output_file import write_file
from perfkit.errors import CannotError, UsageError

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.is_char_device(), reason="there is no /dev/full")


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    emit("new", link)
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_link_to_no_file_yet_makes_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    emit("new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new\n"


def test_a_fifo_is_written_into(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()), daemon=True)
    reader.start()
    emit("through", fifo)
    reader.join(10)
    assert read == ["through\n"]
    assert fifo.is_fifo()


def test_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder"):
        write_file(tmp_path, b"")


def test_a_file_that_outgrows_its_limit_is_an_error_of_the_environment_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, kept[1]))
    try:
        with pytest.raises(CannotError, match=r"cannot write .*out\.txt"):
            emit("x" * 100_000, tmp_path / "out.txt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    assert list(tmp_path.iterdir()) == []


def test_only_the_output_file_writes_what_a_command_was_asked_for() -> None:
    folder = Path(_output_file.__file__).parent
    writing = (".write_bytes(", ".write_text(", "mkstemp(")
    found = [path.name for path in folder.glob("*.py") if any(word in path.read_text() for word in writing)]
    assert found == ["_output_file.py"]


def run(*arguments: str, out: Path | None = None, err: Path | None = None) -> tuple[int, str]:
    """Exit code and stderr of `perfkit`, with its output on a device."""
    with (out or Path(os.devnull)).open("w") as stdout, (err or Path(os.devnull)).open("w") as stderr:
        done = subprocess.run(
            [sys.executable, "-m", "perfkit", *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE if err is None else stderr,
            text=True,
            check=False,
        )
    return done.returncode, done.stderr or ""


@needs_full
@pytest.mark.parametrize("arguments", [("show", "recorded"), ("--help",), ("--version",)])
def test_a_full_disk_under_stdout_is_an_error_of_the_environment(arguments: tuple[str, ...]) -> None:
    code, said = run(*arguments, out=FULL)
    assert code == 3
    assert "No space left on device" in said
    assert "internal error" not in said
    assert "Exception ignored" not in said


@needs_full
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(("show", "recorded"), 0), (("show", "no_such.ncu-rep"), 2), (("show", "--no-such-option"), 2)],
)
def test_a_full_disk_under_stderr_changes_no_exit_code(arguments: tuple[str, ...], expected: int) -> None:
    assert run(*arguments, err=FULL)[0] == expected
