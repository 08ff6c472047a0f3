"""The container walk, on containers built here byte by byte."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis import container
from perfkit.analysis.file_kind import check_kind
from perfkit.errors import ReportError
from perfkit.model import Process, WorkloadKind

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


def message(size: int = 200, name: bytes = b"kernel", counters: int = 0) -> bytes:
    """A kernel's result of about so many bytes."""
    content = field(1, 99) + field(6, name) + b"".join(field(13, field(1, n)) for n in range(counters))
    content += field(20, b"x" * max(0, size - len(content)))
    return struct.pack("<I", len(content)) + content


def process(pid: int = 77) -> bytes:
    return field(1, pid) + field(2, b"127.0.0.1") + field(3, b"/usr/bin/python3\0")


def block(results: int, payload: bytes, text: bytes = b"", *, kind: int = 2, names: bytes = b"") -> bytes:
    header = field(1, 0) + field(2, results if kind == 2 else 0) + field(3, text) + field(4, names)
    header += field(5, len(payload)) + field(6, process())
    header += b"" if kind == 2 else field(kind, results)
    return struct.pack("<I", len(header)) + header + payload


def kernels(count: int) -> bytes:
    return block(count, message() * count)


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
    data = report(block(0, b""), block(2, message() * 2, b"Target " + VERSION), kernels(1))
    walked = container.inspect(write(data))
    assert (walked.expected_launches, walked.lost, walked.truncated, walked.problems) == (3, 0, False, ())
    assert walked.ncu_version == VERSION.decode()
    assert walked.clean
    assert walked.readable == len(data)
    assert [one.name for one in walked.results] == ["kernel"] * 3
    assert walked.results[0].process == Process(77, "127.0.0.1", "/usr/bin/python3")


def test_a_file_that_does_not_say_its_version(write: Write) -> None:
    assert container.inspect(write(report(kernels(1)))).ncu_version == ""


@pytest.mark.parametrize(
    ("field_number", "kind"),
    [(7, WorkloadKind.RANGE), (8, WorkloadKind.COMMAND_LIST), (9, WorkloadKind.GRAPH)],
)
def test_every_kind_of_result_is_counted(write: Write, field_number: int, kind: WorkloadKind) -> None:
    whole = report(kernels(1), block(1, message(), kind=field_number))
    walked = container.inspect(write(whole))
    assert [one.kind for one in walked.results] == [WorkloadKind.KERNEL, kind]
    cut = container.inspect(write(whole[:-50]))
    assert (cut.expected_launches, cut.lost, cut.truncated) == (2, 1, True)
    assert "holds 1 workload" in cut.problems[0]


@pytest.mark.parametrize("missing", [1, 57, 99])
def test_a_payload_cut_short_loses_its_launches(write: Write, missing: int) -> None:
    first, last = kernels(1), kernels(2)
    walked = container.inspect(write(report(first, last)[:-missing]))
    assert (walked.expected_launches, walked.lost, walked.truncated) == (3, 2, True)
    assert f"holds 2 launches and lacks {missing} of {2 * len(message())} bytes" in walked.problems[0]
    assert walked.readable == len(report(first))


def test_a_block_header_cut_short(write: Write) -> None:
    whole = report(kernels(1))
    walked = container.inspect(write(whole + kernels(1)[:7]))
    assert (walked.expected_launches, walked.truncated, walked.readable) == (1, True, len(whole))
    assert "inside a block header" in walked.problems[0]


@pytest.mark.parametrize(
    "junk",
    [bytes(37), b"\xff" * 60, b"\xff\xff\xff\xff" + bytes(20), b"text behind it\n" * 9],
    ids=["zeros", "ones", "an absurd header length", "text"],
)
def test_what_lies_behind_a_whole_report_is_named_and_not_read(write: Write, junk: bytes) -> None:
    whole = report(kernels(2))
    walked = container.inspect(write(whole + junk))
    assert (walked.expected_launches, walked.lost, walked.readable) == (2, 0, len(whole))
    assert f"{len(junk)} bytes" in walked.problems[0] or "truncated" in walked.problems[0]


def test_launches_behind_a_damaged_block_are_counted(write: Write) -> None:
    """The header of the second of four blocks is overwritten: it and the two behind it are lost."""
    parts = [kernels(1), kernels(1), kernels(1), kernels(2)]
    data = bytearray(report(*parts))
    second = len(report(parts[0]))
    data[second + 12 : second + 30] = b"\xff" * 18
    walked = container.inspect(write(bytes(data)))
    assert walked.readable == second
    assert len(walked.results) == 1
    assert (walked.expected_launches, walked.lost, walked.truncated) == (5, 4, True)


def test_a_count_that_the_payload_contradicts_is_damage(write: Write) -> None:
    walked = container.inspect(write(report(block(0, message()))))
    assert walked.expected_launches == 1
    assert "declares 0 launches and holds 1" in walked.problems[0]
    absurd = container.inspect(write(report(block(1 << 40, message()))))
    assert absurd.expected_launches == 1


