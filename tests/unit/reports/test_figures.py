"""Figures by their data: ceilings, points, bars and labels; and the SVG as XML."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from perfkit.analysis.measurements import gather
from perfkit.analysis.roofline import Options, roofline
from perfkit.commands._report_page import _bars
from perfkit.errors import ConfigError, UsageError
from perfkit.model import Counter, Status
from perfkit.model.explain import Waterfall, WaterfallStep
from perfkit.model.traced import Ceiling, Roofline, RooflinePoint
from perfkit.reports import style
from perfkit.reports.article import trace
from perfkit.reports.ceilings import read_ceilings, write_ceilings
from perfkit.reports.figures import climb_bars, climb_figure, roofline_table, traced_roofline
from perfkit.reports.labels import Box, place
from perfkit.reports.plots import Bar, bars, png, svg, themed, waterfall
from perfkit.reports.roofline_plot import roofline as draw

AT = "n=1000"
SVG = "{http://www.w3.org/2000/svg}"


def _texts(figure_svg: str) -> list[str]:
    root = ElementTree.fromstring(figure_svg)
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


# Data of the roofline


def test_ceilings_come_from_what_ran_and_say_so(measurements: Any) -> None:
    data = roofline(measurements, AT, Options(levels=("dram", "l1")))
    ceilings = {ceiling.name: ceiling for ceiling in data.ceilings}
    assert ceilings["FP32"].value == 2 * 1000 * 2e9
    assert ceilings["FP32"].origin.startswith("counters: 1000 FMA/cycle")
    assert (
        ceilings["DRAM"].value == 2 * 1e9 * 800 / 8
    )  # 1 GHz attribute in kHz, 800 bit, two transfers a clock
    assert ceilings["DRAM"].origin.startswith("device attributes")
    assert ceilings["L1/shared"].value == 10 * 128 * 2e9
    assert ceilings["L1/shared"].origin.startswith("architecture")


def test_points_are_counted_flops_over_bytes_and_duration(measurements: Any) -> None:
    data = roofline(measurements, AT, Options(levels=("dram", "l2", "l1")))
    points = {(point.label, point.level): point for point in data.points}
    assert len(points) == 9
    assert points["k1", "dram"].intensity == 2e9 / 8e6
    assert points["k1", "l2"].intensity == 2e9 / 4e7
    assert points["k1", "l1"].intensity == 2e9 / (128 * 1e6)
    assert points["k2", "dram"].rate == 2e9 / 1e-3
    assert data.missing == ("L2 bandwidth: the report does not hold what it is computed from",)


def test_the_instruction_roofline_counts_warp_instructions_per_transaction(measurements: Any) -> None:
    data = roofline(measurements, AT, Options(instructions=True))
    assert (data.intensity_unit, data.rate_unit) == ("inst/transaction", "inst/s")
    assert data.points[0].intensity == 1e8 / (8e6 / 32)
    assert data.points[0].rate == 1e8 / 2e-3
    assert {ceiling.name: ceiling.value for ceiling in data.ceilings} == {
        "Issue": 10 * 4 * 2e9,
        "DRAM": 2e11 / 32,
    }


def test_measured_ceilings_win(measurements: Any) -> None:
    measured = (Ceiling("DRAM", "memory", 1.5e11, "byte/s", "measured: copy"),)
    data = roofline(measurements, AT, Options(measured=measured))
    assert [ceiling.value for ceiling in data.ceilings] == [4e12, 1.5e11]
    assert "DRAM: measured: copy." in data.notes


def test_a_kernel_without_fp32_work_is_named_and_left_out(made: Any) -> None:
    tensor = made.evaluated(
        made.launch(
            5,
            "mma",
            counters={
                made.FFMA: 0.0,
                made.FFMA.replace("ffma", "fadd"): 0.0,
                made.FFMA.replace("ffma", "fmul"): 0.0,
            },
        ),
        duration=1e-3,
        dram_read_bytes=1e6,
        dram_write_bytes=0.0,
    )
    data = roofline(gather([*made.ladder(), tensor]), AT)
    assert [point.label for point in data.points] == ["k1", "k2", "cublas"]
    assert data.missing[0].startswith("mma: no FP32 FMA, add or multiply was executed")
    with pytest.raises(UsageError, match="nothing to draw: mma: no FP32"):
        roofline(gather([tensor]), AT)


def test_tensor_core_work_is_named_and_left_out(made: Any) -> None:
    items = made.ladder()
    items[1].launch.counters["sm__inst_executed_pipe_tensor.sum"] = Counter("t", 5e6, "inst")
    data = roofline(gather(items), AT)
    assert [point.label for point in data.points] == ["k1", "cublas"]
    assert data.missing[0] == "k2: tensor-core work (5,000,000 warp instructions) has no place here"


def test_without_counters_of_the_peak_the_architecture_answers(made: Any) -> None:
    items = made.ladder()
    for item in items:
        del item.launch.counters["sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"]
    ceiling = roofline(gather(items), AT).ceilings[0]
    assert ceiling.value == 2 * 10 * 128 * 2e9  # 128 FP32 lanes per SM on compute capability 9.0
    assert ceiling.origin.startswith("architecture: 10 SMs x 128 lanes")


def test_the_table_of_the_roofline_holds_points_and_ceilings(measurements: Any) -> None:
    table = roofline_table(roofline(measurements, AT))
    assert [cells[0].value for cells in table.rows] == ["k1", "k2", "cublas", "FP32", "DRAM"]
    assert table.rows[0][2].value == 250.0
    assert table.rows[3][3].unit == "FLOP/s"
    assert table.rows[4][3].unit == "byte/s"


def test_every_number_of_the_rooflines_table_can_be_traced(measurements: Any) -> None:
    found = traced_roofline(measurements, roofline(measurements, AT))
    numbers = {
        (cells[0].value, column.name)
        for cells in found.table.rows
        for cell, column in zip(cells, found.table.columns, strict=True)
        if cell.is_number
    }
    assert set(found.sources) == numbers
    for kernel in ("k1", "k2", "cublas"):
        steps = trace(measurements, [found], "roofline", kernel, "intensity")
        assert [name for name, _ in steps[1:]] == [
            f"{name}({kernel}, {AT})" for name in ("counted_flops", "dram_read_bytes", "dram_write_bytes")
        ]
        flops, read, written = (item.number for _, item in steps[1:])
        assert steps[0][1].number == flops / (read + written)
    peak = found.sources["FP32", "rate"].source
    assert peak.file == "run/p.ncu-rep"
    assert [name for name, _, _ in peak.counters] == [
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
        "sm__cycles_elapsed.avg.per_second",
    ]


def test_measured_ceilings_survive_their_file(tmp_path: Path) -> None:
    ceilings = (Ceiling("FP32", "compute", 6e13, "FLOP/s", "measured: x"),)
    path = tmp_path / "c.json"
    path.write_text(write_ceilings(ceilings))
    assert read_ceilings(path) == ceilings
    for wrong in ("{}", "[]", "no json", '{"ceilings": [{"name": "x"}]}'):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match=r"c\.json"):
            read_ceilings(path)


# The drawn roofline


def test_the_figure_draws_every_point_and_labels_it(measurements: Any) -> None:
    data = roofline(measurements, AT)
    figure = draw(data)
    axes = figure.axes[0]
    lines: list[Any] = list(axes.lines)
    markers = [line for line in lines if line.get_marker() == "o"]
    drawn = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in markers}
    assert drawn == {(point.intensity, point.rate) for point in data.points}
    assert {"k1", "k2", "cublas"} <= {text.get_text() for text in axes.texts}
    assert any("(device attributes)" in text.get_text() for text in axes.texts)
    slopes = [line for line in lines if len(line.get_xdata()) == 2]
    ridge = max(float(line.get_xdata()[1]) for line in slopes if line.get_ydata()[0] != line.get_ydata()[1])
    assert ridge == pytest.approx(4e12 / 2e11)


def test_labels_in_the_figure_do_not_overlap() -> None:
    points = tuple(
        RooflinePoint(f"kernel {n}", "", "dram", 100.0 + n, 1e12 * (1 + 0.03 * n)) for n in range(12)
    )
    ceilings = (
        Ceiling("FP32", "compute", 2e12, "FLOP/s", "x"),
        Ceiling("DRAM", "memory", 1e11, "byte/s", "x"),
    )
    figure = draw(Roofline("t", ceilings, points, "FLOP/byte", "FLOP/s"))
    figure.canvas.draw()
    renderer = style.renderer(figure)
    extents = [
        # The extent of the words: an annotation's own extent holds its line as well.
        Text.get_window_extent(text, renderer)
        for text in figure.axes[0].texts
        if "kernel" in text.get_text()
    ]
    boxes = [Box(extent.x0, extent.y0, extent.x1, extent.y1) for extent in extents]
    assert len(boxes) == 12
    for index, box in enumerate(boxes):
        assert all(box.overlap(other) == 0 for other in boxes[index + 1 :])


def test_of_hundreds_of_points_only_the_extremes_are_named() -> None:
    points = tuple(RooflinePoint(f"kernel {n}", "", "dram", 1.0 + n, 1e9 * (1 + n)) for n in range(500))
    figure = draw(
        Roofline("t", (Ceiling("FP32", "compute", 1e12, "FLOP/s", "x"),), points, "FLOP/byte", "FLOP/s")
    )
    named = [text.get_text() for text in figure.axes[0].texts if "kernel" in text.get_text()]
    assert len(named) == 10
    assert "kernel 499" in named
    assert "kernel 0" in named


@given(
    st.lists(st.tuples(st.floats(50, 450), st.floats(50, 350)), min_size=1, max_size=10, unique=True),
)
def test_placed_labels_stay_in_the_area(anchors: list[tuple[float, float]]) -> None:
    area = Box(0, 0, 500, 400)
    boxes = place(anchors, [(30.0, 10.0)] * len(anchors), [], [], area)
    for box in boxes:
        assert box.overlap(area) == pytest.approx(300.0)
    assert sum(a.overlap(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :]) == 0


def test_boxes_and_segments() -> None:
    box = Box(0, 0, 10, 10)
    assert box.crossed_by((-5, 5), (15, 5))
    assert box.crossed_by((5, 5), (6, 6))
    assert not box.crossed_by((-5, 11), (15, 11))
    assert not box.crossed_by((-5, 0), (5, -8))
    assert box.overlap(Box(5, 5, 20, 20)) == 25
    assert box.distance((13, 14)) == 5
    assert box.distance((3, 3)) == 0


# Bars and waterfalls


def test_the_climb_shows_timed_speeds_and_marks_the_reference(measurements: Any, made: Any) -> None:
    values, how = climb_bars(measurements, AT)
    assert [(bar.label, bar.value, bar.emphasis) for bar in values] == [
        ("k1", 8e11, False),
        ("k2", 1.6e12, False),
        ("cublas", 2e12, True),
    ]
    assert how == "timed"
    assert climb_bars(gather(made.ladder()), AT)[1] == "under ncu"
    nothing, why = climb_figure(gather([made.evaluated(made.launch(0, "k"), duration=None)]), AT)
    assert nothing is None
    assert "neither a timing" in why


def test_an_invalid_speed_is_named_and_not_drawn(measurements: Any) -> None:
    values, how = climb_bars(measurements, AT)
    name = "flop_rate" if how == "timed" else "ncu_flop_rate"
    wrong = values[0].label
    held = measurements.values[name, wrong, AT]
    flagged = replace(held, status=Status.INVALID, reason="duration is invalid")
    doubted = replace(measurements, values={**measurements.values, (name, wrong, AT): flagged})
    drawn, how = climb_bars(doubted, AT)
    assert [bar.label for bar in drawn] == [bar.label for bar in values[1:]]
    assert how.endswith("; 1 invalid, not drawn")
    charts = [chart for chart in _bars(doubted) if chart.title == AT]
    assert all(row.name != wrong for chart in charts for row in chart.rows)
    assert f"{wrong} (duration is invalid)" in charts[0].how


def test_bars_have_the_lengths_of_their_values() -> None:
    figure = bars("Speed", [Bar("a", 1e12), Bar("b", 2.5e12, emphasis=True)], "FLOP/s", "Speed")
    axes = figure.axes[0]
    patches: list[Any] = list(axes.patches)
    assert [patch.get_width() for patch in patches] == [1.0, 2.5]
    assert axes.get_xlabel() == "Speed (TFLOP/s)"
    assert axes.get_xlim()[0] == 0
    assert [text.get_text() for text in axes.texts] == ["1.00", "2.50"]


def test_a_waterfall_ends_where_its_steps_lead() -> None:
    steps = (WaterfallStep("warps", 0.5, "x1.65"), WaterfallStep("clock", -0.2, "x0.82"))
    figure = waterfall(Waterfall("a to b", "a", 0.0, steps, "b", 0.3, "ln of the time ratio"))
    patches: list[Any] = list(figure.axes[0].patches)
    assert [(patch.get_x(), patch.get_width()) for patch in patches] == [
        (0, 0),
        (0, 0.5),
        (0.5, -0.2),
        (0, 0.3),
    ]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "warps", "clock", "b"]


HOSTILE = "<script>alert(1)</script> $x^2$ & \\alpha \x1b[31m " + "q" * 200


def test_hostile_names_are_text_in_every_figure() -> None:
    figure = bars(HOSTILE, [Bar(HOSTILE, 1.0)], "s", HOSTILE)
    text = svg(figure)
    assert "<script" not in text
    assert "\x1b" not in text
    shown = [name for name in _texts(text) if name.startswith("<script>")]
    assert shown
    assert any("…" in name for name in shown)
    data = Roofline(
        HOSTILE,
        (Ceiling("FP32", "compute", 1e12, "FLOP/s", HOSTILE),),
        (RooflinePoint(HOSTILE, "", "dram", 10.0, 1e11),),
        "FLOP/byte",
        "FLOP/s",
    )
    assert "<script" not in svg(draw(data))


def test_the_same_figure_gives_the_same_bytes(measurements: Any) -> None:
    data = roofline(measurements, AT)
    assert svg(draw(data)) == svg(draw(data))
    content = png(draw(data))
    assert content.startswith(b"\x89PNG")


def test_a_themed_figure_has_no_fixed_ink(measurements: Any) -> None:
    text = themed(svg(draw(roofline(measurements, AT))))
    assert text.startswith("<svg")
    assert "#1c2126" not in text.lower()
    assert "var(--ink)" in text
    ElementTree.fromstring(text)
