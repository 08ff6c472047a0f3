"""Opcode metrics put together from counts by address and the stored listing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from perfkit.analysis.opcode_counts import (
    PER_OPCODE,
    PER_OPCODE_AND_MODIFIERS,
    kernel_of,
    opcode_counters,
    read_listings,
)
from perfkit.analysis.report import read_reports
from perfkit.model import Launch

LISTING = ("LDC", "LDS.128", "FFMA", "FFMA", "LDS", "EXIT")
BASE = 0x7F00
COUNTS = [(BASE + 16 * index, count) for index, count in enumerate((8, 64, 512, 512, 64, 8))]


def test_counts_add_up_by_opcode_and_by_modifier() -> None:
    made = opcode_counters(LISTING, BASE, COUNTS, 1168)
    assert made[PER_OPCODE] == (1168, "inst", (("EXIT", 8), ("FFMA", 1024), ("LDC", 8), ("LDS", 128)))
    assert dict(made[PER_OPCODE_AND_MODIFIERS][2]) == {
        "EXIT": 8,
        "FFMA": 1024,
        "LDC": 8,
        "LDS": 64,
        "LDS.128": 64,
    }


@pytest.mark.parametrize(
    ("base", "total"),
    [(BASE, 1167), (BASE + 16, 1168), (BASE + 8, 1168), (BASE - 16 * 100, 1168)],
    ids=["total differs", "address before the kernel", "between two instructions", "address past its end"],
)
def test_a_listing_that_does_not_fit_gives_nothing(base: int, total: int) -> None:
    assert opcode_counters(LISTING, base, COUNTS, total) == {}


def entry(kernel: str, opcodes: str, symbol: str = "spill") -> dict[str, str]:
    return {"kernel": kernel, "symbol": symbol, "cubin_sha256": "", "arch": "sm_90", "opcodes": opcodes}


def write(folder: Path, content: object) -> Path:
    (folder / "profile.sass.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / "profile.ncu-rep"


def test_two_builds_of_one_function_have_their_own_listings(tmp_path: Path) -> None:
    report = write(
        tmp_path,
        {"schema_version": 2, "kernels": [entry("plain", "LDC FFMA EXIT"), entry("tight", "LDC STL EXIT")]},
    )
    listings = read_listings(report)
    assert listings.problem == ""
    assert listings.of("plain", "spill") == ("LDC", "FFMA", "EXIT")
    assert listings.of("tight", "spill") == ("LDC", "STL", "EXIT")
    assert listings.of(None, "spill") == ()
    assert listings.of("plain", "other") == ()


def test_a_kernel_held_to_fewer_blocks_is_the_same_code() -> None:
    assert kernel_of("k6b@1") == "k6b"
    assert kernel_of("k6b") == "k6b"
    assert kernel_of(None) is None


def test_a_file_by_symbol_is_used_where_it_is_clear_whose_it_is(tmp_path: Path) -> None:
    report = write(tmp_path, {"kernels": {"sgemm_k6": "LDC LDS.128 EXIT", "spill": "LDC STL EXIT"}})
    listings = read_listings(report)
    apart = listings.told_apart([("k6", "sgemm_k6"), ("k6", "sgemm_k6"), ("plain", "spill")])
    assert apart.of("k6", "sgemm_k6") == ("LDC", "LDS.128", "EXIT")
    assert apart.of("plain", "spill") == ("LDC", "STL", "EXIT")
    assert apart.problem == ""
    unclear = listings.told_apart([("k6", "sgemm_k6"), ("plain", "spill"), ("tight", "spill")])
    assert unclear.of("k6", "sgemm_k6") == ("LDC", "LDS.128", "EXIT")
    assert unclear.of("plain", "spill") == unclear.of("tight", "spill") == ()
    assert "plain, tight" in unclear.problem
    assert "profile again" in unclear.problem


def test_a_report_without_the_file_has_no_problem(tmp_path: Path) -> None:
    listings = read_listings(tmp_path / "profile.ncu-rep")
    assert not listings
    assert listings.problem == ""


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "",
        "\x00" * 50,
        "[" * 200_000,
        "7",
        "[]",
        "{}",
        {"kernels": None},
        {"kernels": {"a": 7}},
        {"kernels": [entry("a", "EXIT")]},
        {"schema_version": 3, "kernels": [entry("a", "EXIT")]},
        {"schema_version": 2, "kernels": {"a": "EXIT"}},
        {"schema_version": 2, "kernels": [7]},
        {"schema_version": 2, "kernels": [{**entry("a", "EXIT"), "opcodes": ["EXIT"]}]},
        {"schema_version": 2, "kernels": [{**entry("a", "EXIT"), "symbol": None}]},
        {"schema_version": 2, "kernels": [entry("a", "EXIT"), entry("a", "NOP EXIT")]},
    ],
    ids=range(16),
)
def test_a_file_that_cannot_be_used_is_said(tmp_path: Path, content: object) -> None:
    listings = read_listings(write(tmp_path, content))
    assert not listings
    assert listings.problem.startswith("has no opcode counts: profile.sass.json beside it cannot be used")


def test_something_else_of_that_name_does_not_hold_up_reading(tmp_path: Path) -> None:
    """A FIFO would wait for a writer, a file of gigabytes would be taken into memory."""
    os.mkfifo(tmp_path / "profile.sass.json")
    assert "it is a FIFO (a named pipe), not a file" in read_listings(tmp_path / "profile.ncu-rep").problem
    (tmp_path / "big.sass.json").touch()
    os.truncate(tmp_path / "big.sass.json", 1 << 33)
    assert "it is too large" in read_listings(tmp_path / "big.ncu-rep").problem


PER = (PER_OPCODE, PER_OPCODE_AND_MODIFIERS)
HELD = Path(__file__).parents[2] / "data" / "runs" / "held"


def renamed(folder: Path, label: str) -> Path:
    """The report of two launches of sgemm_k1 (k1 and k1@1), of which the second says another kernel."""
    folder.mkdir()
    report = folder / "profile.ncu-rep"
    data = (HELD / "profile.ncu-rep").read_bytes()
    assert data.count(b"perfkit:k1@1:") > 0
    report.write_bytes(data.replace(b"perfkit:k1@1:", f"perfkit:{label}:".encode()))
    return report


def test_reading_takes_the_listing_of_the_kernel_that_was_launched(tmp_path: Path) -> None:
    """The everyday regression: one function built twice in one run, each with its own opcode counts."""
    stored = json.loads((HELD / "profile.sass.json").read_text())["kernels"]
    k1 = next(one for one in stored if one["kernel"] == "k1")
    held = {**k1, "kernel": "kt", "opcodes": k1["opcodes"].replace("FFMA", "DFMA")}
    report = renamed(tmp_path / "two", "kt@1")
    write(report.parent, {"schema_version": 2, "kernels": [held, k1]})
    found = {one.label: dict(one.counters[PER_OPCODE].instances) for one in of_k1(report)}
    assert found["k1"]["FFMA"] == found["kt@1"]["DFMA"] > 0
    assert "DFMA" not in found["k1"]
    assert "FFMA" not in found["kt@1"]


def of_k1(path: Path) -> list[Launch]:
    (report,) = read_reports([path], PER)
    return [one for one in report.launches if one.kernel == "sgemm_k1" and one.problem == "n=4096"]


def test_an_old_file_gives_no_counts_to_two_kernels_of_one_function(tmp_path: Path) -> None:
    stored = json.loads((HELD / "profile.sass.json").read_text())["kernels"]
    report = renamed(tmp_path / "old", "kt@1")
    write(report.parent, {"kernels": {one["symbol"]: one["opcodes"] for one in stored}})
    (read,) = read_reports([report], PER)
    k1 = [one for one in read.launches if one.kernel == "sgemm_k1"]
    assert not any(PER_OPCODE in one.counters for one in k1)
    assert any(PER_OPCODE in one.counters for one in read.launches)
    assert any("has no opcode counts for k1, kt" in problem for problem in read.problems)


def test_a_compressed_report_finds_the_file_beside_it(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "profile.ncu-repz").write_bytes(zstandard.compress((HELD / "profile.ncu-rep").read_bytes()))
    (tmp_path / "profile.sass.json").write_bytes((HELD / "profile.sass.json").read_bytes())
    (read,) = read_reports([tmp_path / "profile.ncu-repz"], PER)
    assert all(PER_OPCODE in one.counters for one in read.launches if one.kernel.startswith("sgemm_k"))


def copied(folder: Path) -> Path:
    return Path(shutil.copy(HELD / "profile.ncu-rep", folder))


def test_a_listing_of_other_code_is_said_with_kernel_and_file(tmp_path: Path) -> None:
    stored = json.loads((HELD / "profile.sass.json").read_text())["kernels"]
    shorter = [{**one, "opcodes": "LDC EXIT"} if one["kernel"] == "k1" else one for one in stored]
    report = copied(tmp_path)
    write(tmp_path, {"schema_version": 2, "kernels": shorter})
    (read,) = read_reports([report], PER)
    (said,) = [problem for problem in read.problems if "no opcode counts" in problem]
    assert said.startswith("has no opcode counts for k1: the listing in profile.sass.json")
    assert not any(PER_OPCODE in one.counters for one in read.launches if one.kernel == "sgemm_k1")


def test_a_listing_of_another_function_under_the_kernels_name_is_said(tmp_path: Path) -> None:
    stored = json.loads((HELD / "profile.sass.json").read_text())["kernels"]
    swapped = [{**one, "symbol": "other"} if one["kernel"] == "k1" else one for one in stored]
    report = copied(tmp_path)
    write(tmp_path, {"schema_version": 2, "kernels": swapped})
    (read,) = read_reports([report], PER)
    assert any("for k1: profile.sass.json beside it lists other functions" in one for one in read.problems)


def test_nothing_is_said_of_listings_that_fit_or_that_nobody_asked_for(tmp_path: Path) -> None:
    (read,) = read_reports([HELD / "profile.ncu-rep"], PER)
    assert read.problems == ()
    report = copied(tmp_path)
    write(tmp_path, {"schema_version": 2, "kernels": [entry("k1", "EXIT", "sgemm_k1")]})
    (read,) = read_reports([report], ["gpu__time_duration.sum"])
    assert read.problems == ()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("null", "it holds nothing"),
        ({"schema_version": 99, "kernels": []}, "it is of a newer perfkit (schema_version 99"),
    ],
)
def test_why_a_file_cannot_be_used(tmp_path: Path, content: object, why: str) -> None:
    assert why in read_listings(write(tmp_path, content)).problem


def test_a_link_to_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "profile.sass.json").symlink_to("gone.json")
    assert "a link to a file that does not exist" in read_listings(tmp_path / "profile.ncu-rep").problem
