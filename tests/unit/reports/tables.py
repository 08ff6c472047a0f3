"""Tables that the tests of every format share: every status, every unit, every hostile text."""

from __future__ import annotations

from perfkit.model import Cell, Column, Status, Table

HOSTILE = (
    "<script>alert(1)</script>",
    "a|b",
    "=cmd()",
    "back\\slash",
    "100 % of $x_1$ & #2 {}",
    "line\nbreak\r\n\ttab",
    "__init__ *bold* `code` [link](http://x.y) ~~no~~",
    "esc\x1b[31mred\x07",
    "right\u202eleft",
    "\"quotes\" and 'apostrophes'",
    "cutlass::Kernel<" + "cutlass::gemm::GemmShape<128, 128, 8>, " * 210 + ">",
)

CLIMB = Table(
    name="climb",
    title="The climb",
    columns=(
        Column("kernel", "Kernel"),
        Column("time", "Time", "s", doc="Median of event timings."),
        Column("speed", "Speed", "FLOP/s"),
        Column("share", "Share of peak", "fraction"),
        Column("sectors", "Sectors per load"),
        Column("conflicts", "Bank conflicts"),
        Column("read", "Read from L2", "byte"),
    ),
    rows=(
        (
            Cell("k1"),
            Cell(0.276),
            Cell(4.98e11),
            Cell(0.00734),
            Cell(16.5),
            Cell(0),
            Cell(None, Status.NOT_ON_CHIP),
        ),
        (
            Cell("k6"),
            Cell(0.00406, note="one round only"),
            Cell(3.385e13),
            Cell(1.0412, Status.INVALID),
            Cell(16.0),
            Cell(268435456),
            Cell(3.87e9),
        ),
        (
            Cell("k9"),
            Cell(None, Status.NOT_COLLECTED, note="one round only"),
            Cell(None),
            Cell(0.694),
            Cell(None, Status.UNDEFINED, note="0 requests"),
            Cell(35233),
            Cell(4.07e9),
        ),
    ),
    notes=("Measured on one GPU.",),
)

SIDE_BY_SIDE = Table(
    name="side",
    title="Side by side",
    columns=(
        Column("metric", "Metric"),
        Column("unit", "Unit"),
        *(Column(f"launch_{number}", f"k{number}") for number in range(1, 9)),
    ),
    rows=(
        (
            Cell("l2_read_bytes", text="L2 read"),
            Cell("byte"),
            *(Cell(1.718e10 / number, unit="byte") for number in range(1, 9)),
        ),
        (Cell("issue_rate"), Cell("fraction"), *(Cell(0.1 * number) for number in range(1, 9))),
        (Cell("top_stall"), Cell(""), *(Cell("lg_throttle") for _ in range(8))),
        (Cell("conflicts"), Cell(""), *(Cell(number * 33_554_432) for number in range(8))),
    ),
)

HOSTILE_TABLE = Table(
    name="hostile",
    title="Names <b>that</b> | bite",
    columns=(Column("kernel", "Kernel | <i>"), Column("time", "Time", "s")),
    rows=tuple((Cell(name), Cell(0.001 * (number + 1))) for number, name in enumerate(HOSTILE)),
    notes=("A note with <script>, | and a\nline break.",),
)
