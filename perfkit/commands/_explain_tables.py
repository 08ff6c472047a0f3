"""A comparison or a peak loss as tables, and as one JSON document."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

from perfkit import __version__
from perfkit.analysis.sentences import number
from perfkit.model import (
    Cell,
    Column,
    Comparison,
    Evidence,
    Factor,
    PeakLoss,
    SourceLine,
    Status,
    Table,
    WallClock,
)

SCHEMA_VERSION = 1
_OPEN = 0.05  # a factor is opened where a child is this much of the largest top factor
_ABSENT = Cell(None, Status.NOT_COLLECTED, text="")
_EMPTY = Cell("")


def comparison_tables(result: Comparison, *, everything: bool = False) -> list[Table]:
    """The tree with its residual and sentences; then wall clock and source lines where there are some."""
    scale = max((abs(factor.contribution) for factor in result.factors), default=0.0)
    least = 0.0 if everything else _OPEN * scale
    rows = [row for factor in result.factors for row in _rows(factor, 0, least, result.log_ratio)]
    rows.append(_total("residual", result.residual, result.log_ratio, "what the counters do not account for"))
    rows.append(_total("sum = ln(T_B/T_A)", result.log_ratio, result.log_ratio, ""))
    columns = (
        Column("factor", "factor"),
        Column("before", result.a.label),
        Column("after", result.b.label),
        Column(
            "contribution",
            "ln",
            doc="Contribution to ln(T_B/T_A); positive where B is slower for it",
            digits=4,
        ),
        Column("share", "share", unit="fraction", doc="Contribution over ln(T_B/T_A)", digits=1),
        Column("ratio", "on the time", doc="The factor on the time, exp(contribution)"),
        Column("evidence", "evidence"),
    )
    title = f"{_called(result.a)} -> {_called(result.b)}: {result.verdict.kind} ({result.verdict.reason})"
    tables = [Table("explain", title, columns, tuple(rows), result.sentences)]
    if result.wall_clock is not None:
        tables.append(_wall_clock(result, result.wall_clock))
    if result.source:
        tables.append(_source(result.source))
    return tables


def _called(side: Any) -> str:
    problem = f" {side.problem}" if side.problem and not side.label.endswith(side.problem) else ""
    repeats = f" ({side.repeats} launches)" if side.repeats > 1 else ""
    return f"{side.label}{problem}{repeats}"


def _rows(factor: Factor, depth: int, least: float, whole: float) -> list[tuple[Cell, ...]]:
    tie = " (tie)" if factor.tied else ""
    row = (
        Cell("· " * depth + factor.title + tie, note=factor.note),
        _value(factor.before, factor.unit),
        _value(factor.after, factor.unit),
        Cell(factor.contribution, digits=4),
        _share(factor.contribution, whole),
        Cell(math.exp(factor.contribution), text=f"x{math.exp(factor.contribution):.3f}"),
        Cell(evidence_text(factor.evidence)),
    )
    rows: list[tuple[Cell, ...]] = [row]
    if any(abs(child.contribution) >= least for child in factor.children):
        shown = [child for child in factor.children if abs(child.contribution) >= least]
        rows += [line for child in shown for line in _rows(child, depth + 1, least, whole)]
        hidden = [child for child in factor.children if child not in shown]
        if len(hidden) == 1:
            rows += _rows(hidden[0], depth + 1, math.inf, whole)
        elif hidden:
            rest = sum(child.contribution for child in hidden)
            rows.append(_plain("· " * (depth + 1) + _others(hidden), rest, whole))
    return rows


def _others(hidden: Sequence[Factor]) -> str:
    return f"{len(hidden)} others" if len(hidden) > 1 else hidden[0].title


def _plain(title: str, contribution: float, whole: float, note: str = "") -> tuple[Cell, ...]:
    ratio = math.exp(contribution)
    return (
        Cell(title, note=note),
        _EMPTY,
        _EMPTY,
        Cell(contribution, digits=4),
        _share(contribution, whole),
        Cell(ratio, text=f"x{ratio:.3f}"),
        _EMPTY,
    )


def _total(title: str, contribution: float, whole: float, note: str) -> tuple[Cell, ...]:
    return _plain(title, contribution if abs(contribution) > 1e-12 else 0.0, whole, note)


def _share(contribution: float, whole: float) -> Cell:
    # A share of almost nothing is noise over noise.
    return Cell(contribution / whole) if abs(whole) > 1e-3 else Cell(None, Status.UNDEFINED)


def _value(value: float | None, unit: str) -> Cell:
    if value is None or math.isnan(value):
        return _ABSENT
    return Cell(value, unit=unit, text=number(value, unit))


def evidence_text(items: Sequence[Evidence], most: int = 3) -> str:
    """`sectors per global load 16.5 -> 2.5; ...`: what moved first, at most `most`; JSON holds them all."""
    moved, still = [], []
    for item in items:
        before, after = _one(item.before, item.unit), _one(item.after, item.unit)
        if before == after:
            still.append(f"{item.title} {before}")
        else:
            moved.append(f"{item.title} {before} -> {after}")
    return "; ".join([*moved, *still][:most])


def _one(value: float | str | None, unit: str) -> str:
    if value is None:
        return "not collected"
    return number(value, unit) if isinstance(value, (int, float)) else value


def _wall_clock(result: Comparison, held: WallClock) -> Table:
    columns = (
        Column("what", "event timing"),
        Column("before", result.a.label),
        Column("after", result.b.label),
        Column("ratio", "ratio"),
    )
    rows = (
        (
            Cell("time"),
            Cell(held.time_a, unit="s"),
            Cell(held.time_b, unit="s"),
            Cell(held.time_b / held.time_a, digits=3),
        ),
        (
            Cell("SM clock"),
            Cell(held.clock_a, unit="Hz"),
            Cell(held.clock_b, unit="Hz"),
            Cell(held.clock_b / held.clock_a, digits=3),
        ),
        (
            Cell("time under ncu"),
            Cell(result.a.duration, unit="s"),
            Cell(result.b.duration, unit="s"),
            Cell(result.b.duration / result.a.duration, digits=3),
        ),
    )
    note = (
        f"Event timings of {held.source}; the clock makes x{math.exp(held.clock_share):.3f} "
        f"of the x{math.exp(held.log_ratio):.3f}. ncu's time starts with cold caches where cache "
        "control is on."
    )
    return Table("wall_clock", "Event timings beside ncu's", columns, rows, (note,))


def _source(lines: Sequence[SourceLine]) -> Table:
    columns = (
        Column("where", "where"),
        Column("before", "before", unit="fraction", doc="share of A's time"),
        Column("after", "after", unit="fraction", doc="share of A's time"),
        Column("change", "change", unit="fraction"),
        Column("top_stall", "mostly"),
        Column("text", "instruction or line"),
    )
    rows = tuple(
        (
            Cell(line.where),
            Cell(line.before),
            Cell(line.after),
            Cell(line.after - line.before),
            Cell(line.top_stall),
            Cell(line.text),
        )
        for line in lines
    )
    return Table("source", "Where the stalls grew most, in parts of A's time", columns, rows)


def loss_tables(result: PeakLoss, *, everything: bool = False) -> list[Table]:
    """Where the share of peak went: the losses add up with the share to 1."""
    least = 0.0 if everything else 0.01
    columns = (
        Column("loss", "loss"),
        Column("value", "measured"),
        Column("contribution", "share of peak lost", unit="fraction", digits=2),
        Column("evidence", "evidence"),
    )
    rows = [row for factor in result.losses for row in _loss_rows(factor, 0, least)]
    rows.append((Cell("residual"), _EMPTY, Cell(result.residual), _EMPTY))
    rows.append((Cell("share of peak reached"), _EMPTY, Cell(result.share), _EMPTY))
    title = f"{_called(result.a)}: {result.share:.1%} of FP32 peak, and where the rest went"
    return [Table("peak_loss", title, columns, tuple(rows), result.sentences)]


def _loss_rows(factor: Factor, depth: int, least: float) -> list[tuple[Cell, ...]]:
    tie = " (tie)" if factor.tied else ""
    rows: list[tuple[Cell, ...]] = [
        (
            Cell("· " * depth + factor.title + tie, note=factor.note if depth == 0 else ""),
            _value(factor.after, factor.unit),
            Cell(factor.contribution),
            Cell(evidence_text(factor.evidence)),
        )
    ]
    shown = [child for child in factor.children if abs(child.contribution) >= least]
    rows += [line for child in shown for line in _loss_rows(child, depth + 1, least)]
    hidden = [child for child in factor.children if child not in shown]
    if hidden and shown:
        rest = sum(child.contribution for child in hidden)
        rows.append((Cell("· " * (depth + 1) + _others(hidden)), _EMPTY, Cell(rest), _EMPTY))
    return rows


def as_json(results: Sequence[Comparison | PeakLoss]) -> str:
    """{"schema_version", "perfkit_version", "results": [{"kind", ...the dataclass...}]}; NaN becomes null."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "perfkit_version": __version__,
        "results": [
            {
                "kind": "comparison" if isinstance(result, Comparison) else "peak_loss",
                **_finite(dataclasses.asdict(result)),
            }
            for result in results
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
