"""The figures made of bars: the climb, and the waterfall of an explanation; and any figure as SVG or PNG."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfkit.model.explain import Waterfall
from perfkit.reports import style
from perfkit.reports.text import shorten, visible
from perfkit.units import common_scale, decimals, format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL_LIMIT = 28
TITLE_LIMIT = 60
FACTOR_LIMIT = 40
_VARIABLES = (
    (style.INK, "--ink"),
    (style.PAPER, "--paper"),
    (style.FAINT, "--faint"),
    (style.BLUE, "--accent"),
    (style.ORANGE, "--second"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: `value` in the chart's unit, `text` at its end, `emphasis` for the reference."""

    label: str
    value: float
    text: str = ""
    emphasis: bool = False


def svg(figure: Figure) -> str:
    """The figure as SVG text, the same bytes for the same figure."""
    with style.house_style():
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": "perfkit"})
    return stream.getvalue().decode()


def png(figure: Figure) -> bytes:
    """The figure as PNG at 200 dots an inch."""
    with style.house_style():
        stream = io.BytesIO()
        figure.savefig(stream, format="png", metadata={"Software": "perfkit"})
    return stream.getvalue()


def bars(title: str, values: Sequence[Bar], unit: str, axis: str) -> Figure:
    """Horizontal bars, the first on top, each with its value; the axis starts at 0."""
    with style.house_style():
        figure = style.new_figure(0.75 + 0.26 * max(len(values), 1))
        axes = figure.subplots()
        divisor, written = common_scale([bar.value for bar in values], unit)
        scaled = [bar.value / divisor for bar in values]
        colors = [style.ORANGE if bar.emphasis else style.BLUE for bar in values]
        positions = list(range(len(values)))
        axes.barh(positions, scaled, color=colors, height=0.68)
        largest = max(scaled, default=1.0) or 1.0
        digits = decimals(scaled, 3)
        for position, bar, value in zip(positions, values, scaled, strict=True):
            text = bar.text or format_number(value, digits)
            axes.text(
                value + 0.012 * largest, position, text, va="center", ha="left", fontsize=8, bbox=style.BACKED
            )
        axes.set_yticks(positions, [label(bar.label) for bar in values])
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.set_xlim(0, largest * 1.12)
        axes.grid(visible=True, axis="x")
        axes.set_xlabel(visible(f"{axis} ({written})" if written else axis))
        axes.set_title(caption(title))
    return figure


def waterfall(figure_data: Waterfall) -> Figure:
    """From a start over signed steps to an end; steps that add are orange, steps that take away are blue."""
    rows = [
        (figure_data.start_label, 0.0, figure_data.start, "" if figure_data.start else " "),
        *_steps(figure_data),
        (figure_data.end_label, 0.0, figure_data.end, ""),
    ]
    with style.house_style():
        figure = style.new_figure(
            0.85 + 0.27 * len(rows), style.COLUMN_WIDTH * 1.3
        )  # names of causes are long
        axes = figure.subplots()
        last = len(rows) - 1
        for position, (_, left, length, text) in enumerate(rows):
            total = position in (0, last)
            color = style.GREY if total else (style.ORANGE if length > 0 else style.BLUE)
            axes.barh(position, length, left=left, height=0.66, color=color)
            end = max(left, left + length)
            shown = text or _total(length, figure_data.unit)
            axes.annotate(shown, (end, position), (4, 0), textcoords="offset points", va="center", fontsize=8)
            if position < last:
                at = left + length
                axes.plot([at, at], [position + 0.33, position + 0.67], color=style.GREY, linewidth=0.8)
        axes.set_yticks(list(range(len(rows))), [label(row[0], FACTOR_LIMIT) for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.axvline(0, color=style.INK, linewidth=0.8)
        axes.use_sticky_edges = False
        axes.margins(x=0.16)
        axes.grid(visible=True, axis="x")
        axes.set_xlabel(visible(figure_data.unit))
        axes.set_title(caption(figure_data.title))
    return figure


def _total(value: float, unit: str) -> str:
    """A logarithm as the factor it stands for, anything else as it is."""
    return f"x{math.exp(value):.2f}" if unit.startswith("ln") else format_number(value, 2)


def _steps(figure_data: Waterfall) -> list[tuple[str, float, float, str]]:
    at = figure_data.start
    rows = []
    for step in figure_data.steps:
        rows.append((step.label, at, step.value, step.text))
        at += step.value
    return rows


def label(text: str, limit: int = LABEL_LIMIT) -> str:
    """A kernel's name as figures show it."""
    return shorten(visible(text), limit)


def caption(text: str) -> str:
    """A figure's title as it is drawn: longer ones would leave the figure no room."""
    return shorten(visible(text), TITLE_LIMIT)


def themed(text: str) -> str:
    """An SVG for a page with its own colours: ink, paper and lines become CSS variables, sizes flow."""
    text = text[text.index("<svg") :]
    for color, variable in _VARIABLES:
        text = re.sub(re.escape(color), f"var({variable})", text, flags=re.IGNORECASE)
    # Matplotlib's default black and white are in its patches and paths.
    text = re.sub(r"(fill|stroke): #000000", r"\1: var(--ink)", text)
    return re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
