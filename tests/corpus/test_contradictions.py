"""No healthy report contradicts itself, and nothing that cannot be is said without a flag."""

from __future__ import annotations

import importlib.util
import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis import facts, peak_model
from perfkit.analysis.consistency import describe
from perfkit.analysis.explain import explain, explain_alone
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.commands._model_table import peak_table
from perfkit.errors import PerfkitError
from perfkit.model import Evaluated, Status
from perfkit.model.peak import Closure
from perfkit.profiler.run_store import recorded_root

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
# Not the cases: those are made up.
REAL = [path for path in sorted(DATA.rglob("*.ncu-rep*")) if not path.is_relative_to(DATA / "cases")]
OWN = sorted(recorded_root().rglob("*.ncu-rep")) + REAL
_PERCENT = re.compile(r"([\d,.]+) ?%")
_FLAG = "cannot be right"


@pytest.fixture(scope="module")
def launches(corpus: Any) -> list[Evaluated]:
    sets = load_metric_sets()
    wanted = tuple(dict.fromkeys((*sets.reading(), *facts.COUNTERS, *peak_model.counters(sets))))
    reports = read_reports([*corpus.files(), *OWN], wanted, keep_going=True)
    return [sets.evaluate(launch) for report in reports for launch in report.launches]


def test_healthy_reports_do_not_contradict_themselves(launches: list[Evaluated]) -> None:
    assert len(launches) > 200
    broken = [(one.launch, found) for one in launches for found in one.contradictions]
    assert [f"{one.id}: {describe(found)}" for one, found in broken if not found.likely] == []
    assert {one.label for one, found in broken if found.likely} == {"copy_bulk", "load_bulk"}, "these poll"


def _said_right(sentence: str) -> bool:
    numbers = [float(text.replace(",", "")) for text in _PERCENT.findall(sentence)]
    possible = all(number <= 100 for number in numbers) or _FLAG in sentence
    return possible and not re.search(r"\b(nan|inf)\b", sentence, re.IGNORECASE)


def test_no_sentence_says_what_cannot_be(launches: list[Evaluated]) -> None:
    said: list[str] = []
    alone = 0
    for one in launches:
        try:
            loss = explain_alone([one])
        except PerfkitError:
            continue
        alone += 1
        said += loss.sentences
        assert math.isclose(loss.share + sum(part.contribution for part in loss.losses), 1, abs_tol=1e-9)
        assert all(part.contribution <= 1 for part in loss.losses)
    for one, other in itertools.pairwise(launches):
        try:
            result = explain([one], [other])
        except PerfkitError:
            continue
        said += result.sentences
    assert alone > 50
    assert [sentence for sentence in said if not _said_right(sentence)] == []


def test_model_flags_every_share_that_cannot_be(launches: list[Evaluated]) -> None:
    checks = peak_model.check_launches([one.launch for one in launches])
    table = peak_table(checks, whole=True)
    for row, check in zip(table.rows, checks, strict=True):
        for cell, column in zip(row, table.columns, strict=True):
            if column.unit == "fraction" and isinstance(cell.value, float):
                assert math.isfinite(cell.value)
                assert cell.value <= 1 or cell.status is Status.INVALID, (check.launch, column.name)
        flagged = any(cell.status is Status.INVALID for cell in row)
        assert not flagged or check.closure in (Closure.OPEN, Closure.NO_SHARE, Closure.UNKNOWN)


def test_the_table_in_the_docs_is_current(corpus: Any) -> None:
    spec = importlib.util.spec_from_file_location("made", ROOT / "docs" / "generate_contradictions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "contradictions.md").read_text(encoding="utf-8")
    assert module.table([*corpus.files(), *OWN]) in text
