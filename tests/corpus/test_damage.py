"""Damaged reports: an error that says what is wrong, or an exact account of what is lost; never silence."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfkit.analysis import container
from perfkit.analysis.launch_json import launches_json
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.analysis.tables import launch_table, long_table, set_tables
from perfkit.errors import ReportError
from perfkit.model import Report
from perfkit.reports import render as render_tables

from . import fuzz

if TYPE_CHECKING:
    from .conftest import Corpus

COUNTERS = ("gpu__time_duration.sum", "smsp__inst_executed.sum", "sass__inst_executed_per_opcode")


def read(paths: list[Path]) -> list[Report]:
    return read_reports(paths, COUNTERS, keep_going=True, jobs=2)


@pytest.mark.parametrize(
    "part", ["cc86_rtx-3070_a4addf", "cc75_rtx-2070_14efcd", "cc89_rtx-4090_a6f4af", "cc86_a10g_be34af"]
)
def test_cut_at_every_5_percent(corpus: Corpus, tmp_path: Path, part: str) -> None:
    original = corpus.find(part)
    data = original.read_bytes()
    expected = int(corpus.index[original.name]["launches"])
    files = []
    for percent in range(5, 100, 5):
        file = tmp_path / f"cut{percent:02}{original.suffix}"
        file.write_bytes(data[: len(data) * percent // 100])
        files.append(file)
    for file, report in zip(files, read(files), strict=True):
        said = " ".join((report.error, *report.problems))
        assert "truncated" in said, (file.name, report)
        assert len(report.launches) <= expected
        if not report.launches:
            assert report.error
            assert str(file) in report.error
        else:
            # Nothing is lost silently: read and known to be lost are all that the remaining blocks declare.
            assert report.expected_launches is not None
            assert len(report.launches) + report.lost == report.expected_launches
            assert report.truncated


def test_a_cut_inside_the_last_launch_loses_exactly_that_launch(corpus: Corpus, tmp_path: Path) -> None:
    original = corpus.find("cc75_rtx-2070_14efcd")
    file = tmp_path / f"cut{original.suffix}"
    file.write_bytes(original.read_bytes()[:-100])
    (report,) = read([file])
    assert (len(report.launches), report.lost, report.truncated) == (7, 1, True)
    assert "holds 1 launch and lacks 100 of" in report.problems[0]


def test_other_kinds_of_file(corpus: Corpus, tmp_path: Path) -> None:
    good = corpus.find("cc86_rtx-3070_a4addf").read_bytes()
    contents = {
        "empty.ncu-rep": (b"", "is empty (0 bytes)"),
        "garbage.ncu-rep": (bytes(range(7, 250)), "starts with the bytes 07 08 09 0a"),
        "table.ncu-rep": (b'"ID","Kernel Name","Metric"\n"0","k","1"\n', "CSV or text table"),
        "pointer.ncu-rep": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        "page.ncu-rep": (b"<!DOCTYPE html><html>404</html>", "HTML"),
        "start.ncu-rep": (good[:3], "truncated"),
        "header.ncu-rep": (good[:9], "truncated inside its file header"),
        "right.txt": (good, "is an Nsight Compute report, and its name does not end in"),
        "database.ncu-rep": (b"SQLite format 3\0" + bytes(100), "SQLite"),
        "folder.ncu-rep": (None, "is a folder"),
        "packed.ncu-repz": (b"\x28\xb5\x2f\xfd" + bytes(60), "zstd"),
    }
    files = []
    for name, (content, _) in contents.items():
        file = tmp_path / name
        file.mkdir() if content is None else file.write_bytes(content)
        files.append(file)
    files.append(tmp_path / "missing.ncu-rep")
    reports = read(files)
    for file, report, (_, words) in zip(files, reports, contents.values(), strict=False):
        assert words in report.error, (file.name, report.error)
        assert str(file) in report.error
        assert report.remedy
    assert "no such file" in reports[-1].error
    with pytest.raises(ReportError, match=r"empty\.ncu-rep: is empty"):
        read_reports(files, COUNTERS)


def test_a_compressed_report(corpus: Corpus, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    original = corpus.find("cc86_rtx-3070_8399c7")
    packed = tmp_path / "packed.ncu-repz"
    packed.write_bytes(zstandard.compress(original.read_bytes()))
    cut = tmp_path / "cut.ncu-repz"
    cut.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    whole, half = read([packed, cut])
    assert [one.kernel for one in whole.launches] == [
        "init_data_kernel",
        "daxpy_kernel",
        "check_results_kernel",
    ]
    assert whole.launches[0].id.report == str(packed)
    assert whole.problems == ()
    assert half.truncated or half.error
    assert str(cut) in (half.error or half.path)


def mutate(data: bytes, seed: int) -> bytes:
    """Flipped bytes, cuts, deletions, insertions, swapped or repeated stretches."""
    rnd = random.Random(seed)
    result = bytearray(data)
    kind = seed % 6
    place, length = rnd.randrange(len(result)), rnd.randrange(1, 300)
    if kind == 0:
        for _ in range(rnd.randrange(1, 30)):
            result[rnd.randrange(len(result))] = rnd.randrange(256)
    elif kind == 1:
        del result[place:]
    elif kind == 2:
        del result[place : place + length]
    elif kind == 3:
        result[place:place] = rnd.randbytes(length)
    elif kind == 4:
        other = rnd.randrange(len(result))
        result[place : place + length], result[other : other + length] = (
            result[other : other + length],
            result[place : place + length],
        )
    else:
        result[place : place + length] = bytes(length)
    return bytes(result)


def render(reports: list[Report]) -> None:
    """Every launch of them in every format that reading is shown in."""
    sets = load_metric_sets()
    evaluated = [sets.evaluate(launch) for report in reports for launch in report.launches]
    assert all(one.launch.name and (one.launch.gpu or one.launch.counters) for one in evaluated)
    assert json.loads(launches_json(evaluated, reports, "0"))
    for few in (evaluated[:8], evaluated):  # side by side, and one a row
        tables = [launch_table(few, sets), *set_tables(few, sets, list(sets.sets))]
        for fmt in ("terminal", "markdown", "csv", "latex", "html"):
            assert render_tables([long_table(few)] if fmt == "csv" else tables, fmt, width=160, color=False)


def test_every_command_on_changed_bytes_and_cuts(corpus: Corpus) -> None:
    """A few of the mutants that fuzz.py makes by thousands, through every command."""
    small = [path for path in corpus.files() if path.stat().st_size < 200_000]
    tally = fuzz.run(small, flips=10, cuts=4, seed=3, only=lambda name: name not in ("report", "roofline"))
    assert tally.faults == []
    assert sum(tally.became.values()) == 14
    assert min(tally.commands[f"show {fmt}"] for fmt in fuzz.FORMATS) == tally.distinct > 7
    assert max(tally.reader_mb, tally.command_mb) < fuzz.MEMORY_MB


def test_a_bad_report_beside_a_good_one(corpus: Corpus, tmp_path: Path) -> None:
    """Each of these flips made the library give a launch without a name; the good report is shown all the
    same.
    """
    good = corpus.find("cc86_rtx-3070_8399c7")
    data = good.read_bytes()
    files = []
    for place, value in ((129875, 0x88), (55038, 0x0A), (127888, 0x29)):
        file = tmp_path / f"{place}.ncu-rep"
        changed = bytearray(data)
        changed[place] = value
        file.write_bytes(changed)
        files += [file, good]
    reports = read(files)
    assert [len(one.launches) for one in reports] == [2, 3] * 3
    assert [one.lost for one in reports] == [1, 0] * 3
    render(reports)


def test_a_counter_name_that_is_no_text_costs_that_counter(corpus: Corpus, tmp_path: Path) -> None:
    """Reading all counters, as `show --raw` does, asked the library for it, which refused the whole file."""
    original = corpus.find("cc86_rtx-3070_8399c7")
    data = bytearray(original.read_bytes())
    place = data.index(b"lts__d_sectors_fill_sysmem.avg.")
    data[place - 3] = 0xB8  # inside the name before it
    file = tmp_path / f"name{original.suffix}"
    file.write_bytes(data)
    (whole, report) = read_reports([original, file], None)
    assert len(report.launches) == len(whole.launches) == 3
    for before, after in zip(whole.launches, report.launches, strict=True):
        gone = set(before.counters) - set(after.counters)
        assert len(gone) <= 1
        assert set(after.counters) == set(before.counters) - gone
    assert any("1 of its counter names are garbled" in one for one in report.problems)


def test_500_mutations(corpus: Corpus, tmp_path: Path) -> None:
    """No crash, no hang, every launch that the container declares is read or said to be lost, and what was
    read can be rendered in every format.
    """
    sources = [
        corpus.find(part) for part in ("cc86_rtx-3070_a4addf", "cc75_rtx-2070_14efcd", "cc89_rtx-4090_e046bb")
    ]
    originals = [(path, path.read_bytes()) for path in sources]
    files = []
    for seed in range(500):
        path, data = originals[seed % 3]
        file = tmp_path / f"{seed:03}{path.suffix}"
        file.write_bytes(mutate(data, seed))
        files.append(file)
    start = time.monotonic()
    reports = read(files)
    assert time.monotonic() - start < 120
    render(reports)
    read_whole = 0
    for seed, report in enumerate(reports):
        expected = int(corpus.index[sources[seed % 3].name]["launches"])
        if report.error:
            assert report.launches == ()
            assert report.remedy
            continue
        if len(report.launches) < expected:
            assert report.problems, (seed, report)
        if report.expected_launches is not None and len(report.launches) < report.expected_launches:
            assert report.lost == report.expected_launches - len(report.launches)
        read_whole += len(report.launches) == expected
    assert 50 < read_whole < 450  # the mutations are neither all fatal nor all harmless


def test_a_crash_of_the_library_takes_down_one_file(corpus: Corpus, tmp_path: Path) -> None:
    """Of mutations that are known to abort the reader some come before and after good files."""
    good = corpus.find("cc86_rtx-3070_8399c7")
    data = corpus.find("cc75_rtx-2070_14efcd").read_bytes()
    files: list[Path] = []
    for seed in range(2, 302, 6):  # deletions: the kind that aborts
        bad = tmp_path / f"{seed}.ncu-rep"
        bad.write_bytes(mutate(data, seed))
        files += [bad, good]
    reports = read(files)
    assert [len(one.launches) for one in reports[1::2]] == [3] * (len(files) // 2)
    assert all(one.error or one.problems for one in reports[0::2])


def test_the_container_of_every_report_is_walked_to_the_last_byte(corpus: Corpus) -> None:
    for path in corpus.files():
        walked = container.inspect(path)
        assert walked.clean
        assert walked.expected_launches == int(corpus.index[path.name]["launches"])
