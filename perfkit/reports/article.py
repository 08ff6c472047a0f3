"""The article's tables, for any set of kernels: every cell with the measurement behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfkit.model import Cell, Column, Status, Table
from perfkit.model.measurements import Measurements, Source, Traced
from perfkit.model.traced import TracedTable

NEEDS_BENCH = (
    "No timings: give a bench run as well (`perfkit bench KERNELS`), then article both runs together."
)
NEEDS_PROFILE = (
    "No counters: give a profile run as well (`perfkit profile KERNELS`), then article both runs together."
)
HELD = "@B after a name: held to B blocks an SM by unused shared memory."


@dataclass(frozen=True, slots=True)
class _Spec:
    """A column: the measurement it shows. `bench`: it comes from timings, not from counters."""

    name: str
    title: str
    unit: str = ""
    digits: int | None = None
    doc: str = ""
    bench: bool = False


_CLIMB = (
    _Spec("time", "Time", "s", doc="Median of event timings.", bench=True),
    _Spec("flop_rate", "Speed", "FLOP/s", doc="FLOPs of the work model over the time.", bench=True),
    _Spec("share_of_reference", "Share of {reference}", "fraction", bench=True),
    _Spec("clock", "SM clock", "Hz", doc="The clock that ran while it was timed.", bench=True),
    _Spec(
        "power",
        "Power",
        "W",
        0,
        doc="Of the board while it was timed: mean by its energy counter; protocol `article`: median.",
        bench=True,
    ),
    _Spec(
        "timed_share_of_peak", "Share of peak", "fraction", doc="Of FP32 FMA peak at that clock.", bench=True
    ),
    _Spec(
        "speedup",
        "Speed-up over the one before",
        "",
        2,
        doc="Time of the kernel before over its own.",
        bench=True,
    ),
)
_COUNTERS = (
    _Spec("registers_per_thread", "Registers", "", 0),
    _Spec(
        "achieved_occupancy", "Achieved occupancy", "fraction", doc="Active warps over the most an SM holds."
    ),
    _Spec("sectors_per_load", "Sectors per load", "", 1),
    _Spec("l1_hit_rate", "L1 hits", "fraction"),
    _Spec("l2_hit_rate", "L2 hits", "fraction"),
    _Spec(
        "l2_read_bytes",
        "Read from L2",
        "byte",
        2,
        doc="Bytes that L2 sent to L1, or else the sectors asked of it.",
    ),
    _Spec("dram_bytes", "DRAM", "byte", doc="Bytes read from and written to device memory."),
    _Spec("fma_per_shared_load", "FMAs per shared load", "", 1),
    _Spec("wavefronts_per_shared_load", "Wavefronts per shared read", "", 1),
    _Spec("shared_load_conflicts", "Bank conflicts", "", 0, doc="Of shared loads."),
    _Spec("top_stall", "Top stall"),
    _Spec("issue_rate", "Issue slots used", "fraction"),
    _Spec("fma_share", "FMA share", "fraction"),
)
_MODEL = (
    _Spec("issue_rate", "Issue rate", "fraction"),
    _Spec("fma_share", "FMA share", "fraction"),
    _Spec("two_factor_model", "Issue × FMA", "fraction", doc="The two-factor model."),
    _Spec("measured_share", "Measured", "fraction", doc="Share of FP32 peak: timed where there are timings."),
    _Spec("two_factor_error", "Issue × FMA off measured", "point", 1, doc="Two-factor model - measured."),
    _Spec(
        "active_fraction",
        "Active cycles",
        "fraction",
        doc="Active over elapsed cycles of the SM sub-partitions.",
    ),
    _Spec("model_share_of_peak", "Full model", "fraction"),
    _Spec(
        "share_of_peak",
        "Measured under ncu",
        "fraction",
        doc="Share of FP32 peak by ncu's own time and clock.",
    ),
    _Spec("model_error", "Full model off ncu", "point", 2, doc="Full model - share under ncu."),
    _Spec("timed_model_error", "Full model off timing", "point", 1, doc="Full model - timed share."),
)


def article_tables(measurements: Measurements, problem: str = "") -> tuple[TracedTable, ...]:
    """The climb, the counters, the model against measurement, and the sizes.

    `problem` chooses the size of the first three; the default is the one most kernels were measured at.
    Tables whose inputs are missing are there, and say what they need.
    """
    at = problem or measurements.main_problem
    return (climb(measurements, at), counters(measurements, at), model(measurements, at), sizes(measurements))


def climb(measurements: Measurements, problem: str) -> TracedTable:
    """Time, speed, share of the reference, clock, power, share of peak, speed-up over the one before."""
    specs = [spec for spec in _CLIMB if measurements.reference or spec.name != "share_of_reference"]
    title = f"The climb{_of(measurements, problem)}"
    return _by_kernel("climb", title, specs, measurements, problem)


def counters(measurements: Measurements, problem: str) -> TracedTable:
    """What Nsight Compute counted, a row a kernel."""
    return _by_kernel(
        "counters", f"The counters{_of(measurements, problem)}", _COUNTERS, measurements, problem
    )


def model(measurements: Measurements, problem: str) -> TracedTable:
    """Issue rate x FMA share against the measured share of peak; the full model against ncu's share."""
    title = f"Model against measurement{_of(measurements, problem)}"
    return _by_kernel("model", title, _MODEL, measurements, problem)


