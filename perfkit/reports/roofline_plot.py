"""The roofline figure: log-log, ceilings with their origin, kernels labelled without overlaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfkit.model.traced import LEVEL_NAMES, Ceiling, Roofline, RooflinePoint
from perfkit.reports import style
from perfkit.reports.labels import LEADER, Box, place
from perfkit.reports.plots import caption, label
from perfkit.units import common_scale, format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVEL_COLORS = {"dram": style.BLUE, "l2": style.GREEN, "l1": style.ORANGE}
_MARKERS = {"dram": "o", "l2": "s", "l1": "^"}
MAX_LABELS = 40
_SLOPE_IN_VIEW = 60.0  # at least so far below the ridge a slope begins


def roofline(data: Roofline) -> Figure:
    """Log-log; ceilings say where they come from, kernels are labelled without overlaps."""
    with style.house_style():
        figure = style.new_figure(4.1)
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        bounds = _bounds(data)
        axes.set_xlim(bounds[0], bounds[1])
        axes.set_ylim(bounds[2], bounds[3])
        lines = _draw_ceilings(axes, data, bounds)
        named = _join_levels(axes, data)
        for point in data.points:
            axes.plot(
                point.intensity,
                point.rate,
                _MARKERS.get(point.level, "o"),
                color=_LEVEL_COLORS.get(point.level, style.PINK),
                markersize=5.5,
                markeredgecolor=style.PAPER,
                markeredgewidth=0.6,
                zorder=4,
            )
        axes.grid(visible=True, which="major")
        axes.set_xlabel(_intensity_label(data))
        _rate_axis(axes, data)
        axes.set_title(caption(data.title))
        _legend(axes, data)
        figure.canvas.draw()
        figure.set_layout_engine("none")
        covered = _slope_texts(axes, data, bounds)
        _label_points(axes, data.points, named, lines, covered)
    return figure


def _join_levels(axes: Axes, data: Roofline) -> list[RooflinePoint]:
    """A faint line through the points of each kernel; returns the point of each that carries its name."""
    by_kernel: dict[tuple[str, str], list[RooflinePoint]] = {}
    for point in data.points:
        by_kernel.setdefault((point.label, point.problem), []).append(point)
    for points in by_kernel.values():
        if len(points) > 1:
            xs = sorted(point.intensity for point in points)
            axes.plot(xs, [points[0].rate] * len(xs), color=style.FAINT, linewidth=0.9, zorder=2.5)
    return [max(points, key=lambda point: point.intensity) for points in by_kernel.values()]


def _bounds(data: Roofline) -> tuple[float, float, float, float]:
    peaks = [ceiling.value for ceiling in data.ceilings if ceiling.kind == "compute"]
    slopes = [ceiling.value for ceiling in data.ceilings if ceiling.kind == "memory"]
    xs = [point.intensity for point in data.points]
    ys = [point.rate for point in data.points]
    # The ridges stay in view, with enough of the slopes below them for their names.
    xs += [max(peaks) / slope / share for slope in slopes if peaks for share in (1, _SLOPE_IN_VIEW)]
    top = max([*ys, *peaks], default=1.0)
    x_low = 10 ** math.floor(math.log10(min(xs, default=1.0)))
    # To the right of the last point there is room for its name.
    x_high = max(xs, default=100.0)
    x_high *= max(2.0, (x_high / x_low) ** 0.2)
    y_low = 10 ** math.floor(math.log10(min([*ys, top / _SLOPE_IN_VIEW]) / 1.5))
    return x_low, x_high, y_low, top * 2.5


def _draw_ceilings(
    axes: Axes, data: Roofline, bounds: tuple[float, float, float, float]
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    x_low, x_high, y_low, _ = bounds
    peaks = sorted((c for c in data.ceilings if c.kind == "compute"), key=lambda c: -c.value)
    memories = sorted((c for c in data.ceilings if c.kind == "memory"), key=lambda c: -c.value)
    top = peaks[0].value if peaks else bounds[3]
    segments = []
    for ceiling in peaks:
        start = ceiling.value / max((m.value for m in memories), default=ceiling.value / x_low)
        segments.append(((max(start, x_low), ceiling.value), (x_high, ceiling.value)))
        axes.text(
            x_high * 0.94,
            ceiling.value * 1.07,
            _ceiling_text(ceiling),
            ha="right",
            va="bottom",
            fontsize=7,
        )
    for ceiling in memories:
        x_start = max(x_low, y_low / ceiling.value)
        segments.append(((x_start, x_start * ceiling.value), (top / ceiling.value, top)))
    for number, ((x0, y0), (x1, y1)) in enumerate(segments):
        flat = number < len(peaks)
        color = style.INK if flat else _memory_color(memories[number - len(peaks)])
        axes.plot([x0, x1], [y0, y1], color=color, linewidth=1.2, zorder=3)
    return segments


def _slope_texts(axes: Axes, data: Roofline, bounds: tuple[float, float, float, float]) -> list[Box]:
    """Names above the slopes, turned to them, near their lower ends where no kernel is; what they cover."""
    x_low, _, y_low, _ = bounds
    top = max((c.value for c in data.ceilings if c.kind == "compute"), default=bounds[3])
    covered: list[Box] = []
    for ceiling in data.ceilings:
        if ceiling.kind != "memory":
            continue
        x0, x1 = max(x_low, y_low / ceiling.value), top / ceiling.value
        a, b = (axes.transData.transform((x, x * ceiling.value)) for x in (x0, x1))
        length = math.hypot(b[0] - a[0], b[1] - a[1]) or 1.0
        along = ((b[0] - a[0]) / length, (b[1] - a[1]) / length)
        dpi = axes.figure.dpi
        gap, ahead = 2 * dpi / 72, 14 * dpi / 72
        start = (a[0] + ahead * along[0] - gap * along[1], a[1] + ahead * along[1] + gap * along[0])
        text = axes.annotate(
            _ceiling_text(ceiling),
            tuple(axes.transData.inverted().transform(start)),
            rotation=math.degrees(math.atan2(along[1], along[0])),
            rotation_mode="anchor",
            ha="left",
            va="bottom",
            fontsize=7,
        )
        extent = text.get_window_extent(style.renderer(axes.figure))
        reach = math.hypot(extent.width, extent.height)
        # A turned text is covered by squares along it: its bounding box would forbid half the figure.
        size = 5 * dpi / 72
        for step in range(int(reach / size) + 1):
            x, y = start[0] + step * size * along[0], start[1] + step * size * along[1]
            covered.append(Box(x - size, y - size, x + size, y + 2 * size))
    return covered


def _memory_color(ceiling: Ceiling) -> str:
    name = ceiling.name.casefold()
    level = next((level for level in ("dram", "l2", "l1") if name.startswith(level)), "")
    return _LEVEL_COLORS.get(level, style.INK)


def _ceiling_text(ceiling: Ceiling) -> str:
    origin = ceiling.origin.split(":")[0]
    return label(f"{ceiling.name} {format_value(ceiling.value, ceiling.unit)} ({origin})", 60)


def _intensity_label(data: Roofline) -> str:
    levels = list(dict.fromkeys(point.level for point in data.points))
    level = f"{LEVEL_NAMES.get(levels[0], levels[0])} " if len(levels) == 1 else ""
    if data.intensity_unit == "inst/transaction":
        return f"Warp instructions per {level}transaction of 32 bytes"
    return f"FLOP per {level}byte"


def _rate_axis(axes: Axes, data: Roofline) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    peaks = [ceiling.value for ceiling in data.ceilings if ceiling.kind == "compute"]
    largest = max(peaks or [point.rate for point in data.points], default=1.0)
    divisor, written = common_scale([largest], data.rate_unit)

    def scaled(value: float, _position: int | None = None) -> str:
        return f"{value / divisor:g}"

    axes.yaxis.set_major_formatter(FuncFormatter(scaled))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    what = "Warp instructions" if data.rate_unit == "inst/s" else "Speed"
    axes.set_ylabel(f"{what} ({written})")


def _legend(axes: Axes, data: Roofline) -> None:
    levels = list(dict.fromkeys(point.level for point in data.points))
    if len(levels) < 2:
        return
    for level in levels:
        axes.plot(
            [],
            [],
            _MARKERS.get(level, "o"),
            color=_LEVEL_COLORS.get(level, style.PINK),
            label=f"against {LEVEL_NAMES.get(level, level)} bytes",
        )
    axes.legend(loc="lower right", fontsize=7, frameon=False)


def _label_points(
    axes: Axes,
    points: Sequence[RooflinePoint],
    named: Sequence[RooflinePoint],
    segments: Sequence[tuple[tuple[float, float], tuple[float, float]]],
    covered: Sequence[Box],
) -> None:
    """Labels where they cover neither each other, a point, nor a ceiling; a line leads to a far one."""
    shown = named if len(named) <= MAX_LABELS else _extremes(named)
    if not shown:
        return
    renderer = style.renderer(axes.figure)
    dpi = axes.figure.dpi
    anchors = [axes.transData.transform((point.intensity, point.rate)) for point in points]
    obstacles = [*covered, *(Box(x - 4, y - 4, x + 4, y + 4) for x, y in anchors)]
    for text in axes.texts:
        extent = text.get_window_extent(renderer)
        if text.get_rotation() == 0:
            obstacles.append(Box(extent.x0, extent.y0, extent.x1, extent.y1))
    legend = axes.get_legend()
    if legend is not None:
        extent = legend.get_window_extent(renderer)
        obstacles.append(Box(extent.x0, extent.y0, extent.x1, extent.y1))
    lines = [(tuple(axes.transData.transform(a)), tuple(axes.transData.transform(b))) for a, b in segments]
    area = axes.get_window_extent(renderer)
    probes = []
    for point in shown:
        probe = axes.text(0, 0, label(point.label), fontsize=8)
        extent = probe.get_window_extent(renderer)
        probes.append((extent.width, extent.height))
        probe.remove()
    places = place(
        [tuple(axes.transData.transform((point.intensity, point.rate))) for point in shown],
        probes,
        obstacles,
        lines,
        Box(area.x0, area.y0, area.x1, area.y1),
    )
    for point, box in zip(shown, places, strict=True):
        x, y = axes.transData.transform((point.intensity, point.rate))
        middle = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
        far = box.distance((x, y)) > LEADER
        axes.annotate(
            label(point.label),
            (point.intensity, point.rate),
            ((middle[0] - x) * 72 / dpi, (middle[1] - y) * 72 / dpi),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8,
            zorder=5,
            bbox=style.BACKED,
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": style.GREY, "shrinkA": 0, "shrinkB": 3}
            if far
            else None,
        )


def _extremes(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """Of hundreds of launches the fastest and the slowest are named: the table names the others."""
    ordered = sorted(points, key=lambda point: point.rate)
    return [*ordered[:5], *ordered[-5:]]
