"""The peak model's checks as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfkit.model import Cell, Column, MetricValue, Status, Table
from perfkit.model.peak import Closure, PeakCheck

_LONG = 12  # rows from which on reasons are folded by kind

COLUMNS = (
    Column("kernel", "kernel"),
    Column("problem", "problem"),
    Column("launch", "launch"),
    Column("verdict", "verdict"),
    Column("issue_rate", "issue", "fraction", 2, "cycles with an instruction issued / active cycles"),
    Column("fma_share", "FMA", "fraction", 2, "FP32 FMA instructions / all instructions executed"),
    Column("two_factor", "product", "fraction", 2, "issue rate x FMA share: the article's model"),
    Column("two_factor_error", "error", "point", 2, "product - ncu's own share"),
    Column("active_fraction", "active", "fraction", 2, "active cycles / elapsed cycles"),
    Column("lane_factor", "lanes", "", 0, "32 / FP32 lanes of an SMSP"),
    Column("lane_fraction", "lanes on", "fraction", 1, "predicated-on lanes of the FMAs"),
    Column("full", "model", "fraction", 2, "product of all factors"),
    Column("counted", "by ncu", "fraction", 2, "FMA lanes counted per elapsed cycle / FP32 lanes"),
    Column("residual", "off ncu", "point", 3, "model - ncu's own share"),
    Column("work", "by work", "fraction", 2, "FLOPs of the work model / (ncu's time x peak at ncu's clock)"),
    Column("work_residual", "off work", "point", 3, "model - by work"),
    Column("timed", "timed", "fraction", 2, "share of peak by event timing (perfkit bench)"),
    Column("timed_residual", "off timed", "point", 2, "model - timed"),
)
# Left out where no row has them (a report without a run knows neither work nor timing), or where they
# change nothing in any row.
_OPTIONAL: dict[str, float | None] = {
    "problem": None,
    "work": None,
    "work_residual": None,
    "timed": None,
    "timed_residual": None,
    "lane_factor": 1.0,
    "lane_fraction": 1.0,
}


def peak_table(checks: Sequence[PeakCheck]) -> Table:
    """One row a launch; the reasons are in the notes."""
    names = _report_names(checks)
    rows = [_row(check, names) for check in checks]
    kept = [index for index, column in enumerate(COLUMNS) if not _idle(column.name, index, rows)]
    return Table(
        name="model",
        title="share of FP32 FMA peak: the model against measurement",
        columns=tuple(COLUMNS[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in rows),
        notes=tuple(_notes(checks, names)),
    )


def _idle(name: str, index: int, rows: Sequence[tuple[Cell, ...]]) -> bool:
    return name in _OPTIONAL and all(row[index].value in (None, "", _OPTIONAL[name]) for row in rows)


def _row(check: PeakCheck, names: Mapping[str, str]) -> tuple[Cell, ...]:
    factors = check.factors
    return (
        Cell(check.kernel),
        Cell(check.problem),
        Cell(_where(check, names)),
        Cell(str(check.closure)),
        _factor(factors["issue_rate"]),
        _factor(factors["fma_share"]),
        _share(check.two_factor, check),
        _share(check.two_factor_error, check),
        _factor(factors["active_fraction"]),
        _factor(factors["lane_factor"]),
        _factor(factors["lane_fraction"]),
        _share(check.full, check),
        _share(check.counted, check),
        _share(check.residual, check),
        _share(check.work, check),
        _share(check.work_residual, check),
        _share(check.timed, check),
        _share(check.timed_residual, check),
    )


def _where(check: PeakCheck, names: Mapping[str, str]) -> str:
    launch = check.launch
    inside = f"{launch.launch}" if launch.range == 0 else f"{launch.range}.{launch.launch}"
    return f"{names[launch.report]}:{inside}" if len(names) > 1 else inside


def _report_names(checks: Sequence[PeakCheck]) -> dict[str, str]:
    """Reports by their file names; with the folder where two share a name, as the reports of runs do."""
    paths = {check.launch.report: Path(check.launch.report) for check in checks}
    shared = Counter(path.name for path in paths.values())
    return {
        report: path.name if shared[path.name] == 1 else f"{path.parent.name}/{path.name}"
        for report, path in paths.items()
    }


def _factor(value: MetricValue) -> Cell:
    return Cell(value.value, value.status, note=value.reason if value.value is None else "")


def _share(value: float | None, check: PeakCheck) -> Cell:
    if value is not None:
        return Cell(value)
    return Cell(None, Status.UNDEFINED if check.closure is Closure.NO_SHARE else Status.NOT_COLLECTED)


def _notes(checks: Sequence[PeakCheck], names: Mapping[str, str]) -> list[str]:
    said = [check for check in checks if check.reason]
    if len(said) < _LONG:
        return [f"{check.kernel} {check.problem} ({_where(check, names)}): {check.reason}" for check in said]
    # Many launches: say each reason once, with the launches it is about.
    reasons: dict[str, list[str]] = {}
    for check in said:
        reasons.setdefault(check.reason, []).append(_where(check, names))
    return [f"{_listed(where)}: {reason}" for reason, where in reasons.items()]


def _listed(where: Sequence[str]) -> str:
    if len(where) <= 3:
        return ", ".join(where)
    return f"{where[0]}, {where[1]} and {len(where) - 2} more"
