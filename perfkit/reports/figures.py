"""The data of the article's figures as tables, and the climb's bars, read off measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from perfkit.model import Cell, Column, Table
from perfkit.model.claims import ClaimResult, Outcome
from perfkit.model.measurements import Measurements, Source, Traced
from perfkit.model.traced import LEVEL_NAMES, Ceiling, Roofline, TracedTable
from perfkit.reports.plots import Bar, bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def climb_bars(measurements: Measurements, problem: str) -> tuple[list[Bar], str]:
    """(bars, "timed" or "under ncu"): speeds by event timing where there are any, else by ncu's duration.

    Invalid speeds are left out, and the text says how many.
    """
    for name, how in (("flop_rate", "timed"), ("ncu_flop_rate", "under ncu")):
        doubtful = measurements.doubtful(name, problem)
        found = [
            Bar(kernel, value, emphasis=kernel == measurements.reference)
            for kernel in measurements.kernels
            if kernel not in doubtful and (value := measurements.number(name, kernel, problem)) == value
        ]
        if found:
            left = f"; {len(doubtful)} invalid, not drawn" if doubtful else ""
            return found, how + left
    return [], ""


def climb_figure(measurements: Measurements, problem: str) -> tuple[Figure | None, str]:
    """(figure, its title), or (None, why there is none)."""
    values, how = climb_bars(measurements, problem)
    if not values:
        return None, "neither a timing nor FLOPs with a valid duration in the runs"
    where = ", ".join(part for part in (measurements.gpu, problem) if part)
    title = f"The climb ({where})"
    return bars(title, values, "FLOP/s", f"Speed, {how}"), title


def roofline_table(data: Roofline) -> Table:
    """What the roofline shows: kernels first, then the ceilings with where they come from."""
    columns = (
        Column("name", "Kernel or ceiling"),
        Column("level", "Against"),
        Column("intensity", "Intensity", data.intensity_unit, 2),
        Column("rate", "Speed or limit"),
        Column("origin", "Origin"),
    )
    rows = [
        (
            Cell(point.label),
            Cell(point.level, text=LEVEL_NAMES[point.level]),
            Cell(point.intensity),
            Cell(point.rate, unit=data.rate_unit),
            Cell("counters"),
        )
        for point in data.points
    ]
    rows += [
        (
            Cell(ceiling.name),
            Cell("peak" if ceiling.kind == "compute" else "bandwidth"),
            Cell(None),
            Cell(ceiling.value, unit=ceiling.unit),
            Cell(ceiling.origin),
        )
        for ceiling in data.ceilings
    ]
    return Table("roofline", data.title, columns, tuple(rows), notes=data.missing)


def traced_roofline(measurements: Measurements, data: Roofline) -> TracedTable:
    """The table of a FLOP roofline against DRAM, with what stands behind each of its numbers."""
    sources: dict[tuple[str, str], Traced] = {}
    moved = ("dram_read_bytes", "dram_write_bytes")
    for point in data.points:
        at = f"({point.label}, {point.problem})" if point.problem else f"({point.label})"
        for column, value, unit, below in (
            ("intensity", point.intensity, data.intensity_unit, moved),
            ("rate", point.rate, data.rate_unit, ("duration",)),
        ):
            formula = f"counted_flops / ({' + '.join(below)})"
            inputs = tuple(f"{name}{at}" for name in ("counted_flops", *below))
            source = Source(kind="derived", formula=formula, inputs=inputs)
            sources[point.label, column] = Traced(value, unit, source)
    problem = data.points[0].problem if data.points else ""
    for ceiling in data.ceilings:
        source = _ceiling_source(measurements, ceiling, problem)
        sources[ceiling.name, "rate"] = Traced(ceiling.value, ceiling.unit, source)
    return TracedTable(roofline_table(data), sources)


def _ceiling_source(measurements: Measurements, ceiling: Ceiling, problem: str) -> Source:
    """The counters of the first launch that holds them; clocks are the median of all launches drawn."""
    for kernel in measurements.kernels:
        item = measurements.launches.get((kernel, problem))
        held = item.launch.counters if item is not None else {}
        read = tuple((name, held[name].value, held[name].unit) for name in ceiling.counters if name in held)
        duration = measurements.get("duration", kernel, problem)
        if read and duration is not None:
            clock = any("cycles_elapsed" in name for name, _, _ in read)
            note = "the SM clock is the median of the launches drawn" if clock else ""
            return replace(duration.source, formula=ceiling.origin, counters=read, note=note)
    return Source(kind="counters", formula=ceiling.origin)


def claims_table(results: Sequence[ClaimResult], gpu: str, *, brief: bool = False) -> Table:
    """A row a claim: what became of it, both values, why, expression and text.

    `brief`, for a terminal: a row for each that applies, without expression and text; notes name the others.
    """
    columns = [
        Column("id", "Claim"),
        Column("outcome", "Outcome"),
        Column("measured", "Measured"),
        Column("stated", "Said"),
        Column("reason", "Reason"),
    ]
    if not brief:
        columns += [Column("expression", "Expression"), Column("text", "Statement")]
    rows = []
    elsewhere: dict[str, list[str]] = {}
    for result in results:
        if brief and result.outcome is Outcome.NOT_APPLICABLE:
            elsewhere.setdefault(result.reason, []).append(result.claim.id)
            continue
        texts = [result.claim.id, result.outcome.value, result.measured, result.stated, result.reason]
        if not brief:
            texts += [result.claim.expression, result.claim.text]
        rows.append(tuple(Cell(text) for text in texts))
    if brief and not any(cells[4].value for cells in rows):
        columns, rows = columns[:4], [cells[:4] for cells in rows]
    counts = Counter(result.outcome.value for result in results)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    notes = tuple(
        f"{len(ids)} not applicable, {reason}: {', '.join(ids)}" for reason, ids in elsewhere.items()
    )
    return Table("claims", f"Claims on {gpu}: {summary}", tuple(columns), tuple(rows), notes=notes)
