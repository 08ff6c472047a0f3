"""Faults of reading that need real reports and that no other test shows (docs/faults.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfkit.analysis.flops import COUNTERS
from perfkit.analysis.launch_json import launches_json
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.analysis.tables import set_tables
from perfkit.model import Launch

if TYPE_CHECKING:
    from .conftest import Corpus

SETS = load_metric_sets()


@pytest.fixture(scope="module")
def launches(corpus: Corpus) -> dict[str, list[Launch]]:
    read = read_reports(corpus.files(), [*SETS.reading(), *COUNTERS])
    return {Path(report.path).name: list(report.launches) for report in read}


def one(launches: dict[str, list[Launch]], part: str) -> list[Launch]:
    (found,) = (value for name, value in launches.items() if part in name)
    return found


def test_bank_conflicts_by_the_total_and_by_its_parts(launches: dict[str, list[Launch]]) -> None:
    differ = {}
    for name, found in launches.items():
        for launch in found:
            values = SETS.evaluate(launch, ["shared"]).metrics
            rest = values["shared_conflicts_elsewhere"]
            if isinstance(rest.value, float):
                assert len(values["shared_conflicts"].counters) == 1, "each count names its one counter"
                assert all(
                    "wavefronts" in counter or "inst" in counter
                    for counter in (values["wavefronts_per_shared_load"].counters)
                )
                if rest.value:
                    differ[f"{name.split('.')[0].rsplit('_')[-1]}:{launch.id.launch}"] = rest.value
    assert differ == {"7937f6:0": 341.0, "e6ba16:0": 443.0, "3d528b:1": 92.0}


def test_the_clock_that_ran_is_not_that_of_the_attributes(launches: dict[str, list[Launch]]) -> None:
    (launch,) = one(launches, "cc100_b200_7937f6")
    clock = SETS.evaluate(launch, ["sm_clock"]).metrics["sm_clock"]
    assert clock.value == pytest.approx(1.088e9, rel=1e-3)  # its attribute says 1.965 GHz
    for metric in SETS.metrics.values():
        assert not any("clock_rate" in counter for counter in metric.counters), metric.name


def test_no_total_of_ffma_counters_passes_for_the_flops_of_tensor_cores(
    launches: dict[str, list[Launch]],
) -> None:
    tensor = []
    for launch in (launch for found in launches.values() for launch in found):
        item = SETS.evaluate(launch)
        used = item.metrics["tensor_instructions"].value
        if isinstance(used, float) and used > 0:
            tensor.append(launch.id)
            assert item.metrics["share_of_peak"].value is None
            assert item.metrics["model_share_of_peak"].value is None
    assert tensor


def test_full_names_are_kept_for_machines_and_short_for_people(launches: dict[str, list[Launch]]) -> None:
    longest = max((one for found in launches.values() for one in found), key=lambda launch: len(launch.name))
    assert len(longest.name) == 1433
    item = SETS.evaluate(longest)
    assert longest.name.replace('"', '\\"') in launches_json([item], [], "0")
    (table,) = set_tables([item], SETS, ["issue"])
    assert all(len(column.title) < 100 for column in table.columns)
