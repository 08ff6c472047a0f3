"""The explanation on reports from the field: the right story, and a refusal with its reason."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.explain import explain
from perfkit.analysis.facts import COUNTERS
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.analysis.source_level import compare_source
from perfkit.analysis.source_reader import read_instructions
from perfkit.errors import NotComparableError
from perfkit.model import Evaluated, Factor

NAIVE, COALESCED = "gtx-1660-super_7bc2a7", "gtx-1660-super_957240"


def launches(path: Path) -> list[Evaluated]:
    sets = load_metric_sets()
    (report,) = read_reports([path], tuple(dict.fromkeys((*sets.reading(), *COUNTERS))))
    return [sets.evaluate(launch) for launch in report.launches]


def test_the_naive_and_coalesced_pair_gets_the_right_story(corpus: Any) -> None:
    result = explain(launches(corpus.find(NAIVE)), launches(corpus.find(COALESCED)))
    # 3 % faster, and not for coalescing: both load 2.5 sectors a request. A little less waiting in the LG
    # queue and for L2 (which hits more) outweighs 1.4 % more instructions, all of them moves.
    assert result.verdict.kind == "faster"
    assert math.exp(result.log_ratio) == pytest.approx(0.970, abs=0.001)
    assert abs(result.residual) < 1e-6
    top = {factor.name: factor for factor in result.factors}
    assert top["issue_rate"].contribution == pytest.approx(-0.047, abs=0.001)
    assert top["instructions"].contribution == pytest.approx(0.014, abs=0.001)
    assert top["instructions"].children[0].name == "instructions_move"
    (latency,) = [child for child in top["issue_rate"].children if child.name == "latency"]
    first, second = latency.children[:2]
    assert (first.name, second.name) == ("stall_lg_throttle", "stall_long_scoreboard")
    (sectors,) = [item for item in first.evidence if item.name == "sectors_per_load"]
    assert sectors.before == sectors.after == pytest.approx(2.5, abs=0.01)
    assert "LG throttle 23.9 -> 22.9 cycles per issue" in result.sentences[1]
    assert "coalesc" not in " ".join(result.sentences[1:])


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (("a100-pcie-40gb_905ff7", 0), ("a100-pcie-40gb_905ff7", 0), "was not collected"),
        (("cc86_a10g_be34af", 5), ("cc86_a10g_be34af", 0), "was not collected"),
        ((NAIVE, 0), ("cc89_rtx-4090_a6f4af", 0), "counters of different chips do not add up"),
        (("cc86_a40_317662", 1), ("cc86_a40_317662", 1), "tensor-core work"),
    ],
)
def test_what_must_not_be_compared(corpus: Any, a: tuple[str, int], b: tuple[str, int], reason: str) -> None:
    one, other = launches(corpus.find(a[0]))[a[1]], launches(corpus.find(b[0]))[b[1]]
    with pytest.raises(NotComparableError, match=reason):
        explain([one], [other])


def every(factors: tuple[Factor, ...]) -> list[Factor]:
    return [held for factor in factors for held in (factor, *every(factor.children))]


def test_every_pair_of_a_report_adds_up_or_is_refused(corpus: Any) -> None:
    explained = 0
    refusals: list[NotComparableError] = []
    for path in corpus.files():
        for one, other in itertools.combinations(launches(path)[:6], 2):
            try:
                result = explain([one], [other])
            except NotComparableError as error:
                refusals.append(error)
                continue
            explained += 1
            total = sum(factor.contribution for factor in result.factors) + result.residual
            assert total == pytest.approx(result.log_ratio, abs=1e-9)
            assert result.sentences
            for factor in every(result.factors):
                assert math.isfinite(factor.contribution), (path, factor.name)
                if factor.children:
                    parts = sum(child.contribution for child in factor.children)
                    assert parts == pytest.approx(factor.contribution, abs=1e-9), (path, factor.name)
    assert explained >= 50
    assert len(refusals) >= 5
    assert all(error.remedy for error in refusals)


def test_source_level_where_the_report_carries_it(corpus: Any) -> None:
    one = launches(corpus.find(NAIVE))[0].launch.id
    found = read_instructions(one)
    # The report's own total of samples, read from another metric.
    assert sum(sum(held.samples.values()) for held in found) == 113653
    assert all(held.sass for held in found)
    other = read_instructions(launches(corpus.find(COALESCED))[0].launch.id)
    first = compare_source(found, other, 0.97)[0]
    assert first.text.startswith("LDG")
    assert first.top_stall == "lg_throttle"
    silent = launches(corpus.find("gtx-1660-super_164f98"))[0].launch.id
    assert read_instructions(silent) == ()


def test_the_same_from_python(corpus: Any, tmp_path: Path) -> None:
    import perfkit

    profile = perfkit.load([corpus.find(NAIVE), corpus.find(COALESCED)])
    result = profile.explain("naive_gemm", "sgemm_global_mem_coalesce")
    assert (result.a.repeats, result.verdict.kind) == (2, "faster")
    # Turing issues an FMA every other cycle: half the slots would reach peak, and none is lost beyond those.
    loss = profile.peak_loss("naive_gemm")
    assert loss.share + sum(part.contribution for part in loss.losses) == pytest.approx(1.0)
    assert loss.fma_slots == 2
    assert all(part.contribution > -1e-3 for part in loss.losses)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nmetric = "smsp__inst_executed.sum"\nop = "<="\nvalue = 155_000_000\n')
    findings = perfkit.check([corpus.find(NAIVE), corpus.find(COALESCED)], rules)
    assert [(finding.measured, finding.failed) for finding in findings] == [
        (154632192.0, False),
        (154632192.0, False),
        (156827648.0, True),
        (156827648.0, True),
    ]
