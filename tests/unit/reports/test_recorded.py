"""The article made from the recorded run: golden text of every table in every format, at a fixed width.

After the run was recorded anew: PERFKIT_UPDATE_GOLDEN=1 pytest tests/unit/reports/test_recorded.py, and read
the diff.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from perfkit.analysis.claims import decide, load_claims, shipped_claims
from perfkit.analysis.measurements import without_held
from perfkit.analysis.roofline import COUNTERS, Options, roofline
from perfkit.commands._inputs import read_measurements
from perfkit.model import Table
from perfkit.model.claims import Outcome
from perfkit.model.measurements import Measurements
from perfkit.profiler.run_store import recorded_root, runs_under
from perfkit.reports import FORMATS, SUFFIXES, render
from perfkit.reports.article import article_tables
from perfkit.reports.figures import claims_table, climb_bars, roofline_table

GOLDEN = Path(__file__).parents[2] / "golden" / "article"
NAMES = ("climb", "counters", "model", "sizes", "roofline", "claims")
LADDER = ("k1", "k2", "k3", "k4", "k5", "k6", "k6b", "k7", "k8", "cublas")
pytestmark = pytest.mark.skipif(not runs_under(recorded_root()), reason="no recorded run in this checkout")


@pytest.fixture(scope="module")
def recorded() -> Measurements:
    return without_held(read_measurements(["recorded"], COUNTERS))


@pytest.fixture(scope="module")
def recorded_tables(recorded: Measurements) -> dict[str, Table]:
    tables = {item.table.name: item.table for item in article_tables(recorded)}
    data = roofline(recorded, recorded.main_problem, Options(levels=("dram", "l2", "l1")))
    tables["roofline"] = roofline_table(data)
    results = [decide(claim, recorded) for claim in load_claims(shipped_claims())]
    tables["claims"] = claims_table(results, recorded.gpu)
    return tables


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_golden(recorded_tables: dict[str, Table], name: str, fmt: str) -> None:
    text = render([recorded_tables[name]], fmt, width=120, color=False)
    golden = GOLDEN / f"{name}.{SUFFIXES[fmt]}"
    if os.environ.get("PERFKIT_UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_bytes(text.encode())
    assert text.encode() == golden.read_bytes()


def test_the_ladder_is_there_at_both_sizes(recorded: Measurements) -> None:
    assert recorded.kernels == LADDER
    assert recorded.reference == "cublas"
    assert {"n=1024", "n=4096"} <= set(recorded.problems)
    for problem in ("n=1024", "n=4096"):
        assert all((kernel, problem) in recorded.launches for kernel in LADDER)


def test_facts_that_hold_on_every_gpu(recorded: Measurements) -> None:
    def at(name: str, kernel: str) -> float:
        return recorded.number(name, kernel, "n=4096")

    assert [at("sectors_per_load", kernel) for kernel in ("k1", "k2", "k3", "k6")] == [16.5, 2.5, 4.0, 16.0]
    assert at("sectors_per_store", "k1") == 32.0
    assert at("shared_load_conflicts", "k6") == pytest.approx(268_435_456, abs=100_000)
    assert at("shared_load_conflicts", "k7") < 100_000
    assert at("wavefronts_per_shared_load", "k6") == pytest.approx(5.0, abs=0.01)
    assert at("wavefronts_per_shared_load", "k7") == pytest.approx(3.0, abs=0.01)
    assert at("counted_flops", "k8") == 2 * 4096**3


def test_every_claim_is_decided_on_it(recorded: Measurements) -> None:
    results = [decide(claim, recorded) for claim in load_claims(shipped_claims())]
    bad = [
        (r.claim.id, r.measured, r.stated, r.reason)
        for r in results
        if r.outcome in (Outcome.FAILS, Outcome.UNDECIDED)
    ]
    assert bad == []
    assert sum(result.outcome is Outcome.HOLDS for result in results) >= 15


def test_the_climb_climbs(recorded: Measurements) -> None:
    values, how = climb_bars(recorded, "n=4096")
    assert how == "timed"
    assert [bar.label for bar in values] == list(LADDER)
    early = [bar.value for bar in values[:5]]
    assert early == sorted(early)
    assert [bar.label for bar in values if bar.emphasis] == ["cublas"]


def test_every_claim_of_the_articles_laptop_can_be_decided(recorded: Measurements) -> None:
    """The same numbers under that laptop's name: claims that hold only there fail, but none is in error."""
    elsewhere = replace(recorded, gpu="NVIDIA GeForce RTX 4060 Laptop GPU")
    results = {
        claim.id: decide(claim, elsewhere)
        for claim in load_claims(shipped_claims())
        if "4060" in claim.where.gpu
    }
    assert {result.outcome for result in results.values()} <= {Outcome.HOLDS, Outcome.FAILS}
    assert (results["ridge"].measured, results["ridge"].outcome) == ("13.9 FLOP/byte", Outcome.FAILS)
    assert (results["peak-per-clock"].measured, results["peak-per-clock"].stated) == (
        "33,792",
        "6,144 ± 1 %",
    )
    assert results["kernel-cublas"].measured.startswith("sm80_xmma_gemm")
    assert results["bit-equal"].outcome is Outcome.HOLDS
    assert results["power-others"].outcome is Outcome.FAILS
