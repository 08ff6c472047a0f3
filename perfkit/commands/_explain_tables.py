"""A comparison or a peak loss as tables, and as one JSON document."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

from perfkit import __version__
from perfkit.analysis.compare import FLOOR
from perfkit.analysis.sentences import has_moved, number
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
    Verified,
    WallClock,
)

SCHEMA_VERSION = 1
_OPEN = 0.05  # a factor is opened where a child is this much of the largest top factor
_BY_CONSTRUCTION = (
    "0 by construction where ncu takes the clock from the duration: the next table is what can be off"
)
_ABSENT = Cell(None, Status.NOT_COLLECTED, text="")
_EMPTY = Cell("")


def comparison_tables(result: Comparison, *, everything: bool = False) -> list[Table]:
    """Verdict and sentences, the tree with its residual; then wall clock and source lines where there are
    some.

    A factor's evidence stands under it in parentheses: it speaks for the factor, and is no part of the sum.
    """
    scale = max((abs(factor.contribution) for factor in result.factors if factor.name != "work"), default=0.0)
    least = 0.0 if everything else _OPEN * scale
    rows = [row for factor in result.factors for row in _rows(factor, 0, least, result.log_ratio)]
    rows.append(_total("residual", result.residual, result.log_ratio, _BY_CONSTRUCTION))
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
    )
    title = f"{_called(result.a)} -> {_called(result.b)}: {result.verdict.kind}"
    if result.work_ratio != 1:
        title += " per unit of work"
    lead = (f"Reason: {result.verdict.reason}.", *result.sentences)
    tables = [Table("explain", title, columns, tuple(rows), lead=lead)]
    if result.checks:
        tables.append(_self_checks(result))
    if result.wall_clock is not None:
        tables.append(_wall_clock(result, result.wall_clock))
    if result.source:
        tables += _source(result.source)
    return tables


def _self_checks(result: Comparison) -> Table:
    """What can be off although the tree adds up: 1 is right on both sides."""
    columns = (
        Column("check", "1 is right"),
        Column("before", result.a.label, digits=3),
        Column("after", result.b.label, digits=3),
        Column("ratio", "on the time", doc="What the change makes on the time, where it makes something"),
    )
    rows = tuple(
        (
            Cell(check.title, note=check.note),
            *(_ABSENT if value is None else Cell(value, _status(check.valid)) for value in sides),
            _EMPTY if check.contribution is None else _effect(check.contribution, 0.0)[2],
        )
        for check in result.checks
        for sides in [(check.before, check.after)]
    )
    return Table("explain_checks", "What can be off although the tree adds up", columns, rows)


def _called(side: Any) -> str:
    problem = f" {side.problem}" if side.problem and not side.label.endswith(side.problem) else ""
    repeats = f" ({side.repeats} launches)" if side.repeats > 1 else ""
    return f"{side.label}{problem}{repeats}"


def _rows(
    factor: Factor, depth: int, least: float, whole: float, said: frozenset[str] = frozenset()
) -> list[tuple[Cell, ...]]:
    """The factor, its evidence where it matters (but not what its parents `said`), its children."""
    title = Cell("· " * depth + factor.title + (" (tie)" if factor.tied else ""), note=factor.note)
    before, after = (_value(value, factor.unit, factor.valid) for value in (factor.before, factor.after))
    rows: list[tuple[Cell, ...]] = [(title, before, after, *_effect(factor.contribution, whole))]
    if abs(factor.contribution) >= least:
        proof = speaking([item for item in factor.evidence if item.name not in said], everything=not least)
        rows += [
            (_aside(item, depth), *(_side(item, value) for value in (item.before, item.after)), *[_EMPTY] * 3)
            for item in proof
        ]
        said |= {item.name for item in proof}
    if any(abs(child.contribution) >= least for child in factor.children):
        shown = [child for child in factor.children if abs(child.contribution) >= least]
        rows += [line for child in shown for line in _rows(child, depth + 1, least, whole, said)]
        hidden = [child for child in factor.children if child not in shown]
        if len(hidden) == 1:
            rows += _rows(hidden[0], depth + 1, math.inf, whole)
        elif hidden:
            rest = sum(child.contribution for child in hidden)
            rows.append(_plain("· " * (depth + 1) + _others(hidden), rest, whole))
    return rows


def _aside(item: Evidence, depth: int) -> Cell:
    return Cell("· " * (depth + 1) + f"({item.title})")


def _side(item: Evidence, value: float | str | None) -> Cell:
    if isinstance(value, str):
        # As narrow as the numbers.
        return Cell(value, _status(item.valid), text=value.replace("shared_memory", "shared"))
    return _value(value, item.unit, item.valid)


def _effect(contribution: float, whole: float) -> tuple[Cell, Cell, Cell]:
    ratio = math.exp(contribution)
    return (
        Cell(contribution, digits=4),
        # A share of almost nothing is noise over noise.
        Cell(contribution / whole) if abs(whole) > FLOOR else _EMPTY,
        Cell(ratio, text=f"x{ratio:.3f}" if ratio >= 0.1 else f"x{ratio:.3g}"),
    )


def _others(hidden: Sequence[Factor]) -> str:
    return f"{len(hidden)} others" if len(hidden) > 1 else hidden[0].title


def _plain(title: str, contribution: float, whole: float, note: str = "") -> tuple[Cell, ...]:
    return (Cell(title, note=note), _EMPTY, _EMPTY, *_effect(contribution, whole))


def _total(title: str, contribution: float, whole: float, note: str) -> tuple[Cell, ...]:
    return _plain(title, contribution if abs(contribution) > 1e-12 else 0.0, whole, note)


def _value(value: float | None, unit: str, valid: bool = True) -> Cell:
    if value is None or math.isnan(value):
        return _ABSENT
    return Cell(value, _status(valid), unit=unit, text=number(value, unit))


def _status(valid: bool) -> Status:
    return Status.OK if valid else Status.INVALID


def speaking(items: Sequence[Evidence], most: int = 3, *, everything: bool = False) -> list[Evidence]:
    """What is shown of a factor's evidence: what moved, at most `most`; else that the first stayed."""
    moved = [item for item in items if has_moved(item)]
    return list(items) if everything else (moved or list(items[:1]))[:most]


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


