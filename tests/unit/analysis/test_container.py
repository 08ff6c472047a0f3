"""The container walk, on containers built here byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis import container
from perfkit.errors import ReportError

Write = Callable[..., Path]
VERSION = b"2025.3.1.0 (build 36398880)"


def varint(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*result, value))


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def block(results: int, payload: bytes, text: bytes = b"") -> bytes:
    header = field(1, 0) + field(2, results) + field(4, text) + field(5, len(payload))
    return struct.pack("<I", len(header)) + header + payload


def report(*blocks: bytes) -> bytes:
    header = field(1, 7)
    return b"NVR\0" + struct.pack("<I", len(header)) + header + b"".join(blocks)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(data: bytes, name: str = "a.ncu-rep") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write_file


def test_results_are_added_up_and_the_version_found(write: Write) -> None:
    data = report(block(0, b"x" * 300), block(2, b"y" * 5000, b"Target " + VERSION), block(1, b""))
    walked = container.inspect(write(data))
    assert (walked.expected_launches, walked.lost, walked.truncated, walked.problems) == (3, 0, False, ())
    assert walked.ncu_version == VERSION.decode()
    assert walked.clean


def test_a_file_that_does_not_say_its_version(write: Write) -> None:
    assert container.inspect(write(report(block(1, b"z")))).ncu_version == ""


@pytest.mark.parametrize("missing", [1, 57, 99])
def test_a_payload_cut_short_loses_its_launches(write: Write, missing: int) -> None:
    data = report(block(1, b"a" * 100), block(2, b"b" * 100))
    walked = container.inspect(write(data[:-missing]))
    assert (walked.expected_launches, walked.lost, walked.truncated) == (3, 2, True)
    assert f"holds 2 launches and lacks {missing} of 100 bytes" in walked.problems[0]


def test_a_block_header_cut_short(write: Write) -> None:
    whole = report(block(1, b"a" * 100))
    walked = container.inspect(write(whole + block(1, b"b")[:7]))
    assert (walked.expected_launches, walked.truncated) == (1, True)
    assert "inside a block header" in walked.problems[0]


def test_bytes_that_are_no_block(write: Write) -> None:
    walked = container.inspect(write(report(block(1, b"a" * 10)) + struct.pack("<I", 6) + b"\xff" * 60))
    assert walked.expected_launches == 1
    assert "is damaged: what should be a block at byte" in walked.problems[0]


def test_an_absurd_header_length_is_damage_and_read_no_further(write: Write) -> None:
    walked = container.inspect(write(report(block(1, b"")) + b"\xff\xff\xff\xff" + bytes(20)))
    assert "is damaged" in walked.problems[0]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        (b"\xef\xbb\xbfID,Process\n1,2\n", "CSV or text table"),
        (b"hello\n", "is a text file"),
        (b'{"a": 1}', "is JSON"),
        (b"<html>", "HTML or XML"),
        (b"\x7fELF....", "ELF"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"\x00\x01\x02\x03", "starts with the bytes 00 01 02 03"),
    ],
)
def test_what_a_wrong_file_is(write: Write, start: bytes, words: str) -> None:
    path = write(start)
    with pytest.raises(ReportError) as caught:
        container.inspect(path)
    assert words in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.remedy


def test_lfs_has_its_own_remedy(write: Write) -> None:
    with pytest.raises(ReportError) as caught:
        container.inspect(write(b"version https://git-lfs.github.com/spec/v1"))
    assert "git lfs pull" in caught.value.remedy


def test_the_name_must_be_one_of_a_report(write: Write) -> None:
    with pytest.raises(
        ReportError, match=r"is an Nsight Compute report, and its name does not end in \.ncu-rep"
    ):
        container.inspect(write(report(block(1, b"")), "a.txt"))


@given(st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=300)), min_size=1, max_size=6), st.data())
def test_any_cut_is_noticed_or_on_a_block_boundary(
    blocks: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    """The one thing that cannot be told: a file that ends exactly where a block does."""
    import tempfile

    parts = [block(results, payload) for results, payload in blocks]
    whole = report(*parts)
    boundaries = {
        len(report(*parts[:count])): sum(r for r, _ in blocks[:count]) for count in range(len(parts) + 1)
    }
    cut = data.draw(st.integers(len(report()), len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.ncu-rep"
        path.write_bytes(whole[:cut])
        walked = container.inspect(path)
    assert walked.clean == (cut in boundaries)
    complete = max(end for end in boundaries if end <= cut)
    assert walked.expected_launches - walked.lost == boundaries[complete]


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_walk(tail: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.ncu-rep"
        path.write_bytes(report() + tail)
        walked = container.inspect(path)
    assert walked.expected_launches >= walked.lost >= 0
