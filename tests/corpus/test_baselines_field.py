"""A baseline passes on the run it was made from, on every report; a doubled time of any launch fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfkit.analysis.baseline import parse
from perfkit.analysis.gate import check, record_baseline
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.analysis.rules import RuleSet
from perfkit.model import Evaluated, Rule

if TYPE_CHECKING:
    from .conftest import Corpus

SETS = load_metric_sets()
OWN = sorted(
    path
    for pattern in ("*.ncu-rep", "*.ncu-repz")
    for path in (Path(__file__).parents[1] / "data" / "runs").rglob(pattern)
)
EVERY = tuple(
    Rule(f"{name} unchanged", "*", name, "unchanged", allow_missing=True, allow_invalid=True)
    for name in SETS.names()
)
DURATION = (Rule("no slower", "*", "duration", "not_above", tolerance=0.05, allow_missing=True),)


def evaluated(paths: list[Path]) -> list[list[Evaluated]]:
    reports = read_reports(paths, SETS.reading())
    return [[SETS.evaluate(one) for one in report.launches] for report in reports]


@pytest.fixture(scope="module")
def launches(corpus: Corpus) -> list[list[Evaluated]]:
    return evaluated([*corpus.files(), *OWN])


def _rules(rules: tuple[Rule, ...]) -> RuleSet:
    return RuleSet(Path("rules.toml"), rules, Path("base.json"))


def test_every_report_passes_on_its_own_baseline(launches: list[list[Evaluated]]) -> None:
    for held in launches:
        rules = _rules(EVERY)
        baseline = parse(Path("base.json"), json.loads(record_baseline(rules, held, {})[0]))
        found = check(rules, held, baseline)
        assert len(found) == len(EVERY) * len(held)
        assert [one for one in found if one.failed] == []


def test_all_reports_of_a_model_of_gpu_at_once(launches: list[list[Evaluated]]) -> None:
    by_gpu: dict[str, list[Evaluated]] = {}
    for one in (one for held in launches for one in held):
        by_gpu.setdefault(one.launch.gpu, []).append(one)
    assert max(map(len, by_gpu.values())) > 20
    for held in by_gpu.values():
        baseline = parse(Path("base.json"), json.loads(record_baseline(_rules(EVERY), held, {})[0]))
        assert not any(one.failed for one in check(_rules(EVERY), held, baseline))


def test_a_doubled_duration_of_any_launch_of_any_report_fails(launches: list[list[Evaluated]]) -> None:
    doubled = 0
    for held in launches:
        baseline = parse(Path("base.json"), json.loads(record_baseline(_rules(DURATION), held, {})[0]))
        for index, one in enumerate(held):
            seconds = one.metrics["duration"]
            if seconds.value is None or not one.launch.collected:
                continue
            slow = replace(
                one, metrics={**one.metrics, "duration": replace(seconds, value=2 * seconds.number)}
            )
            slower = [*held[:index], slow, *held[index + 1 :]]
            (finding,) = [f for f in check(_rules(DURATION), slower, baseline) if f.failed]
            assert (finding.measured, finding.where) == (2 * seconds.number, str(one.launch.id))
            doubled += 1
    assert doubled > 140
