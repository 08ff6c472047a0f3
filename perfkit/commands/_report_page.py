"""Puts the HTML report together: what each section shows, from the launches and runs that were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from perfkit.errors import NotComparableError, UsageError
from perfkit.model import Cell, Column, Evaluated, Table
from perfkit.model.page import BarChart, BarRow, Explanation, ReportPage, StallRow

if TYPE_CHECKING:
    from perfkit.commands._inputs import Inputs
    from perfkit.model.measurements import Measurements
    from perfkit.model.traced import Roofline

MAX_EXPLANATIONS = 24


def counters_to_read() -> tuple[str, ...]:
    """What the sections need beside the fixed metric sets."""
    from perfkit.analysis import facts, peak_model, roofline

    return (*roofline.COUNTERS, *facts.COUNTERS, *peak_model.counters())


def build_page(inputs: Inputs, measurements: Measurements, problem: str, title: str) -> ReportPage:
    """Every section that the inputs can fill; what a section leaves out is said in it."""
    from perfkit.analysis.tables import labels, set_tables

    headings = labels([item.launch for item in inputs.evaluated])
    explanations, left_out = _explanations(measurements, problem)
    rooflines, no_roofline = _rooflines(measurements)
    notes = [
        ("explain", left_out),
        ("roofline", no_roofline),
        ("summary", " ".join((*_damage(inputs), *measurements.warnings))),
        ("counters", " ".join(_contradictions(inputs.evaluated, headings))),
    ]
    return ReportPage(
        title=title or f"CUDA kernels on {measurements.gpu or 'an unknown GPU'}",
        subtitle=_subtitle(inputs, measurements),
        facts=tuple(_facts(inputs, measurements)),
        bars=tuple(_bars(measurements)),
        counters=tuple(
            set_tables(
                inputs.evaluated,
                inputs.sets,
                inputs.sets.sets,
                headings=headings,
                side_by_side=False,
                detail=False,
            )
        )
        if inputs.evaluated
        else (),
        stalls=tuple(_stalls(inputs.evaluated, headings)),
        rooflines=rooflines,
        model=_model(inputs),
        explanations=explanations,
        provenance=tuple(_provenance(inputs, headings)),
        notes=tuple((section, text) for section, text in notes if text),
    )


def _damage(inputs: Inputs) -> Iterator[str]:
    """What the reports lack or hold wrongly: the page is read by others than whoever saw the warnings."""
    for report in inputs.reports:
        name = inputs.files[report.path].name
        for problem in report.problems:
            yield f"{name} {problem}."


def _contradictions(evaluated: Sequence[Evaluated], headings: Sequence[str]) -> Iterator[str]:
    from perfkit.analysis.tables import contradiction_text

    for item, heading in zip(evaluated, headings, strict=True):
        for found in item.contradictions:
            yield f"{heading}: {contradiction_text(found)}."


def _subtitle(inputs: Inputs, measurements: Measurements) -> str:
    parts = []
    if measurements.compute_capability is not None:
        parts.append("compute capability {}.{}".format(*measurements.compute_capability))
    versions = sorted({item.launch.ncu_version for item in inputs.evaluated if item.launch.ncu_version})
    if versions:
        parts.append(f"Nsight Compute {', '.join(versions)}")
    parts += [f"{record.what} {record.started}" for record in inputs.records]
    return " · ".join(parts)


def _facts(inputs: Inputs, measurements: Measurements) -> Iterator[tuple[str, str]]:
    for count, what in ((len(measurements.kernels), "kernel"), (len(inputs.evaluated), "launch")):
        plural = "es" if what == "launch" else "s"
        yield what if count == 1 else what + plural, str(count)
    uncollected = sum(1 for item in inputs.evaluated if not item.launch.collected)
    if uncollected:
        yield "launches not collected", str(uncollected)
    if lost := sum(report.lost for report in inputs.reports):
        least = "at least " if any(report.truncated for report in inputs.reports) else ""
        yield "launches lost", f"{least}{lost}"
    problems = [problem for problem in measurements.problems if problem]
    if problems:
        yield "sizes", ", ".join(problems)
    yield "timed by perfkit bench", "yes" if any(record.results for record in inputs.records) else "no"


def _bars(measurements: Measurements) -> Iterator[BarChart]:
    """A chart a size, the largest first: timed speeds, else speeds under ncu, else durations under ncu."""
    choices = (
        ("flop_rate", "FLOP/s", "Speed by event timing (perfkit bench)."),
        ("ncu_flop_rate", "FLOP/s", "Speed under ncu: FLOPs over its duration."),
        ("duration", "s", "Duration under ncu, with its cache and clock control."),
    )
    for problem in reversed(measurements.problems):
        for name, unit, how in choices:
            doubtful = measurements.doubtful(name, problem)
            rows = tuple(
                BarRow(kernel, value, kernel == measurements.reference)
                for kernel in measurements.kernels
                if kernel not in doubtful and (value := measurements.number(name, kernel, problem)) == value
            )
            # One measure for all of a chart; where it holds for few of the launches the next one is tried.
            present = sum(1 for kernel in measurements.kernels if (kernel, problem) in measurements.launches)
            if rows and 2 * (len(rows) + len(doubtful)) > present:
                for kernel, why in doubtful.items():
                    how += f" Not drawn, it cannot be right: {kernel} ({why})."
                if any(row.second for row in rows):
                    how += f" Orange: {measurements.reference}, which the others are measured against."
                yield BarChart(problem or "All launches", unit, rows, how)
                break


def _stalls(evaluated: Sequence[Evaluated], headings: Sequence[str]) -> Iterator[StallRow]:
    from perfkit.analysis.facts import stalls_of

    for item, heading in zip(evaluated, headings, strict=True):
        stalls = tuple((reason, value) for reason, value in stalls_of(item).items() if value > 0)
        if stalls:
            problem = item.launch.problem
            yield StallRow(heading.removesuffix(f" {problem}") if problem else heading, stalls, problem)


def _rooflines(measurements: Measurements) -> tuple[tuple[Roofline, ...], str]:
    """One a size, the largest first; and why there is none."""
    from perfkit.analysis.roofline import roofline

    found, why = [], ""
    for problem in reversed(measurements.problems):
        try:
            found.append(roofline(measurements, problem))
        except UsageError as error:
            why = f"Not drawn{f' at {problem}' if problem else ''}: {error.message[:400]}."
    return tuple(found), why


def _model(inputs: Inputs) -> tuple[Table, ...]:
    from perfkit.analysis import peak_model
    from perfkit.commands._model_table import peak_tables

    checks = peak_model.check_launches(
        [item.launch for item in inputs.evaluated],
        inputs.sets,
        flops=peak_model.run_flops(inputs.records),
        timed=peak_model.run_timed(inputs.records),
    )
    return tuple(peak_tables(checks)) if checks else ()


def _explanations(measurements: Measurements, problem: str) -> tuple[tuple[Explanation, ...], str]:
    """Each kernel against the next at `problem`, kernels that were held to fewer blocks left out."""
    ladder = [
        kernel
        for kernel in measurements.kernels
        if "@" not in kernel and (kernel, problem) in measurements.launches
    ]
    pairs = list(pairwise(ladder))
    left_out = ""
    if len(pairs) > MAX_EXPLANATIONS:
        left_out = (
            f"The first {MAX_EXPLANATIONS} of {len(pairs)} neighbours: `perfkit explain A B` has any pair."
        )
    return tuple(_explanation(measurements, a, b, problem) for a, b in pairs[:MAX_EXPLANATIONS]), left_out


def _explanation(measurements: Measurements, a: str, b: str, problem: str) -> Explanation:
    from perfkit.analysis.explain import explain, waterfall

    title = f"{a} to {b}"
    try:
        result = explain([measurements.launches[a, problem]], [measurements.launches[b, problem]])
    except NotComparableError as error:
        return Explanation(title, f"Not comparable: {error.message}", (), None)
    except UsageError as error:
        return Explanation(title, f"Not explained: {error.message}", (), None)
    verdict = f"{result.verdict.kind.value}: {result.verdict.reason}"
    return Explanation(title, verdict, (*result.sentences, *result.warnings), waterfall(result))


def _provenance(inputs: Inputs, headings: Sequence[str]) -> Iterator[Table]:
    if inputs.records:
        yield _runs_table(inputs)
    yield _files_table(inputs)
    if inputs.evaluated:
        yield _launches_table(inputs, headings)


def _runs_table(inputs: Inputs) -> Table:
    names = (
        "run",
        "what",
        "status",
        "started",
        "GPU",
        "GPU UUID",
        "driver",
        "versions",
        "options",
        "command",
    )
    rows = []
    for record in inputs.records:
        gpu = record.gpu
        texts = (
            record.id,
            record.what,
            record.status,
            record.started,
            gpu.name if gpu else "",
            gpu.uuid if gpu else "",
            gpu.driver if gpu else "",
            ", ".join(f"{name} {version}" for name, version in record.versions.items()),
            ", ".join(f"{name}={value}" for name, value in record.options.items()),
            " ".join(record.command),
        )
        rows.append(tuple(Cell(text) for text in texts))
    return Table("runs", "Runs", tuple(Column(name, name) for name in names), tuple(rows))


def _files_table(inputs: Inputs) -> Table:
    files = {file.name: file.sha256 for file in inputs.files.values()}
    rows = tuple((Cell(name), Cell(digest, text=digest)) for name, digest in files.items())
    return Table("files", "Files", (Column("file", "file"), Column("sha256", "SHA-256")), rows)


def _launches_table(inputs: Inputs, headings: Sequence[str]) -> Table:
    from perfkit.analysis.tables import apart_columns

    apart = apart_columns([item.launch for item in inputs.evaluated])
    names = ("launch", "report", "range.launch", "function", "full name", "grid", "block")
    rows = []
    for index, (item, heading) in enumerate(zip(inputs.evaluated, headings, strict=True)):
        launch = item.launch
        file = inputs.files.get(launch.id.report)
        texts = (
            heading,
            file.name if file else launch.id.report,
            f"{launch.id.range}.{launch.id.launch}",
            launch.kernel,
            launch.name,
            " x ".join(map(str, launch.grid or ())),
            " x ".join(map(str, launch.block or ())),
        )
        told = (held[index] for _, held in apart)
        rows.append((*(Cell(text) for text in (*texts, *told)), Cell(launch.collected)))
    columns = [Column(name, name) for name in names]
    columns += [*(column for column, _ in apart), Column("collected", "collected")]
    return Table("launches", "Launches", tuple(columns), tuple(rows))
