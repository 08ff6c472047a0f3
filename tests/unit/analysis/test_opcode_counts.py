"""Opcode metrics put together from counts by address and the stored listing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfkit.analysis.opcode_counts import (
    PER_OPCODE,
    PER_OPCODE_AND_MODIFIERS,
    opcode_counters,
    read_listings,
)

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


def test_listings_are_read_from_beside_the_report(tmp_path: Path) -> None:
    report = tmp_path / "profile.ncu-rep"
    assert read_listings(report) == {}
    (tmp_path / "profile.sass.json").write_text(json.dumps({"kernels": {"sgemm_k6": "LDC LDS.128 EXIT"}}))
    assert read_listings(report) == {"sgemm_k6": ("LDC", "LDS.128", "EXIT")}
    (tmp_path / "profile.sass.json").write_text("{")
    assert read_listings(report) == {}
