"""docs/measurements.md is what its generator makes of the runs in this repository."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import pytest

from perfkit.profiler.run_store import recorded_root

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.skipif(not recorded_root().is_dir(), reason="this checkout has no recorded run")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measurements", DOCS / "generate_measurements.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(generator: ModuleType) -> None:
    made = generator.page(generator.committed())
    assert (DOCS / "measurements.md").read_text(encoding="utf-8") == made, (
        "run `python docs/generate_measurements.py`"
    )


def test_the_page_has_what_the_method_promises(generator: ModuleType) -> None:
    text = generator.page(generator.committed())
    for heading in (
        "The peak model",
        "Event timing",
        "Repeating a run",
        "The article protocol against quick",
    ):
        assert f"## {heading}" in text
    assert "30 launches, closes: 29, does not close: 1" in text
    assert "0 of 200 comparisons are false verdicts" in text
    assert "0 of 40 comparisons are slow-downs missed" in text


def test_repeats_agree_within_half_a_percent(generator: ModuleType) -> None:
    runs = [run for run in generator.committed() if generator._kind(run) == ("quick", "hot")]
    pairs = itertools.combinations(generator._benches(runs), 2)
    first, second = next(
        (generator._times(one), generator._times(other))
        for one, other in pairs
        if generator._same_gpu(one, other)
    )
    assert len(first.keys() & second.keys()) == 30
    for key in first.keys() & second.keys():
        assert second[key] == pytest.approx(first[key], rel=0.005), key


def test_cold_timings_take_the_place_of_hot_ones_in_the_model(generator: ModuleType) -> None:
    runs = [run for run in generator.committed() if run.options.get("cache") != "cold"]
    hot = next(run for run in runs if generator._kind(run) == ("quick", "hot"))
    results = tuple(
        {**raw, "cache": "cold", "time": 1.1 * raw["time"], "share_of_peak": raw["share_of_peak"] / 1.1}
        for raw in hot.results
    )
    cold = dataclasses.replace(hot, options={**hot.options, "cache": "cold"}, results=results)
    text = generator.page([*runs, cold])
    assert "timed cold: caches flushed before each launch, as under ncu" in text
    assert "## Cold caches against hot" in text
    assert "furthest apart by 10.00%" in text
