"""Tables of launches and of metric sets: side by side for a few launches, one row each for many."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from pathlib import Path

from perfkit.analysis.aggregate import DEFAULT_KEYS, Group
from perfkit.analysis.frames import LONG_COLUMNS, long_rows
from perfkit.analysis.identity import (
    devices,
    processes,
    report_names,
    several_devices,
    several_processes,
)
from perfkit.analysis.metrics import MetricSets
from perfkit.errors import UsageError
from perfkit.model import (
    Cell,
    Column,
    Contradiction,
    Dim3,
    Evaluated,
    Launch,
    MetricValue,
    Status,
    Table,
    WorkloadKind,
)
from perfkit.units import format_value

_SECTIONS = re.compile(r"--section \w+(?: --section \w+)*(?=`)")
SIDE_BY_SIDE = 12  # up to so many launches become columns
_HEADING = 32  # characters of a launch that head a column


def labels(launches: Sequence[Launch]) -> list[str]:
    """A short, unambiguous label for each launch: kernel; problem, device, process, report and #index where
    they differ.

    What tells launches apart stands at the end, which survives where a narrow table cuts names in the middle.
    """
    several_problems = len({one.problem for one in launches}) > 1
    base = [f"{one.label} {one.problem}".strip() if several_problems else one.label for one in launches]
    seen = Tally(base)
    reports = report_names(one.id.report for one in launches)
    where = devices(launches) if several_devices(launches) else {}
    ran_by = processes(launches) if several_processes(launches) else {}
    result = []
    for label, one in zip(base, launches, strict=True):
        if seen[label] > 1:
            if device := where.get((one.gpu, one.device)):
                label = f"{label} device {device}"
            if process := ran_by.get(one.process):
                label = f"{label} process {process}"
            if len(reports) > 1:
                label = f"{label} {Path(reports[one.id.report]).with_suffix('')}"
            label = f"{label} #{one.id.number}"
        result.append(label)
    return result


def launch_table(evaluated: Sequence[Evaluated], sets: MetricSets) -> Table:
    """Every launch: where it is, what it is, and whether it was collected.

    Kind, device and process have a column only where they tell launches apart, or are not a kernel's. Notes
    say where a launch's counters contradict one another.
    """
    launches = [one.launch for one in evaluated]
    reports = report_names(one.id.report for one in launches)
    headings = labels(launches)
    columns = [Column("launch", "launch"), Column("kernel", "kernel")]
    rows: list[tuple[Cell, ...]] = []
    apart = apart_columns(launches)
    columns += [column for column, _ in apart]
    columns += [
        Column("problem", "problem"),
        Column("gpu", "GPU"),
        Column("compute_capability", "CC"),
        Column("grid", "grid"),
        Column("block", "block"),
        Column("duration", "duration (ncu)", "s"),
    ]
    for index, one in enumerate(evaluated):
        launch = one.launch
        duration = one.metrics.get("duration") or sets.evaluate(launch, ["duration"]).metrics["duration"]
        rows.append(
            (
                Cell(launch.id.number),
                Cell(launch.label),
                *(Cell(texts[index]) for _, texts in apart),
                Cell(launch.problem),
                Cell(launch.gpu),
                Cell(f"{launch.compute_capability[0]}.{launch.compute_capability[1]}"),
                Cell(_dim3(launch.grid)),
                Cell(_dim3(launch.block)),
                cell(duration),
            )
        )
    if len(reports) > 1:
        columns = [Column("report", "report"), *columns]
        rows = [(Cell(reports[one.id.report]), *row) for one, row in zip(launches, rows, strict=True)]
    if not any(one.problem for one in launches):
        columns, rows = _without(columns, rows, "problem")
    notes = [
        f"{heading}: {contradiction_text(found)}"
        for heading, one in zip(headings, evaluated, strict=True)
        for found in one.contradictions
    ]
    return Table("launches", "Launches", tuple(columns), tuple(rows), tuple(notes))


def apart_columns(launches: Sequence[Launch]) -> list[tuple[Column, list[str]]]:
    """Kind, device and process of launches as columns: those that tell launches apart, each with its texts.

    The kind is shown for whatever is not a kernel, since only a kernel has a grid and registers.
    """
    found = []
    if any(one.kind is not WorkloadKind.KERNEL for one in launches):
        kinds = [one.kind.value.replace("_", " ") for one in launches]
        found.append((Column("kind", "kind", doc="What ncu profiled as one result"), kinds))
    if several_devices(launches):
        where = devices(launches)
        doc = "CUDA's number of the GPU, with its bus address where processes number theirs alike"
        found.append((Column("device", "device", doc=doc), [where[one.gpu, one.device] for one in launches]))
    if several_processes(launches):
        ran_by = processes(launches)
        found.append((Column("process", "process"), [ran_by[one.process] for one in launches]))
    return found


def contradiction_text(found: Contradiction) -> str:
    """`FMAs contradict one another: 1 kinst by opcode, 1.1 kinst (threads / 32) (9.1% apart, 1% allowed)`."""
    (how_a, a), (how_b, b) = found.readings
    unit = "" if found.unit in ("", "1") else found.unit
    largest = max(abs(a), abs(b))
    apart = f"{abs(a - b) / largest:.1%} apart, {found.tolerance:.1%} allowed" if largest > 0 else "apart"
    likely = f"; {found.likely}" if found.likely else ""
    rests = f"; invalid for it: {', '.join(found.metrics)}" if found.metrics else ""
    return (
        f"{found.what} contradict one another: {format_value(a, unit)} {_by(how_a)}, "
        f"{format_value(b, unit)} {_by(how_b)} ({apart}){likely}{rests}"
    )


def _by(how: str) -> str:
    """How a fact was read, after its value: "by opcode", "opcodes added up"."""
    return how if how.startswith(("by ", "at most ")) else f"({how})"


def _without(
    columns: list[Column], rows: list[tuple[Cell, ...]], name: str
) -> tuple[list[Column], list[tuple[Cell, ...]]]:
    index = [column.name for column in columns].index(name)
    return columns[:index] + columns[index + 1 :], [row[:index] + row[index + 1 :] for row in rows]


def set_tables(
    evaluated: Sequence[Evaluated],
    sets: MetricSets,
    names: Iterable[str],
    *,
    headings: Sequence[str] | None = None,
    detail: bool | None = None,
    side_by_side: bool | None = None,
) -> list[Table]:
    """A table for each of these sets (a metric's own name makes a table of its own).

    `headings` name the launches (default: `labels`). `detail` shows the metrics that are left out where
    there is no room (default: only side by side and only with a value). `side_by_side` makes launches
    columns (default: up to SIDE_BY_SIDE of them).
    """
    headings = labels([one.launch for one in evaluated]) if headings is None else headings
    beside = len(evaluated) <= SIDE_BY_SIDE if side_by_side is None else side_by_side
    build = _beside if beside else _rows
    tables = []
    singles: list[str] = []
    for name in names:
        if name in sets.sets:
            group = sets.sets[name]
            shown = [one for one in group.metrics if detail or not sets.metrics[one].detail]
            tables.append(build(name, group.title, shown, evaluated, sets, headings))
        else:
            singles.append(name)
    if singles:
        tables.append(build("metrics", "Metrics", singles, evaluated, sets, headings))
    return tables


def _launch_columns(headings: Sequence[str], evaluated: Sequence[Evaluated]) -> list[Column]:
    """A column a launch. A library's name of 80 characters is no heading: its start and the #index, by which
    the launch table gives it whole (and `doc`, a tooltip where there are any).
    """
    columns = []
    for number, (heading, one) in enumerate(zip(headings, evaluated, strict=True)):
        title = heading
        if len(heading) > _HEADING:
            last = heading.rpartition(" #")
            start = (last[0] if last[2].replace(".", "").isdigit() else heading)[: _HEADING - 10]
            title = f"#{one.launch.id.number} {start.rstrip('_')}…"
        columns.append(Column(f"launch_{number}", title, doc="" if title == heading else heading))
    return columns


def _beside(
    name: str,
    title: str,
    metrics: Sequence[str],
    evaluated: Sequence[Evaluated],
    sets: MetricSets,
    headings: Sequence[str],
) -> Table:
    columns = (
        Column("metric", "metric"),
        Column("unit", "unit"),
        *_launch_columns(headings, evaluated),
    )
    kept, notes = _with_values(metrics, evaluated)
    rows = tuple(
        (
            Cell(metric, text=sets.metrics[metric].title),
            Cell(sets.metrics[metric].unit),
            *(cell(one.metrics[metric], sets.metrics[metric].digits) for one in evaluated),
        )
        for metric in kept
    )
    return Table(name, title, columns, rows, notes)


def _rows(
    name: str,
    title: str,
    metrics: Sequence[str],
    evaluated: Sequence[Evaluated],
    sets: MetricSets,
    headings: Sequence[str],
) -> Table:
    kept, notes = _with_values(metrics, evaluated)
    columns = (
        Column("kernel", "launch"),
        *(
            Column(
                one,
                sets.metrics[one].title,
                sets.metrics[one].unit,
                sets.metrics[one].digits,
                sets.metrics[one].doc,
            )
            for one in kept
        ),
    )
    rows = tuple(
        (Cell(heading), *(cell(one.metrics[metric]) for metric in kept))
        for heading, one in zip(headings, evaluated, strict=True)
    )
    return Table(name, title, columns, rows, notes)


def _with_values(metrics: Sequence[str], evaluated: Sequence[Evaluated]) -> tuple[list[str], tuple[str, ...]]:
    """The metrics that any launch answers; the others go into notes, by why they have no value.

    Those that one and the same option of ncu would collect share a note.
    """
    kept: list[str] = []
    why: dict[tuple[Status, str], dict[str, str]] = {}
    for metric in metrics:
        values = [one.metrics[metric] for one in evaluated]
        # That a range has no registers is one remark for all such metrics, not a row for each.
        telling = [one.metrics[metric] for one in evaluated if one.launch.kind is WorkloadKind.KERNEL]
        undefined = any(value.status is Status.UNDEFINED for value in telling)
        if undefined or any(value.value is not None for value in values):
            kept.append(metric)
        else:
            first = next((v for v in values if v.status is Status.NOT_COLLECTED), values[0])
            option = _SECTIONS.search(first.reason)
            why.setdefault((first.status, option[0] if option else first.reason), {})[metric] = first.reason
    notes = []
    for (status, option_or_reason), reasons in why.items():
        reason = next(iter(reasons.values()))
        if len(set(reasons.values())) > 1:
            reason = f"collect with `ncu {option_or_reason}`"
        notes.append(f"{status.replace('_', ' ')}: {', '.join(reasons)}{f' ({reason})' if reason else ''}")
    return kept, tuple(notes)


def cell(value: MetricValue, digits: int | None = None) -> Cell:
    """A metric's value as a table cell; the reason becomes the note where it says something the value does
    not.
    """
    note = "" if value.status is Status.NOT_COLLECTED else value.reason
    return Cell(value.value, value.status, value.unit, digits, note)


def _dim3(value: Dim3 | None) -> str:
    return "" if value is None else " x ".join(map(str, value))


def aggregate_tables(
    groups: Sequence[Group], sets: MetricSets, names: Iterable[str], function: str, by: Sequence[str]
) -> list[Table]:
    """What the groups are, then a table for each set with a row (or column) for each group."""
    held = [index for index in range(len(by)) if any(g.key[index] for g in groups)]
    if tuple(by) == DEFAULT_KEYS:  # nobody asked for the device: it is shown where it tells groups apart
        held = [i for i in held if by[i] != "device" or len({g.key[i] for g in groups}) > 1]
    columns = (
        *(Column(by[index], by[index]) for index in held),
        Column("launches", "launches"),
        Column("left_out", "not collected"),
    )
    rows = tuple(
        (*(Cell(g.key[index]) for index in held), Cell(g.used), Cell(len(g.left_out))) for g in groups
    )
    how = f"Each metric's {function} over the launches of a group."
    if function == "total":
        how = "Counters are added over the launches, then the formulas evaluated: a ratio is a ratio of sums."
    # What is the same in all groups would only make the headings long.
    telling = [i for i in held if i == 0 or len({g.key[i] for g in groups}) > 1]
    said = {"device": "device ", "process": "process "}
    headings = [" ".join(said.get(by[i], "") + g.key[i] for i in telling if g.key[i]) for g in groups]
    notes = [
        f"{heading}: over launches that differ in {' and '.join(g.differ)}; add it to --by to keep them apart"
        for heading, g in zip(headings, groups, strict=True)
        if g.differ
    ]
    notes += [
        f"{heading}: {one.launch.id}: {contradiction_text(found)}"
        for heading, g in zip(headings, groups, strict=True)
        for one in g.contradicting
        for found in one.contradictions
    ]
    by_what = ", ".join(by[index] for index in held)
    first = Table("groups", f"Groups ({function} by {by_what})", columns, rows, (how, *notes))
    return [first, *set_tables([g.aggregate for g in groups], sets, names, headings=headings)]


def long_table(evaluated: Sequence[Evaluated]) -> Table:
    """The long frame as a table, for CSV: one row for each launch and metric."""
    rows = (tuple(Cell(None if value != value else value) for value in row) for row in long_rows(evaluated))
    return Table("metrics", "Metrics", tuple(Column(name, name) for name in LONG_COLUMNS), tuple(rows))


def raw_table(evaluated: Sequence[Evaluated], pattern: str) -> Table:
    """Counters as stored whose names match: side by side for a few launches, a row for each otherwise.

    Raises UsageError for a bad pattern, and when nothing matches.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--raw {pattern!r} is no regular expression: {error}", "Correct it.") from None
    names = dict.fromkeys(name for one in evaluated for name in one.launch.counters if wanted.search(name))
    if not names:
        raise UsageError(f"no counter matches {pattern!r}", "`--raw .` shows every counter of the reports.")
    headings = labels([one.launch for one in evaluated])
    if len(evaluated) <= SIDE_BY_SIDE:
        return _raw_beside(sorted(names), evaluated, headings)
    columns = tuple(Column(one, one) for one in ("launch", "counter", "value", "unit", "status"))
    rows = []
    for heading, one in zip(headings, evaluated, strict=True):
        for name in sorted(names):
            if (found := one.launch.counters.get(name)) is not None:
                rows.append(
                    (
                        Cell(heading),
                        Cell(name),
                        Cell(found.value, found.status),
                        Cell(found.unit),
                        Cell(found.status.value),
                    )
                )
    return Table("counters", "Counters", columns, tuple(rows))


def _raw_beside(names: Sequence[str], evaluated: Sequence[Evaluated], headings: Sequence[str]) -> Table:
    columns = (
        Column("counter", "counter"),
        Column("report_unit", "unit"),
        *_launch_columns(headings, evaluated),
    )
    rows = []
    for name in names:
        found = [one.launch.counters.get(name) for one in evaluated]
        unit = next((one.unit for one in found if one is not None), "")
        cells = (
            Cell(None, Status.NOT_COLLECTED) if one is None else Cell(one.value, one.status) for one in found
        )
        rows.append((Cell(name), Cell(unit), *cells))
    return Table("counters", "Counters as stored", columns, tuple(rows))
