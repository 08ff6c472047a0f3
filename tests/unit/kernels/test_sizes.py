"""Expressions of the problem size: Python's meaning without Python's power."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.errors import UsageError
from perfkit.kernels.registry import load_registry
from perfkit.kernels.sizes import check_size, evaluate, parse_sizes, problem_label
from perfkit.model import KernelSpec

SIZE = {"n": 4096, "m": 7}


def _expressions() -> st.SearchStrategy[str]:
    leaves = st.one_of(
        st.integers(0, 50).map(str),
        st.floats(0, 50, allow_nan=False).map(lambda x: repr(round(x, 3))),
        st.sampled_from(["n", "m"]),
    )

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(" ".join)
        call = st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        )
        one = st.tuples(st.sampled_from(["abs", "ceil", "floor"]), inner).map(lambda t: f"{t[0]}({t[1]})")
        power = inner.map(lambda text: f"({text}) ** 2")
        return st.one_of(
            binary, call, one, power, inner.map(lambda t: f"({t})"), inner.map(lambda t: f"-{t}")
        )

    return st.recursive(leaves, extend, max_leaves=8)


@given(_expressions())
def test_evaluate_means_what_python_means(text: str) -> None:
    names = {**SIZE, "ceil": math.ceil, "floor": math.floor, "min": min, "max": max, "abs": abs}
    try:
        expected = eval(text, {"__builtins__": {}}, names)  # the oracle; perfkit itself has no eval
    except (ZeroDivisionError, OverflowError):
        with pytest.raises(UsageError):
            evaluate(text, SIZE)
        return
    assert evaluate(text, SIZE) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * n**3", 137438953472),
        ("3 * n**2 * 4", 201326592),
        ("-2 ** 2", -4),
        ("2 ** 3 ** 2", 512),
        ("n / 32", 128),
        ("ceil(n / 1000)", 5),
        ("-7 // 2", -4),
        ("n % m", 1),
        ("max(1, m, 3)", 7),
        (" 42 ", 42),
        ("2 ** -1", 0.5),
    ],
)
def test_evaluate_values(text: str, value: float) -> None:
    assert evaluate(text, SIZE) == value


def test_exact_division_stays_whole_beyond_53_bits() -> None:
    value = evaluate("(2**60 + 2) / 2", {})
    assert value == 2**59 + 1
    assert isinstance(value, int)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__import__('os')", "not allowed"),
        ("n.real", "not allowed"),
        ("(1).__class__", "not allowed"),
        ("[n][0]", "not allowed"),
        ("n if m else 1", "not allowed"),
        ("lambda: 1", "not allowed"),
        ("'text'", "not allowed"),
        ("True", "not allowed"),
        ("n < m", "not allowed"),
        ("max(n, key=m)", "not allowed"),
        ("max(n, *m)", "not allowed"),
        ("n & 1", "not allowed"),
        ("(n := 3)", "not allowed"),
        ("ceil()", "takes 1 values, not 0"),
        ("min(n)", "takes 2 to 8 values, not 1"),
        ("open(n)", "not allowed"),
        ("n +", "not well formed"),
        ("", "not well formed"),
        ("n; m", "not well formed"),
        ("n / (m - 7)", "divides by 0 at n=4096,m=7"),
        ("0 ** -1", "divides by 0"),
        ("9**9**9", "cannot be computed"),
        ("(-8) ** 0.5", "cannot be computed"),
        ("1e308 * 10", "is inf"),
        ("(" * 300 + "n" + ")" * 300, "characters"),
        ("(" * 220 + "n" + ")" * 220, "not well formed"),
        ("nn", "nn is no name of the problem size"),
    ],
)
def test_what_is_not_in_the_language_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(text, SIZE)
    assert words in caught.value.message


def test_depth_does_no_harm() -> None:
    assert evaluate("-" * 60 + "n", SIZE) == 4096
    assert evaluate("1" + "+1" * 240, SIZE) == 241


def test_unknown_name_has_a_near_match() -> None:
    with pytest.raises(UsageError) as caught:
        evaluate("rows * 2", {"row": 1, "k": 2})
    assert caught.value.remedy == "Did you mean row? The size has: row, k."


@pytest.fixture
def k6() -> KernelSpec:
    return load_registry()["k6"]


def test_check_size_fills_in_defaults(k6: KernelSpec) -> None:
    assert check_size(k6, {}) == {"n": 4096}
    assert check_size(k6, {"n": 1024}) == {"n": 1024}


@pytest.mark.parametrize(
    ("size", "message", "remedy"),
    [
        ({"n": 1000}, "kernel k6: n = 1000 is not a multiple of 128", "for example 896 or 1024"),
        ({"n": 100}, "kernel k6: n = 100 is not a multiple of 128", "for example 128."),
        ({"n": 0}, "kernel k6: n = 0", "n must be at least 128"),
        ({"n": -128}, "kernel k6: n = -128", "n must be at least 128"),
        ({"N": 128}, "kernel k6 has no size named N", "n=4096"),
    ],
)
def test_check_size_refuses(k6: KernelSpec, size: dict[str, int], message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_size(k6, size)
    assert caught.value.message == message
    assert remedy in caught.value.remedy


def test_problem_label() -> None:
    assert problem_label({"n": 4096}) == "n=4096"
    assert problem_label({"m": 128, "k": 64}) == "m=128,k=64"


def test_parse_sizes() -> None:
    assert parse_sizes() == [{}]
    assert parse_sizes([1024, 4096, 1024]) == [{"n": 1024}, {"n": 4096}]
    assert parse_sizes([], ["m=128, k=64", "b=2"]) == [{"m": 128, "k": 64, "b": 2}]
    assert parse_sizes([8, 16], ["k=4"]) == [{"n": 8, "k": 4}, {"n": 16, "k": 4}]


@pytest.mark.parametrize("named", [["m"], ["m=x"], ["=3"], ["m=-1"], ["m=1.5"], ["m=1,,k=2"], ["m=1", "m=2"]])
def test_parse_sizes_refuses(named: list[str]) -> None:
    with pytest.raises(UsageError, match="size"):
        parse_sizes([], named)


def test_parse_sizes_refuses_n_twice() -> None:
    with pytest.raises(UsageError, match="size n was given twice"):
        parse_sizes([1024], ["n=2048"])
