"""The HTML report: one file with everything in it, by jinja2."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING

from perfkit import __version__
from perfkit.model import Table
from perfkit.model.explain import Waterfall
from perfkit.model.page import BarChart, Explanation, ReportPage, StallRow
from perfkit.model.traced import Roofline
from perfkit.reports import style
from perfkit.reports.html import table_parts
from perfkit.reports.text import shorten, visible
from perfkit.units import common_scale, decimals, format_number

if TYPE_CHECKING:
    from markupsafe import Markup

MAX_BARS = 60  # rows of a chart: more are no picture any more, the tables hold all
_STALL_COLORS = (style.BLUE, style.ORANGE, style.GREEN, style.PINK, style.SKY, style.RED, style.YELLOW)
_OTHER = "other"
_TITLE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class _Bar:
    """A piece of a row: `kind` is its CSS classes, `style` its place."""

    kind: str
    style: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    full: str
    bars: tuple[_Bar, ...]
    value: str


@dataclass(frozen=True, slots=True)
class _Chart:
    rows: tuple[_Row, ...]
    alt: str
    zero: str | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    color: str


@dataclass(frozen=True, slots=True)
class _Fact:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class _Block:
    title: str = ""
    verdict: str = ""
    sentences: tuple[str, ...] = ()
    legend: tuple[_Entry, ...] = ()
    chart: _Chart | None = None
    svg: Markup | None = None
    table: Markup | None = None
    notes: Markup | None = None
    alt: str = ""
    caption: str = ""
    card: bool = False


@dataclass(frozen=True, slots=True)
class _Section:
    anchor: str
    title: str
    intro: str
    blocks: tuple[_Block, ...] = field(default=())
    filter: bool = False


def render_page(page: ReportPage) -> str:
    """The whole page as HTML text. No script but its own may run in it, and it can load nothing (its CSP)."""
    import jinja2
    from markupsafe import Markup

    folder = files("perfkit.reports") / "templates"
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((folder / "report.html.j2").read_text(encoding="utf-8"))
    script = (folder / "report.js").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return template.render(
        page={
            "title": shorten(visible(page.title), _TITLE_LIMIT),
            "subtitle": visible(page.subtitle),
            "facts": [_Fact(visible(name), shorten(visible(value))) for name, value in page.facts],
        },
        sections=[section for section in _sections(page) if section.blocks],
        css=Markup((folder / "report.css").read_text(encoding="utf-8")),
        js=Markup(script),
        script_hash=f"sha256-{digest}",
        version=__version__,
    )


def _sections(page: ReportPage) -> list[_Section]:
    notes = dict(page.notes)

    def intro(anchor: str, text: str) -> str:
        return " ".join(part for part in (text, visible(notes.get(anchor, ""))) if part)

    return [
        _Section("summary", "Summary", intro("summary", ""), tuple(_bars(chart) for chart in page.bars)),
        _Section(
            "counters",
            "Counters",
            intro("counters", "Choose a heading to sort by it; point at it for what it counts."),
            tuple(_table(table, sortable=True) for table in page.counters),
            filter=True,
        ),
        _Section(
            "stalls",
            "Stalls",
            intro(
                "stalls",
                "Shares of the cycles that a warp waits per issued instruction, by reason; their sum stands "
                "at the right. Without selected and not_selected, which are no waiting.",
            ),
            _stalls(page.stalls),
        ),
        _Section(
            "roofline",
            "Roofline",
            intro("roofline", "At the clock that ran. Each ceiling says where it comes from."),
            tuple(_roofline(data) for data in page.rooflines),
        ),
        _Section("model", "Model check", intro("model", ""), tuple(_table(table) for table in page.model)),
        _Section(
            "explain",
            "From each to the next",
            intro("explain", "What the time ratio is made of: orange costs time, blue saves it."),
            tuple(_explanation(item) for item in page.explanations),
        ),
        _Section(
            "provenance",
            "Provenance",
            intro("provenance", ""),
            tuple(_table(table) for table in page.provenance),
        ),
    ]


def _table(table: Table, *, sortable: bool = False) -> _Block:
    from markupsafe import Markup

    if len(table.columns) == 1:  # nothing was collected: only why is left to say
        return _Block(title=visible(table.title), notes=Markup(table_parts(table)[1]))
    body, notes = table_parts(table, sortable=sortable, prefix="table-")
    # table_parts escapes every text that comes from outside.
    return _Block(table=Markup(body), notes=Markup(notes), alt=visible(table.title))


def _bars(chart: BarChart) -> _Block:
    shown = chart.rows
    note = ""
    if len(shown) > MAX_BARS:
        shown = tuple(sorted(shown, key=lambda row: -row.value)[:MAX_BARS])
        note = f"The {MAX_BARS} largest of {len(chart.rows)}; the tables below hold all."
    largest = max((row.value for row in shown), default=0.0) or 1.0
    divisor, written = common_scale([row.value for row in shown], chart.unit)
    digits = decimals([row.value / divisor for row in shown], 3)
    rows = [
        _Row(
            shorten(visible(row.name), 40),
            shorten(visible(row.name), _TITLE_LIMIT),
            (_Bar("bar second" if row.second else "bar", f"left:0;width:{100 * row.value / largest:.2f}%"),),
            f"{format_number(row.value / divisor, digits)} {written}".rstrip(),
        )
        for row in shown
    ]
    alt = f"{chart.title}: " + ", ".join(f"{row.name} {row.value}" for row in rows[:20])
    sentences = tuple(text for text in (chart.how, note) if text)
    return _Block(title=visible(chart.title), sentences=sentences, chart=_Chart(tuple(rows), alt))


def _stalls(rows: Sequence[StallRow]) -> tuple[_Block, ...]:
    if not rows:
        return ()
    shown = rows
    note: tuple[str, ...] = ()
    if len(rows) > MAX_BARS:
        # A picture of hundreds says nothing: those that wait longest are shown.
        shown = sorted(rows, key=lambda row: -sum(value for _, value in row.stalls))[:MAX_BARS]
        note = (f"The {MAX_BARS} launches that wait longest of {len(rows)}; the tables above hold all.",)
    colors = _stall_colors(shown)
    legend = tuple(_Entry(name.replace("_", " "), color) for name, color in colors.items())
    alt = "Stalls by kernel; the table of stalls above holds the numbers."
    groups = dict.fromkeys(row.group for row in shown)
    if len(groups) == 1:  # beside its legend it has the whole width
        chart = _Chart(tuple(_stall_row(row, colors) for row in shown), alt)
        return (_Block(title=visible(shown[0].group), legend=legend, sentences=note, chart=chart),)
    return (
        _Block(legend=legend, sentences=note),
        *(
            _Block(
                title=visible(group),
                chart=_Chart(tuple(_stall_row(row, colors) for row in shown if row.group == group), alt),
            )
            for group in reversed(groups)
        ),
    )


def _stall_colors(rows: Sequence[StallRow]) -> dict[str, str]:
    """A colour for each of the reasons that weigh most, by their share of each row; grey for the others."""
    weight: dict[str, float] = {}
    for row in rows:
        total = sum(value for _, value in row.stalls) or 1.0
        for name, value in row.stalls:
            weight[name] = weight.get(name, 0.0) + value / total
    leading = sorted(weight, key=lambda name: -weight[name])[: len(_STALL_COLORS)]
    colors = dict(zip(leading, _STALL_COLORS, strict=False))
    if len(weight) > len(leading):
        colors[_OTHER] = style.GREY
    return colors


def _stall_row(row: StallRow, colors: dict[str, str]) -> _Row:
    total = sum(value for _, value in row.stalls)
    held = dict.fromkeys(colors, 0.0)
    for name, value in row.stalls:
        held[name if name in colors else _OTHER] += value
    bars = tuple(
        _Bar(
            "seg",
            f"width:{100 * value / total:.2f}%;background:{colors[name]}",
            f"{name.replace('_', ' ')}: {value:.2f} cycles per issue ({value / total:.0%})",
        )
        for name, value in held.items()
        if total > 0 and value / total > 0.001
    )
    name = shorten(visible(row.name), 40)
    return _Row(name, shorten(visible(row.name), _TITLE_LIMIT), bars, f"{total:.1f} cycles/inst")


def _roofline(data: Roofline) -> _Block:
    from markupsafe import Markup

    from perfkit.reports.plots import svg, themed
    from perfkit.reports.roofline_plot import roofline

    sentences = tuple(visible(text) for text in (*data.notes, *data.missing[:10]))
    if len(data.missing) > 10:
        sentences += (f"{len(data.missing) - 10} more could not be drawn.",)
    # Matplotlib escapes the texts of its SVG.
    return _Block(
        svg=Markup(themed(svg(roofline(data)))), alt=visible(data.title), caption=" ".join(sentences)
    )


def _explanation(item: Explanation) -> _Block:
    return _Block(
        title=shorten(visible(item.title), _TITLE_LIMIT),
        verdict=visible(item.verdict),
        sentences=tuple(visible(line) for line in item.sentences),
        chart=None if item.waterfall is None else _waterfall(item.waterfall),
        card=True,
    )


def _waterfall(data: Waterfall) -> _Chart:
    ends = [0.0, data.start, data.end]
    at = data.start
    for step in data.steps:
        at += step.value
        ends.append(at)
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0

    def bar(kind: str, start: float, end: float) -> _Bar:
        left = 100 * (min(start, end) - low) / span
        return _Bar(f"bar {kind}".rstrip(), f"left:{left:.2f}%;width:{100 * abs(end - start) / span:.2f}%")

    rows = []
    at = data.start
    for step in data.steps:
        kind = "second" if step.value > 0 else ""
        rows.append(_row(step.label, bar(kind, at, at + step.value), step.text or f"{step.value:+.3f}"))
        at += step.value
    total = f"x{math.exp(data.end - data.start):.2f}" if data.unit.startswith("ln") else f"{data.end:.3f}"
    rows.append(_row(data.end_label, bar("total", data.start, data.end), total))
    alt = ", ".join(f"{row.name} {row.value}" for row in rows)
    return _Chart(tuple(rows), f"{visible(data.title)}: {alt}", f"{100 * (data.start - low) / span:.2f}")


def _row(label: str, bar: _Bar, value: str) -> _Row:
    return _Row(shorten(visible(label), 40), shorten(visible(label), _TITLE_LIMIT), (bar,), visible(value))