def _source(lines: Sequence[SourceLine]) -> list[Table]:
    columns = (
        Column("where", "where"),
        Column("before", "before", unit="fraction", doc="share of A's time"),
        Column("after", "after", unit="fraction", doc="share of A's time"),
        Column("change", "change", unit="fraction"),
        Column("top_stall", "mostly"),
        Column("text", "text"),
    )
    tables = []
    for name, what in (("source", "Source lines"), ("sass", "Instructions")):
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
            if line.is_instruction == (name == "sass")
        )
        if rows:
            title = f"{what} where the stalls grew and fell most, in parts of A's time"
            tables.append(Table(name, title, columns, rows))
    return tables


def loss_tables(result: PeakLoss, *, everything: bool = False) -> list[Table]:
    """Where the share of peak went: the losses add up with the share to 1."""
    least = 0.0 if everything else 0.01
    columns = (
        Column("loss", "loss"),
        Column("value", "measured"),
        Column("contribution", "share of peak lost", unit="fraction", digits=2),
    )
    rows = [row for factor in result.losses for row in _loss_rows(factor, 0, least)]
    rounding = "rounding: the losses are made of the share"
    rows.append((Cell("residual", note=rounding), _EMPTY, Cell(result.residual)))
    rows.append((Cell("share of peak reached"), _EMPTY, Cell(result.share)))
    title = f"{_called(result.a)}: where its share of FP32 peak went"
    return [Table("peak_loss", title, columns, tuple(rows), lead=result.sentences)]


def _with_unit(cell: Cell) -> Cell:
    """Where no title above says it: what is counted."""
    word = {"cycle": "cycles/issue", "inst": "inst"}.get(cell.unit or "")
    return dataclasses.replace(cell, text=f"{cell.text} {word}") if word else cell


def _loss_rows(factor: Factor, depth: int, least: float) -> list[tuple[Cell, ...]]:
    tie = " (tie)" if factor.tied else ""
    rows: list[tuple[Cell, ...]] = [
        (
            Cell("· " * depth + factor.title + tie, note=factor.note if depth == 0 else ""),
            _with_unit(_value(factor.after, factor.unit, factor.valid)),
            Cell(factor.contribution),
        )
    ]
    if factor.contribution >= least:
        rows += [
            (_aside(item, depth), _side(item, item.after), _EMPTY)
            for item in (factor.evidence if not least else factor.evidence[:2])
        ]
    shown = [child for child in factor.children if abs(child.contribution) >= least]
    rows += [line for child in shown for line in _loss_rows(child, depth + 1, least)]
    hidden = [child for child in factor.children if child not in shown]
    if hidden and shown:
        rest = sum(child.contribution for child in hidden)
        rows.append((Cell("· " * (depth + 1) + _others(hidden)), _EMPTY, Cell(rest)))
    return rows


def as_json(results: Sequence[Comparison | PeakLoss], verified: Verified | None = None) -> str:
    """{"schema_version", "perfkit_version", "results": [{"kind", ...the dataclass...}]}; NaN becomes null.

    `verified` is about the only comparison.
    """
    document = {
        "schema_version": SCHEMA_VERSION,
        "perfkit_version": __version__,
        "results": [
            {
                "kind": "comparison",
                **_finite(dataclasses.asdict(result)),
                "verify": _finite(dataclasses.asdict(verified)) if verified is not None else None,
            }
            if isinstance(result, Comparison)
            else {"kind": "peak_loss", **_finite(dataclasses.asdict(result))}
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