def test_a_result_that_is_not_a_message_is_marked(write: Write) -> None:
    broken = struct.pack("<I", 60) + b"\xff" * 60
    walked = container.inspect(write(report(block(2, message() + broken))))
    assert [one.whole for one in walked.results] == [True, False]


def test_counters_without_a_name_and_garbled_names_are_damage(write: Write) -> None:
    table = field(1, b"gpu__time_duration.sum") + field(1, b"launch__grid_size")
    good = container.inspect(write(report(block(1, message(counters=2), names=table))))
    assert good.clean
    assert good.names == {"gpu__time_duration.sum", "launch__grid_size"}
    unnamed = container.inspect(write(report(block(1, message(counters=3), names=table))))
    assert unnamed.problems == ("is damaged: 1 counters in it have no name",)
    garbled = table.replace(b"__grid", b"\x01\xffgrid")
    walked = container.inspect(write(report(block(1, message(counters=2), names=garbled))))
    assert "1 of its counter names are garbled" in walked.problems[0]


def test_a_header_of_millions_of_fields_costs_little_memory(write: Write) -> None:
    import resource

    header = b"\x08\x00" * 4_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    walked = container.inspect(write(report() + struct.pack("<I", len(header)) + header))
    assert walked.expected_launches == 0
    assert not walked.clean
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_a_huge_hole_is_walked_at_once(tmp_path: Path) -> None:
    """A terabyte that is not there, behind a whole report and inside the payload of a block."""
    start = time.monotonic()
    whole = report(kernels(1))
    behind, inside = tmp_path / "behind.ncu-rep", tmp_path / "inside.ncu-rep"
    behind.write_bytes(whole)
    header = field(1, 0) + field(2, 1) + field(5, 1 << 40) + field(6, process())
    inside.write_bytes(whole + struct.pack("<I", len(header)) + header)
    for path in (behind, inside):
        try:
            os.truncate(path, (1 << 40) + (1 << 39))
        except OSError:
            pytest.skip("this file system has no files of a terabyte")
        walked = container.inspect(path)
        assert walked.readable == len(whole)
        assert len(walked.results) == 1
        assert walked.problems
    assert time.monotonic() - start < 20


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
        check_kind(path)
    assert words in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.remedy


def test_lfs_has_its_own_remedy(write: Write) -> None:
    with pytest.raises(ReportError) as caught:
        check_kind(write(b"version https://git-lfs.github.com/spec/v1"))
    assert "git lfs pull" in caught.value.remedy


def test_the_name_must_be_one_of_a_report(write: Write) -> None:
    with pytest.raises(
        ReportError, match=r"is an Nsight Compute report, and its name does not end in \.ncu-rep"
    ):
        check_kind(write(report(kernels(1)), "a.txt"))


@pytest.mark.parametrize("name", ["a.ncu-rep", "a.ncu-repz", "a"])
def test_a_fifo_is_refused_and_does_not_wait(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(ReportError, match=r"is a FIFO \(a named pipe\)"):
        check_kind(path)


def test_other_special_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="is a character device"):
        check_kind(Path("/dev/zero"))
    link = tmp_path / "gone.ncu-rep"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ReportError, match="is a link to a file that does not exist"):
        check_kind(link)
    loop = tmp_path / "loop.ncu-rep"
    loop.symlink_to(loop)
    with pytest.raises(ReportError, match=r"loop\.ncu-rep"):
        check_kind(loop)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_any_cut_is_noticed_or_on_a_block_boundary(blocks: list[int], data: st.DataObject) -> None:
    """The one thing that cannot be told: a file that ends exactly where a block does."""
    import tempfile

    parts = [kernels(results) for results in blocks]
    whole = report(*parts)
    boundaries = {len(report(*parts[:count])): sum(blocks[:count]) for count in range(len(parts) + 1)}
    cut = data.draw(st.integers(len(report()), len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.ncu-rep"
        path.write_bytes(whole[:cut])
        walked = container.inspect(path)
    assert walked.clean == (cut in boundaries)
    complete = max(end for end in boundaries if end <= cut)
    assert walked.readable == complete
    assert walked.expected_launches - walked.lost == boundaries[complete]


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_walk(tail: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.ncu-rep"
        path.write_bytes(report() + tail)
        walked = container.inspect(path)
    assert walked.expected_launches >= walked.lost >= 0
    assert len(walked.results) == walked.expected_launches - walked.lost


@given(st.integers(0, 3), st.data())
def test_a_changed_byte_loses_nothing_silently(blocks: int, data: st.DataObject) -> None:
    """Wherever it is, the launches are all accounted for: to be read, lost, or perhaps more lost."""
    import tempfile

    whole = bytearray(report(*[kernels(1) for _ in range(blocks + 1)]))
    place = data.draw(st.integers(10, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changed.ncu-rep"
        path.write_bytes(whole)
        walked = container.inspect(path)
    assert walked.expected_launches >= blocks + 1 or walked.truncated or walked.problems
