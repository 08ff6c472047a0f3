"""`profile.sass.json` as it is written, and read back as the reader of reports reads it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from perfkit.analysis.opcode_counts import kernel_of, read_listings
from perfkit.model import BuildResult
from perfkit.profiler.sass_file import write_sass_file

SECTION = '\t.section\t.text.spill,"ax",@progbits\n'


@pytest.fixture(autouse=True)
def disassembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An nvdisasm that prints what the "cubin" holds."""
    tool = tmp_path / "bin" / "nvdisasm"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\nfor last; do :; done\ncat "$last"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")


def built(folder: Path, key: str, *opcodes: str, symbol: str = "spill") -> BuildResult:
    cubin = folder / f"{key}.cubin"
    lines = (f"        /*{16 * at:04x}*/          {opcode} ;\n" for at, opcode in enumerate(opcodes))
    cubin.write_text(SECTION + "".join(lines))
    return BuildResult(key, "sm_90", "nvcc 13.0.88", (), "", str(cubin), symbol, 32, 0, 0, 0, 0, None)


def test_two_kernels_of_one_symbol_keep_their_own_code(tmp_path: Path) -> None:
    """One source built with two sets of flags: both are `spill` to the report."""
    plain = built(tmp_path, "plain", "LDC R1, c[0x0][0x28]", "FFMA R1, R1, R2, R3", "EXIT")
    tight = built(tmp_path, "tight", "LDC R1, c[0x0][0x28]", "STL.64 [R1], R2", "EXIT")
    path = tmp_path / "profile.sass.json"
    assert write_sass_file(path, [plain, tight]) == ""

    stored = json.loads(path.read_text())
    assert stored["schema_version"] == 2
    assert [(one["kernel"], one["symbol"], one["arch"]) for one in stored["kernels"]] == [
        ("plain", "spill", "sm_90"),
        ("tight", "spill", "sm_90"),
    ]
    for entry, kernel in zip(stored["kernels"], (plain, tight), strict=True):
        assert entry["cubin_sha256"] == hashlib.sha256(Path(kernel.cubin).read_bytes()).hexdigest()

    listings = read_listings(tmp_path / "profile.ncu-rep")
    assert listings.problem == ""
    assert listings.of("plain", "spill") == ("LDC", "FFMA", "EXIT")
    assert listings.of("tight", "spill") == ("LDC", "STL.64", "EXIT")


def test_a_kernel_held_to_fewer_blocks_finds_the_code_of_the_kernel(tmp_path: Path) -> None:
    """`k6@1` is launched from the cubin of `k6`, which is stored once."""
    write_sass_file(tmp_path / "profile.sass.json", [built(tmp_path, "k6", "FFMA R1, R1, R2, R3", "EXIT")])
    listings = read_listings(tmp_path / "profile.ncu-rep")
    asked = [(kernel_of(key), "spill") for key in ("k6", "k6@1")]
    assert [listings.told_apart(asked).of(*one) for one in asked] == [("FFMA", "EXIT")] * 2


def test_what_cannot_be_listed_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "profile.sass.json"
    good = built(tmp_path, "plain", "EXIT")
    said = write_sass_file(path, [good, built(tmp_path, "other", "EXIT", symbol="_Z5otherv")])
    assert said.startswith("no opcode counts: nvdisasm lists no kernel _Z5otherv in ")
    assert not path.exists()
    assert write_sass_file(path, []) == ""
    assert not path.exists()
