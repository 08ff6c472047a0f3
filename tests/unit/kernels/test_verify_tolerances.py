"""What a tolerance is relative to, and how infinities, NaN, complex numbers and shapes are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.errors import UsageError
from perfkit.kernels.launching import Workspace
from perfkit.kernels.plan import ArgumentPlan, KernelPlan
from perfkit.kernels.verify import Verifier, compare

NAN, INF = float("nan"), float("inf")


def passes(want: Any, got: Any, rtol: float = 0.0, atol: float = 0.0) -> bool:
    return compare("ref", {"x": np.asarray(want)}, {"x": np.asarray(got)}, rtol, atol).passed


@pytest.mark.parametrize(
    ("want", "got", "passed"),
    [
        # 9.5 % of 100 is 9.5, of 110 it is 10.45: a difference of 10 passes against the larger alone.
        (110.0, 100.0, True),
        (100.0, 110.0, False),
        (-110.0, -100.0, True),
        (-100.0, -110.0, False),
        (110.0, 120.0, True),
        (0.0, 1e-30, False),  # nothing but 0 is within a share of 0
        (1e-30, 0.0, False),
    ],
)
def test_rtol_is_a_share_of_the_reference(want: float, got: float, passed: bool) -> None:
    assert passes([want], [got], rtol=0.095) is passed


@pytest.mark.parametrize(
    ("rtol", "atol", "passed"),
    [
        (0.0, 10.0, True),
        (0.0, 9.9, False),
        (0.1, 0.0, True),
        (0.09, 0.0, False),
        (0.05, 5.0, True),  # the two add up: 5 + 5
        (0.05, 4.9, False),
        (0.049, 5.0, False),
    ],
)
def test_atol_is_absolute_and_the_two_add_up(rtol: float, atol: float, passed: bool) -> None:
    for got in (110.0, 90.0):
        assert passes([100.0], [got], rtol, atol) is passed


def test_atol_does_not_grow_with_the_values() -> None:
    assert passes([1e6], [1e6 + 1], atol=1.0)
    assert not passes([1e6], [1e6 + 2], atol=1.0)
    assert passes([0.0], [1.0], atol=1.0)


@pytest.mark.parametrize(
    ("want", "got", "passed"),
    [
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, INF, True),
        (-INF, -INF, True),
        (INF, -INF, False),
        (INF, 3e38, False),
        (3e38, INF, False),
        (INF, NAN, False),
        (NAN, INF, False),
    ],
)
def test_no_tolerance_reaches_from_a_number_to_infinity_or_nan(want: float, got: float, passed: bool) -> None:
    assert passes([want, 1.0], [got, 1.0]) is passed
    # Beside another difference the arrays are not equal as a whole, and each element is looked at.
    assert passes([want, 1.0], [got, 1.5], rtol=1e30, atol=1.0) is passed


def test_what_is_within_the_tolerance_hides_nothing_that_is_not() -> None:
    found = compare("ref", {"x": np.array([1.0, NAN, INF, 2.0])}, {"x": np.array([1.5, NAN, INF, 9.0])}, 0, 1)
    assert (found.passed, found.max_abs_difference) == (False, 7.0)
    assert found.message == "x: 1 of 4 elements differ, first at (3,): 9.0 instead of 2.0"


def test_the_largest_difference_is_over_all_outputs() -> None:
    want = {"x": np.zeros(2), "y": np.zeros(2), "z": np.zeros(2)}
    got = {"x": np.array([0.0, 0.25]), "y": np.array([-0.75, 0.0]), "z": np.array([0.5, 0.0])}
    found = compare("ref", want, got, 0.0, 1.0)
    assert (found.passed, found.bit_equal, found.max_abs_difference) == (True, False, 0.75)
    # The message is of the first output that is wrong.
    far = compare("ref", want, got, 0.0, 0.6)
    assert (far.passed, far.message) == (
        False,
        "y: 1 of 2 elements differ, first at (0,): -0.75 instead of 0.0",
    )


@pytest.mark.parametrize(
    ("want", "got", "passed"),
    [
        (3 + 4j, 3 + 4.5j, True),  # 0.5 of |3 + 4i| = 5: 10 %
        (3 + 4j, 3.5 + 4j, True),
        (3 + 4j, 3.4 + 4.4j, False),  # 0.57
        (3 + 4j, 3 - 4j, False),
        (5j, 5.4j, True),
        (5 + 0j, 5.6, False),
        (complex(1, NAN), complex(1, NAN), True),
        (complex(1, NAN), 1 + 1j, False),
        (1 + 1j, complex(NAN, 1), False),
        (complex(INF, 0), complex(INF, 0), True),
        (complex(INF, 0), complex(0, INF), False),
    ],
)
def test_complex_numbers_are_compared_by_the_modulus(want: complex, got: complex, passed: bool) -> None:
    assert passes(np.array([want]), np.array([got]), rtol=0.1) is passed
    beside = np.array([want, 1 + 0j]), np.array([got, 1.05 + 0j])
    assert passes(*beside, rtol=0.1) is passed


def test_an_imaginary_part_against_a_real_reference() -> None:
    assert not passes(np.array([1.0]), np.array([1 + 0.5j]), atol=0.4)
    assert not passes(np.array([1 + 0.5j]), np.array([1.0]), atol=0.4)
    assert passes(np.array([1.0]), np.array([1 + 0.5j]), atol=0.5)


@pytest.mark.parametrize(
    ("want", "got"),
    [((3,), (4,)), ((3,), (3, 1)), ((3, 1), (1, 3)), ((1,), ()), ((2, 3), (3, 2)), ((0,), (1,))],
)
def test_shapes_are_never_stretched_to_fit(want: tuple[int, ...], got: tuple[int, ...]) -> None:
    for dtype in (np.float32, np.complex64):
        with pytest.raises(UsageError, match="has shape"):
            passes(np.ones(want, dtype), np.ones(got, dtype))


def test_places_in_more_dimensions_are_row_column_and_so_on() -> None:
    want = np.zeros((2, 3, 4), np.complex64)
    got = want.copy()
    got[1, 2, 3], got[1, 0, 2] = 1j, 2
    found = compare("ref", {"x": want}, {"x": got}, 0, 0)
    assert found.message.startswith("x: 2 of 24 elements differ, first at (1, 0, 2): (2+0j) instead of 0j")
    assert found.max_abs_difference == 2.0


def test_nothing_equals_nothing() -> None:
    found = compare("ref", {"x": np.zeros((0, 3))}, {"x": np.zeros((0, 3))}, 0, 0)
    assert (found.passed, found.bit_equal, found.max_abs_difference) == (True, True, 0.0)


@pytest.mark.parametrize(("dtype", "apart"), [("int64", 1), ("uint64", 1), ("int64", 3)])
def test_integers_too_large_for_a_float64_differ_all_the_same(dtype: str, apart: int) -> None:
    large = np.array([2**60, 7], dtype)
    other = large + np.array([apart, 0], dtype)
    found = compare("ref", {"x": large}, {"x": other}, 0, 0.5)
    assert (found.passed, found.max_abs_difference >= 1.0) == (False, True)
    assert compare("ref", {"x": large}, {"x": large.copy()}, 0, 0).bit_equal


def arguments(terms: int) -> tuple[ArgumentPlan, ...]:
    return (
        ArgumentPlan("A", "float32", (8, terms), "in", "ones"),
        ArgumentPlan("B", "float32", (terms, 8), "in", "ones"),
        ArgumentPlan("C", "float32", (8, 8), "out"),
    )


@pytest.mark.parametrize(
    ("terms", "atol", "error", "passed"),
    [
        (64, 0.0, 1.9e-4, True),  # 2e-4 without a tolerance of its own
        (64, 0.0, 2.1e-4, False),
        (64, 0.5, 0.4, True),
        (64, 0.5, 0.6, False),
        (8192, 0.25, 0.49, True),  # twice 4096 terms: twice the error
        (8192, 0.25, 0.51, False),
        (2048, 0.25, 0.24, True),  # and fewer do not lower it
        (2048, 0.25, 0.26, False),
    ],
)
def test_a_matrix_product_may_err_with_the_number_of_its_terms(
    terms: int, atol: float, error: float, passed: bool
) -> None:
    plan = KernelPlan(
        key="k", label="k", problem="n=8", size={"n": 8}, arguments=arguments(terms), library="cublas.sgemm",
        atol=atol,
    )  # fmt: skip
    exact = np.full((8, 8), float(terms))  # ones times ones
    found = Verifier(Workspace(0)).check(plan, {"C": exact + error})
    assert found is not None
    assert found.passed is passed
    assert found.max_abs_difference == pytest.approx(error, rel=1e-6)


def test_outputs_with_the_same_nan_are_equal_bit_for_bit() -> None:
    for want in (np.array([1.0, NAN]), np.array([1 + 1j, complex(NAN, 0)])):
        found = compare("ref", {"x": want}, {"x": want.copy()}, 0, 0)
        assert (found.passed, found.bit_equal) == (True, True)


def test_a_failure_against_a_function_names_kernel_problem_and_limits(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text("def f(y):\n    return y * 0 + 1\n")
    plan = KernelPlan(
        key="own", label="own", problem="n=2", size={"n": 2}, reference=f"{tmp_path / 'ref.py'}:f",
        arguments=(ArgumentPlan("y", "float32", (2,), "inout", "ones"),), atol=0.25, rtol=0.5,
    )  # fmt: skip
    verifier = Verifier(Workspace(0))
    right, wrong = (verifier.check(plan, {"y": np.array([1.0, last])}) for last in (1.5, 2.0))
    assert right is not None
    assert (right.passed, right.message) == (True, "")
    assert wrong is not None
    differs = "y: 1 of 2 elements differ, first at (1,): 2.0 instead of 1.0"
    assert wrong.message == f"own at n=2: {differs} (tolerance atol 0.25, rtol 0.5)"
