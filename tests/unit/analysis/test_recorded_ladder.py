"""The explanation on the recorded ladder: every pair adds up, the occupancy pair is told right, the page
is current.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import statistics
import sys
from pathlib import Path
from types import ModuleType

import pytest

from perfkit.analysis.decomposition import slots_filled
from perfkit.analysis.explain import explain, explain_alone
from perfkit.analysis.facts import facts_of
from perfkit.analysis.interventions import intervention, pairs
from perfkit.analysis.together import by_call
from perfkit.commands._sides import Sources
from perfkit.model import Comparison, Evaluated, Factor

LADDER = ("k1", "k2", "k3", "k4", "k5", "k6", "k6b", "k7", "k8", "cublas")
DOCS = Path(__file__).parents[3] / "docs"
HELD = str(Path(__file__).parents[2] / "data" / "runs" / "held")

ByName = dict[tuple[str, str], Evaluated]


def launches_of(run: str) -> list[Evaluated]:
    return by_call([one for _, found in Sources().of_run(run) for one in found])


@pytest.fixture(scope="module")
def recorded() -> ByName:
    return {(one.launch.label, one.launch.problem): one for one in launches_of("recorded")}


@pytest.fixture(scope="module")
def held() -> list[Evaluated]:
    """Kernels as they are and held to one block per SM, both with the same L1/shared carve-out."""
    return launches_of(HELD)


@pytest.mark.parametrize("problem", ["n=4096", "n=2048", "n=1024"])
def test_all_45_pairs_add_up(recorded: ByName, problem: str) -> None:
    found = 0
    for a, b in itertools.combinations(LADDER, 2):
        one, other = recorded[a, problem], recorded[b, problem]
        result = explain([one], [other])
        factors = sum(factor.contribution for factor in result.factors)
        assert factors + result.residual == pytest.approx(result.log_ratio, abs=1e-9)
        measured = other.number("duration") / one.number("duration")
        assert math.exp(factors) == pytest.approx(measured, rel=0.005), (a, b)
        found += 1
    assert found == 45


def front(result: Comparison) -> dict[str, Factor]:
    def every(factors: tuple[Factor, ...]) -> list[Factor]:
        return [held for factor in factors for held in (factor, *every(factor.children))]

    return {factor.name: factor for factor in every(result.factors)}


def test_coalescing_is_told_by_sectors_and_lg_throttle(recorded: ByName) -> None:
    result = explain([recorded["k1", "n=4096"]], [recorded["k2", "n=4096"]])
    throttle = front(result)["stall_lg_throttle"]
    assert throttle.contribution < 0.9 * result.log_ratio < 0
    (sectors,) = [item for item in throttle.evidence if item.name == "sectors_per_load"]
    assert sectors.before == pytest.approx(16.5)
    assert sectors.after == pytest.approx(2.5)
    assert "sectors per global load 16.5 -> 2.5" in result.sentences[1]


def test_the_register_cliff_is_told_as_a_chain(recorded: ByName) -> None:
    result = explain([recorded["k6", "n=4096"]], [recorded["k6b", "n=4096"]])
    assert result.verdict.kind == "faster"
    assert front(result)["warps"].contribution < 2 / 3 * result.log_ratio < 0
    assert result.sentences[1].startswith(
        "Registers per thread 130 -> 127, so blocks per SM 1 -> 2, so warps per scheduler 2.0 -> 3.9, so "
        "issue rate 0.43 -> 0.63"
    )


def test_the_occupancy_pair(held: list[Evaluated]) -> None:
    ((one, other),) = pairs(
        [one for one in held if one.launch.problem == "n=4096" and one.launch.label in ("k6b", "k6b@1")]
    )
    result = explain([one], [other])
    assert result.verdict.kind == "slower"
    assert front(result)["warps"].contribution > 2 / 3 * result.log_ratio
    assert "blocks per SM 2 -> 1, so warps per scheduler" in result.sentences[1]
    before, after = facts_of(one), facts_of(other)
    for facts in (before, after):
        assert slots_filled(facts.readiness, facts.warps) == pytest.approx(facts.issue_rate, rel=0.08)
    # Predicted for the held launch from the other alone: the queues shorten with fewer warps, so that the
    # formula with r and k kept misses by 9 % what the queueing network meets.
    k = before.issue_rate / slots_filled(before.readiness, before.warps)
    kept = k * slots_filled(before.readiness, after.warps)
    assert kept == pytest.approx(0.911 * after.issue_rate, rel=0.005)
    assert intervention(one, other).issue_rate_predicted == pytest.approx(after.issue_rate, rel=0.08)


def test_interventions_are_predicted(held: list[Evaluated]) -> None:
    cases = [intervention(a, b) for a, b in pairs(held)]
    assert len(cases) >= 20
    # A prediction of "no effect" is easy where there is none: those with an effect alone must do as well.
    for chosen in (cases, [case for case in cases if abs(math.log(case.observed)) > 0.02]):
        errors = [abs(case.error) for case in chosen]
        assert statistics.median(errors) <= 0.05
        assert sum(error <= 0.10 for error in errors) >= 0.8 * len(errors)


@pytest.mark.parametrize("kernel", LADDER)
def test_share_and_losses_make_one(recorded: ByName, kernel: str) -> None:
    result = explain_alone([recorded[kernel, "n=4096"]])
    assert result.share + sum(loss.contribution for loss in result.losses) == pytest.approx(1.0, abs=1e-9)


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate_ladder_explained.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    assert (DOCS / "ladder-explained.md").read_text(encoding="utf-8") == generator().page()
