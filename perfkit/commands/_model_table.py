"""The peak model's checks as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perfkit.analysis.identity import report_names
from perfkit.analysis.timings import COLD, HOT
from perfkit.model import Cell, Column, LaunchId, MetricValue, Status, Table
from perfkit.model.peak import Closure, PeakCheck

_LONG = 12  # launches from which on reasons are folded by kind
_HOW = {HOT: "launches back to back", COLD: "caches flushed before each launch"}
_FOLD = 4  # launches without a share from which on they are a line a report
_POINTER = " (the notes name the counters)"
_UNLIKE = {
    (HOT, COLD): "where ncu flushed them: launches that live off the caches are faster here (`perfkit bench "
    "--cold` times them alike)",
    (COLD, HOT): "where ncu did not: launches that live off the caches are slower here",
}

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
    Column("timed_cache", "caches", "", None, "hot: launches back to back; cold: flushed before each launch"),
)
UNTOLD_COLUMNS = (
    Column("report", "report"),
    Column("numbers", "launches"),
    Column("count", "count", "", 0),
    Column("verdict", "verdict"),
    Column("kernels", "kernels"),
)
# Left out where no row has them (a report without a run knows neither work nor timing), or where they
# change nothing in any row.
_OPTIONAL: dict[str, float | None] = {
    "problem": None,
    "work": None,
    "work_residual": None,
    "timed": None,
    "timed_residual": None,
    "timed_cache": None,
    "lane_factor": 1.0,
    "lane_fraction": 1.0,
}


def peak_tables(checks: Sequence[PeakCheck], *, fold: bool = True) -> list[Table]:
    """One row a launch, in one table; with `fold`, many launches without a share get a table of their own.

    There they are one row a report and reason. Every launch is in one of the two. Without `fold` (for
    programs) every column is there, whatever it holds, and launches are REPORT:launch.
    """
    untold = [check for check in checks if check.full is None]
    if not fold or len(untold) < _FOLD:
        return [peak_table(checks, whole=not fold)]
    told = [check for check in checks if check.full is not None]
    return [*([peak_table(told)] if told else []), untold_table(untold)]


def untold_table(checks: Sequence[PeakCheck]) -> Table:
    """Launches without a share of peak: a row a report and reason."""
    groups: dict[tuple[str, Closure, str], list[PeakCheck]] = {}
    for check in checks:
        groups.setdefault((check.launch.report, check.closure, check.reason), []).append(check)
    names = report_names(check.launch.report for check in checks)
    needed = {
        f"{_said(name)}: {value.reason}": None
        for check in checks
        if check.reason.startswith("missing")
        for name, value in check.factors.items()
        if value.value is None and value.reason
    }
    return Table(
        name="model_untold",
        title="launches without a share of FP32 peak",
        columns=UNTOLD_COLUMNS,
        rows=tuple(
            (
                Cell(names[report]),
                Cell(_numbers([check.launch for check in those])),
                Cell(len(those)),
                Cell(str(closure), note=reason.removesuffix(_POINTER)),
                Cell(_listed(list(dict.fromkeys(check.kernel for check in those)))),
            )
            for (report, closure, reason), those in groups.items()
        ),
        notes=tuple(needed),
    )


def _said(factor: str) -> str:
    return factor.replace("_", " ").replace("fma", "FMA")


def _numbers(launches: Sequence[LaunchId]) -> str:
    """ "0-3, 7": launch numbers, neighbours joined; "1.0" is launch 0 of range 1."""
    spans: list[list[LaunchId]] = []
    for launch in launches:
        last = spans[-1][-1] if spans else None
        if last is not None and (launch.range, launch.launch) == (last.range, last.launch + 1):
            spans[-1].append(launch)
        else:
            spans.append([launch])
    ends = [dict.fromkeys(one.number for one in (span[0], span[-1])) for span in spans]
    return ", ".join("-".join(end) for end in ends)


def peak_table(checks: Sequence[PeakCheck], *, whole: bool = False) -> Table:
    """One row a launch; the reasons are in the notes. `whole`: with the columns that say nothing here."""
    names = report_names(check.launch.report for check in checks)
    rows = [_row(check, names) for check in checks]
    if whole:
        rows = [
            (*row[:2], Cell(str(check.launch)), *row[3:]) for row, check in zip(rows, checks, strict=True)
        ]
    kept = [index for index, column in enumerate(COLUMNS) if whole or not _idle(column.name, index, rows)]
    if not whole and not any(check.problem for check in checks):
        # Only the launch tells rows apart, so it leads, and every block of a wide table repeats it.
        kept.sort(key=lambda index: COLUMNS[index].name != "launch")
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
        Cell(check.timing.cache if check.timing and check.timed is not None else ""),
    )


def _where(check: PeakCheck, names: Mapping[str, str]) -> str:
    number = check.launch.number
    return f"{names[check.launch.report]}:{number}" if len(names) > 1 else number


def _factor(value: MetricValue) -> Cell:
    told = value.value is None or value.status is Status.INVALID
    return Cell(value.value, value.status, note=value.reason if told else "")


def _share(value: float | None, check: PeakCheck) -> Cell:
    if value is not None:
        return Cell(value, Status.INVALID if value > 1 else Status.OK)
    return Cell(None, Status.UNDEFINED if check.closure is Closure.NO_SHARE else Status.NOT_COLLECTED)


def _notes(checks: Sequence[PeakCheck], names: Mapping[str, str]) -> list[str]:
    notes = [*_timing_notes(checks)]
    said = [check for check in checks if check.reason]
    if len(said) < _LONG:
        return notes + [f"{_called(check)} ({_where(check, names)}): {check.reason}" for check in said]
    # Many launches: say each reason once, with the launches it is about.
    reasons: dict[str, list[str]] = {}
    for check in said:
        reasons.setdefault(check.reason, []).append(_where(check, names))
    return notes + [f"{_listed(where)}: {reason}" for reason, where in reasons.items()]


def _timing_notes(checks: Sequence[PeakCheck]) -> Iterator[str]:
    """With which caches launches were timed, once a kind; which are off is in their reasons."""
    kinds: dict[tuple[str, str], list[PeakCheck]] = {}
    for check in checks:
        if check.timing is not None and check.timed is not None:
            kinds.setdefault((check.timing.cache, check.timing.profiled), []).append(check)
    for (cache, profiled), those in kinds.items():
        alike = "as under ncu" if cache == profiled else _UNLIKE.get((cache, profiled), "")
        some = f" ({len(those)} launches)" if len(kinds) > 1 else ""
        yield f"timed {cache}{some}: {_HOW[cache]}{alike and ', '}{alike}"


def _called(check: PeakCheck) -> str:
    return f"{check.kernel} {check.problem}".rstrip()


def _listed(where: Sequence[str]) -> str:
    if len(where) <= 3:
        return ", ".join(where)
    return f"{where[0]}, {where[1]} and {len(where) - 2} more"
