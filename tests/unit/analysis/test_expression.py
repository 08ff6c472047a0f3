"""Formulas: what parses, what is refused, and what each outcome is."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.expression import FormulaError, Missing, Undefined, parse
from perfkit.model import Counter, Status


class Fixed:
    """A scope of fixed values."""

    def __init__(self, *counters: Counter, **metrics: float) -> None:
        self.counters = {one.name: one for one in counters}
        self.metrics = metrics

    def counter(self, name: str) -> Counter:
        if name not in self.counters:
            raise Missing(name)
        return self.counters[name]

    def metric(self, name: str) -> float:
        return self.metrics[name]

    def device(self, name: str) -> float:
        return {"fp32_lanes_per_sm": 128.0}[name]


OPCODES = Counter(
    "sass__op", 20.0, "", instances=(("FFMA", 12.0), ("FFMA2", 3.0), ("LDS.128", 4.0), ("BAR", 1.0))
)


def test_counters_dots_and_all() -> None:
    formula = parse("{a__b.sum.per_second} / {l1tex:c__d.avg} * 2")
    assert formula.counters == ("a__b.sum.per_second", "l1tex:c__d.avg")
    scope = Fixed(Counter("a__b.sum.per_second", 6, ""), Counter("l1tex:c__d.avg", 4.0, ""))
    assert formula.compute(scope) == 3.0


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("%", 50.0, 0.5),
        ("ns", 61312.0, 61312.0 / 1e9),
        ("nsecond", 1.0, 1e-9),
        ("usecond", 250.0, 250.0 / 1e6),
        ("msecond", 2.0, 0.002),
        ("hz", 1.98e9, 1.98e9),
        ("cycle/nsecond", 1.5, 1.5e9),
        ("Mbyte", 3.0, 3e6),
        ("inst", 7.0, 7.0),
        ("", 7.0, 7.0),
    ],
)
def test_counters_come_in_si_units(unit: str, value: float, expected: float) -> None:
    assert parse("{a}").compute(Fixed(Counter("a", value, unit))) == expected


def test_instances_by_name() -> None:
    scope = Fixed(OPCODES)
    assert parse("{sass__op}[FFMA]").compute(scope) == 12
    assert parse("{sass__op}[FFMA | FFMA2]").compute(scope) == 15
    assert parse("{sass__op}[FFMA*]").compute(scope) == 15
    assert parse("{sass__op}[LDS*.128]").compute(scope) == 4
    assert parse("{sass__op}[HMMA]").compute(scope) == 0
    assert parse("{sass__op}").compute(scope) == 20


def test_instances_that_are_not_there() -> None:
    with pytest.raises(Missing, match="sass__op"):
        parse("{sass__op}[FFMA]").compute(Fixed(Counter("sass__op", 20.0, "")))
    assert parse("{sass__op}[FFMA]").compute(Fixed(Counter("sass__op", 0.0, ""))) == 0


def test_metrics_and_chip_figures() -> None:
    formula = parse("issue_rate * fma_share * device.fp32_lanes_per_sm")
    assert (formula.metrics, formula.device) == (("issue_rate", "fma_share"), ("fp32_lanes_per_sm",))
    assert formula.compute(Fixed(issue_rate=0.5, fma_share=0.25)) == 16.0


def test_functions() -> None:
    scope = Fixed(Counter("a", 5.0, ""), Counter("b", 2.0, ""))
    assert parse("min({a}, {b}, 9)").compute(scope) == 2
    assert parse("max({a}, {b})").compute(scope) == 5
    assert parse("ceil({a} / {b})").compute(scope) == 3
    assert parse("-{a} + 1").compute(scope) == -4


def test_missing_and_uncollected_counters() -> None:
    nothing = Counter("a", None, "", Status.NOT_COLLECTED)
    text = Counter("t", "PolicySpread", "")
    for name in ("a", "t", "gone"):
        with pytest.raises(Missing, match=name):
            parse(f"{{{name}}}").compute(Fixed(nothing, text))


def test_division_by_zero_is_undefined_and_says_what_is_zero() -> None:
    scope = Fixed(Counter("hits", 0.0, ""), Counter("requests.sum", 0, ""), OPCODES)
    with pytest.raises(Undefined, match=r"^requests\.sum is 0$"):
        parse("{hits} / {requests.sum}").compute(scope)
    with pytest.raises(Undefined, match=r"^sass__op\[LDS\] is 0$"):
        parse("{hits} / {sass__op}[LDS]").compute(scope)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__",
        "[1 for x in y]",
        "lambda: 1",
        "{a} if {b} else 1",
        "{a} ** {b}",
        "{a} // 2",
        "{a} == 1",
        "'text'",
        "True",
        "open({a})",
        "min()",
        "min(*x)",
        "max(a, key=b)",
        "device",
        "other.figure",
        "device.a.b",
        "{a} / ",
        "{a",
        "a}",
        "{a}[FFMA",
        "[FFMA]",
        "{not a counter}",
        "{}",
        "",
        "a; b",
        "a := 1",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    if text == "device":  # a bare name is a metric; whether it exists is checked where the metrics are known
        assert parse(text).metrics == ("device",)
        return
    with pytest.raises(FormulaError):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with suppress(FormulaError):  # whatever else it raises fails the test
        parse(text)


numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@given(
    st.recursive(
        numbers.map(lambda x: f"({x!r})"),
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        max_leaves=12,
    )
)
def test_arithmetic_is_that_of_python(text: str) -> None:
    expected = float(eval(text))  # the text is made here, of numbers and operators
    found = parse(text).compute(Fixed())
    assert found == expected or (math.isnan(found) and math.isnan(expected))
