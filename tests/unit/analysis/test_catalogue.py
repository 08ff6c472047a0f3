"""The generated page of metrics is current."""

from __future__ import annotations

from pathlib import Path

from perfkit.analysis.catalogue import metrics_page
from perfkit.analysis.metrics import load_metric_sets

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_current() -> None:
    assert (DOCS / "metrics.md").read_text() == metrics_page(), (
        "run: python -m perfkit.analysis.catalogue docs/metrics.md"
    )


def test_it_names_every_metric() -> None:
    page = metrics_page()
    for name in load_metric_sets().metrics:
        assert f"### `{name}`" in page
