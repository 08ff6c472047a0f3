"""Files that a user names: a FIFO, a device or a huge file is refused by name, and nothing waits for it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.analysis.baseline import load_baseline
from perfkit.analysis.claims import load_claims
from perfkit.analysis.rules import load_rules
from perfkit.errors import UsageError
from perfkit.kernels.toml_file import TomlFile
from perfkit.profiler.run_store import RECORD, load_run
from perfkit.reports.ceilings import read_ceilings
from perfkit.user_file import read_bytes, read_text

PACKAGE = Path(__file__).parents[2] / "perfkit"
READERS: dict[str, Callable[[Path], object]] = {
    "rules": lambda path: load_rules(path, ()),
    "claims": load_claims,
    "baseline": load_baseline,
    "ceilings": read_ceilings,
    "kernels": TomlFile,
}


@pytest.fixture
def written_fifo(tmp_path: Path) -> Path:
    """A FIFO that somebody else holds open and never writes to; a reader of it would wait for ever."""
    os.mkfifo(tmp_path / "fifo.toml")
    return tmp_path / "fifo.toml"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_no_reader_waits_for_a_fifo(reader: Callable[[Path], object], written_fifo: Path) -> None:
    with pytest.raises(UsageError, match=r"fifo\.toml.*it is a FIFO"):
        reader(written_fifo)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_no_reader_reads_a_device(reader: Callable[[Path], object]) -> None:
    with pytest.raises(UsageError, match=r"/dev/zero.*it is a character device"):
        reader(Path("/dev/zero"))


@pytest.mark.timeout(20)
def test_a_run_whose_record_is_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RECORD)
    with pytest.raises(UsageError, match="it is a FIFO"):
        load_run(tmp_path)


def test_a_link_to_a_file_is_read_and_one_to_a_device_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "link") == "one\ntwo\n"
    (tmp_path / "device").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="character device"):
        read_bytes(tmp_path / "device")


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    assert read_bytes(tmp_path / "big", 11) == b"x" * 11
    with pytest.raises(OSError, match="too large"):
        read_bytes(tmp_path / "big", 10)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "recorded", "--rules"),
        ("roofline", "recorded", "--ceilings"),
        ("article", "recorded", "--claims"),
        ("article", "recorded", "--template"),
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_commands_refuse_a_fifo(arguments: tuple[str, ...], written_fifo: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "perfkit", *arguments, str(written_fifo)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "it is a FIFO" in done.stderr


def test_toml_of_users_is_read_in_one_way() -> None:
    """Who parses TOML reads the text with `read_text` here, or opens a file of the package."""
    for module in PACKAGE.rglob("*.py"):
        text = module.read_text()
        if "tomllib.load" in text:
            reads = [
                node.func.attr
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            ]
            assert "read_text" not in reads, module