def sizes(measurements: Measurements) -> TracedTable:
    """Speed of every kernel at every size; last row the reference's share of peak, the best's in brackets."""
    problems = [problem for problem in measurements.problems if problem] or list(measurements.problems)
    sources: dict[tuple[str, str], Traced] = {}
    rows = []
    for kernel in measurements.kernels:
        cells = [Cell(kernel)]
        for problem in problems:
            traced = measurements.get("flop_rate", kernel, problem)
            cells.append(_cell(traced, bench=True))
            _keep(sources, kernel, problem, traced)
        rows.append(tuple(cells))
    last = _share_row(measurements, problems, sources)
    columns = [Column("kernel", "Kernel"), *(Column(name, name or "Speed", "FLOP/s") for name in problems)]
    table = Table(
        name="sizes",
        title=f"Speed at every size{_of(measurements, '')}",
        columns=tuple(columns),
        rows=(*rows, *last),
        notes=_notes(measurements, rows),
    )
    return TracedTable(table, sources)


def _share_row(
    measurements: Measurements, problems: Sequence[str], sources: dict[tuple[str, str], Traced]
) -> list[tuple[Cell, ...]]:
    """The last row of the sizes: strings for people, the two shares in provenance."""
    reference = measurements.reference
    own = [kernel for kernel in measurements.kernels if kernel != reference and "@" not in kernel]
    if not reference or not own:
        return []
    best = own[-1]
    key = f"share of peak: {reference} ({best})"
    cells = [Cell(key)]
    for problem in problems:
        both = [measurements.get("timed_share_of_peak", kernel, problem) for kernel in (reference, best)]
        first, second = (traced.number if traced is not None else float("nan") for traced in both)
        if first == first and second == second:
            cells.append(
                Cell(first, unit="fraction", digits=1, text=f"{_percent(first)} ({_percent(second)})")
            )
            source = Source(
                kind="derived",
                formula="timed_share_of_peak of the two kernels",
                inputs=tuple(f"timed_share_of_peak({kernel}, {problem})" for kernel in (reference, best)),
            )
            sources[key, problem] = Traced(first, "fraction", source)
        else:
            cells.append(Cell(None, Status.NOT_COLLECTED, unit="fraction"))
    return [tuple(cells)]


def _by_kernel(
    name: str, title: str, specs: Sequence[_Spec], measurements: Measurements, problem: str
) -> TracedTable:
    sources: dict[tuple[str, str], Traced] = {}
    rows = []
    for kernel in measurements.kernels:
        cells = [Cell(kernel)]
        for spec in specs:
            traced = measurements.get(spec.name, kernel, problem)
            # The reference ends the ladder and the first begins it: nothing comes before them.
            none_before = spec.name == "speedup" and traced is None
            cells.append(Cell(None) if none_before else _cell(traced, bench=spec.bench))
            _keep(sources, kernel, spec.name, traced)
        rows.append(tuple(cells))
    columns = [Column("kernel", "Kernel")]
    for spec in specs:
        shown = spec.title.replace("{reference}", measurements.reference)
        columns.append(Column(spec.name, shown, spec.unit, spec.digits, spec.doc))
    return TracedTable(
        Table(name, title, tuple(columns), tuple(rows), notes=_notes(measurements, rows)), sources
    )


def _cell(traced: Traced | None, *, bench: bool) -> Cell:
    if traced is None:
        return Cell(None, Status.NOT_COLLECTED, note=NEEDS_BENCH if bench else NEEDS_PROFILE)
    return Cell(traced.value, traced.status, note="" if traced.value is not None else traced.reason)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _keep(sources: dict[tuple[str, str], Traced], row: str, column: str, traced: Traced | None) -> None:
    if traced is not None:
        sources[row, column] = traced


def _notes(measurements: Measurements, rows: Sequence[Sequence[Cell]]) -> tuple[str, ...]:
    notes = [HELD] if any("@" in str(row[0].value) for row in rows) else []
    notes += measurements.warnings
    return tuple(notes)


def _of(measurements: Measurements, problem: str) -> str:
    parts = [part for part in (measurements.gpu, problem) if part]
    return f" ({', '.join(parts)})" if parts else ""


def trace(
    measurements: Measurements, tables: Sequence[TracedTable], table: str, row: str, column: str
) -> list[tuple[str, Traced]]:
    """What stands behind a cell: itself, then everything it was computed from, as (name, measurement).

    Raises KeyError with what there is to choose from.
    """
    found = next((item for item in tables if item.table.name == table), None)
    if found is None:
        raise KeyError(f"no table {table!r}; tables: {', '.join(item.table.name for item in tables)}")
    rows = [str(cells[0].value) for cells in found.table.rows]
    if row not in rows:
        raise KeyError(f"no row {row!r} in {table}; rows: {', '.join(rows)}")
    columns = [item.name for item in found.table.columns[1:]]
    if column not in columns:
        raise KeyError(f"no column {column!r} in {table}; columns: {', '.join(columns)}")
    traced = found.sources.get((row, column))
    if traced is None:
        return []
    return [(f"{table}:{row}:{column}", traced), *inputs_of(measurements, traced)]


def inputs_of(measurements: Measurements, traced: Traced) -> list[tuple[str, Traced]]:
    """Everything `traced` was computed from, depth first, each once."""
    seen: dict[str, Traced] = {}
    look_up: Callable[[str], Traced | None] = _look_up(measurements)

    def walk(item: Traced) -> None:
        for name in item.source.inputs:
            below = look_up(name)
            if below is not None and name not in seen:
                seen[name] = below
                walk(below)

    walk(traced)
    return list(seen.items())


def _look_up(measurements: Measurements) -> Callable[[str], Traced | None]:
    by_call = {
        f"{name}({kernel}, {problem})" if problem else f"{name}({kernel})": traced
        for (name, kernel, problem), traced in measurements.values.items()
    }
    return by_call.get
