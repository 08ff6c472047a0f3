"""The counters of a run side by side: a row a metric, a column a launch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfkit.model import Cell, Column, Evaluated, Status, Table


def side_by_side(reports: Sequence[Path], sets: Sequence[str]) -> list[Table]:
    """One table a metric set over every launch of the reports."""
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.analysis.report import read_reports

    known = load_metric_sets()
    names = tuple(sets) or tuple(known.sets)
    launches = [x for report in read_reports(reports, known.reading(names)) for x in report.launches]
    evaluated = [known.evaluate(launch, names) for launch in launches]
    titles = [f"{x.label} {x.problem}".strip() for x in launches]
    return [_table(name, known.names([name]), evaluated, titles) for name in names]


def _table(name: str, metrics: Sequence[str], evaluated: Sequence[Evaluated], titles: Sequence[str]) -> Table:
    columns = (
        Column("metric", "metric"),
        *(Column(f"launch_{index}", title) for index, title in enumerate(titles)),
    )
    rows = []
    for metric in metrics:
        cells = [Cell(metric)]
        for one in evaluated:
            value = one.metrics.get(metric)
            cells.append(
                Cell(value.value, value.status, value.unit) if value else Cell(None, Status.NOT_COLLECTED)
            )
        rows.append(tuple(cells))
    return Table(name, name, columns, tuple(rows))
