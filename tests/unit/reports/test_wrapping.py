"""Texts on several lines and the widths of columns: nothing is lost, everything fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.model import Cell, Column, Table
from perfkit.reports import render
from perfkit.reports.wrapping import GAP, Width, blocks, cells, fit, wrap

TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Mn", "Me")), max_size=200)
WIDTHS = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 60)).map(lambda two: Width(max(two), min(two))),
    min_size=1,
    max_size=12,
)


@given(TEXTS, st.integers(2, 40))
def test_wrapping_loses_nothing_but_blanks_and_fits(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cells(line) <= width for line in lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one output a thread", ["one output a", "thread"]),
        ("smsp__inst_executed", ["smsp__inst_", "executed"]),
        ("abcdefghijklmnop", ["abcdefghijkl", "mnop"]),
        ("nodeCalculationsKernel", ["node", "Calculations", "Kernel"]),
        ("· · one two three", ["· · one two", "    three"]),
        ("fits", ["fits"]),
    ],
)
def test_lines_break_at_blanks_then_behind_punctuation(text: str, lines: list[str]) -> None:
    assert wrap(text, 12) == lines


@given(WIDTHS, st.integers(1, 200))
def test_what_fits_is_as_wide_as_there_is_room(widths: list[Width], room: int) -> None:
    found = fit(widths, room)
    gaps = GAP * (len(widths) - 1)
    if found is None:
        assert sum(one.least for one in widths) + gaps > room
        return
    assert sum(found) + gaps <= room
    assert all(one.least <= chosen <= one.natural for one, chosen in zip(widths, found, strict=True))
    if sum(one.natural for one in widths) + gaps <= room:
        assert found == [one.natural for one in widths]


@given(WIDTHS, st.integers(1, 3), st.integers(1, 200))
def test_every_column_is_in_a_block_and_each_block_begins_with_the_keys(
    widths: list[Width], sticky: int, room: int
) -> None:
    found = blocks(widths, sticky, room)
    heads = list(range(min(sticky, len(widths))))
    assert all(block[: len(heads)] == heads for block in found)
    rest = [index for block in found for index in block[len(heads) :]]
    assert heads + rest == list(range(len(widths)))


def test_a_long_sentence_goes_on_in_further_lines_beside_the_other_columns() -> None:
    table = Table(
        "t",
        "",
        (Column("kernel", "kernel"), Column("change", "what changed"), Column("time", "time", "s")),
        (
            (Cell("k1"), Cell("consecutive threads take consecutive rows"), Cell(0.002)),
            (Cell("k2"), Cell("nothing"), Cell(0.001)),
        ),
    )
    assert render([table], "terminal", width=40, color=False).splitlines() == [
        "kernel  what changed           time (ms)",
        "────────────────────────────────────────",
        "k1      consecutive threads            2",
        "        take consecutive rows",
        "k2      nothing                        1",
    ]


def test_blocks_repeat_what_tells_the_rows_apart() -> None:
    columns = (
        Column("kernel", "kernel"),
        Column("problem", "problem"),
        *(Column(f"c{index}", f"c{index}") for index in range(9)),
    )
    rows = tuple(
        (Cell(kernel), Cell(problem), *(Cell(1_000_000 + index) for index in range(9)))
        for kernel in ("k1", "k2")
        for problem in ("n=1024", "n=2048")
    )
    lines = render([Table("t", "", columns, rows)], "terminal", width=60, color=False).splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("k2")] == [
        ["k2", "n=1024"],
        ["k2", "n=2048"],
    ] * 3


def test_only_names_of_hundreds_of_characters_are_shortened() -> None:
    columns = (Column("kernel", "kernel"), Column("evidence", "evidence"))
    name, sentence = "void kernel<" + "int, " * 60 + ">", "word " * 60
    text = render(
        [Table("t", "", columns, ((Cell(name), Cell(sentence)),))], "terminal", width=80, color=False
    )
    assert text.count("word") == 60
    assert text.count("int,") < 30
    assert text.count("…") == 1


def test_a_word_that_can_be_copied_is_not_broken() -> None:
    columns = (Column("run", "run"), Column("kernels", "kernels"))
    run, kernels = "20261130T023136.622Z_profile", "k1 k2 k3 k4 k5 k6 k6b k7 k8 cublas"
    table = Table("t", "", columns, ((Cell(run), Cell(kernels)),))
    lines = render([table], "terminal", width=50, color=False).splitlines()
    assert lines[2:] == [f"{run}  k1 k2 k3 k4 k5 k6", " " * 30 + "k6b k7 k8 cublas"]
