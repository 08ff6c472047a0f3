"""Comparing outputs: what equal, close and wrong mean, and what the messages say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from perfkit.errors import UsageError
from perfkit.kernels.launching import Workspace, make_input
from perfkit.kernels.plan import ArgumentPlan, KernelPlan
from perfkit.kernels.verify import Verifier, compare, float64_error, load_reference

N = 64
A = ArgumentPlan("A", "float32", (N, N), "in", "uniform(-1, 1)")
B = ArgumentPlan("B", "float32", (N, N), "in", "uniform(-1, 1)")
C = ArgumentPlan("C", "float32", (N, N), "out")


def plan(**changes: object) -> KernelPlan:
    fields: dict[str, object] = {
        "key": "k", "label": "k", "problem": "n=64", "size": {"n": N}, "arguments": (A, B, C),
    }  # fmt: skip
    return KernelPlan(**{**fields, **changes})  # type: ignore[arg-type]


class TestCompare:
    def test_equal(self) -> None:
        x = np.arange(6, dtype=np.float32)
        found = compare("ref", {"x": x}, {"x": x.copy()}, 0, 0)
        assert (found.passed, found.bit_equal, found.max_abs_difference) == (True, True, 0.0)

    def test_within_and_beyond_the_tolerance(self) -> None:
        want = np.array([1.0, 100.0], np.float32)
        got = np.array([1.0, 100.5], np.float32)
        near = compare("ref", {"x": want}, {"x": got}, 0.01, 0)
        assert (near.passed, near.bit_equal, near.max_abs_difference) == (True, False, 0.5)
        far = compare("ref", {"x": want}, {"x": got}, 0.001, 0)
        assert not far.passed
        assert far.message == "x: 1 of 2 elements differ, first at (1,): 100.5 instead of 100.0"

    def test_an_element_that_was_not_written(self) -> None:
        got = np.array([[1.0, np.nan]], np.float32)
        found = compare("ref", {"x": np.ones((1, 2))}, {"x": got}, 1e-3, 1e-3)
        assert not found.passed
        assert "first at (0, 1): nan instead of 1.0; 1 are NaN" in found.message

    def test_nan_where_nan_is_meant(self) -> None:
        x = np.array([np.nan, np.inf], np.float32)
        assert compare("ref", {"x": x}, {"x": x.copy()}, 0, 0).passed
        y = np.array([np.nan, np.inf], np.float64)
        assert compare("ref", {"x": y}, {"x": np.array([np.nan, np.inf], np.float32)}, 0, 0).passed

    def test_integers(self) -> None:
        found = compare("ref", {"x": np.array([1, 2])}, {"x": np.array([1, 3])}, 0, 0)
        assert (found.passed, found.max_abs_difference) == (False, 1.0)

    def test_wrong_shape_and_name(self) -> None:
        with pytest.raises(UsageError, match="shape"):
            compare("ref", {"x": np.ones(3)}, {"x": np.ones(4)}, 0, 0)
        with pytest.raises(UsageError, match="'y', which the kernel does not write"):
            compare("ref", {"y": np.ones(3)}, {"x": np.ones(3)}, 0, 0)
        with pytest.raises(UsageError, match="gives no y, which the kernel writes"):
            compare("ref", {"x": np.ones(3)}, {"x": np.ones(3), "y": np.ones(3)}, 0, 0)

    def test_imaginary_parts_and_large_integers_count(self) -> None:
        found = compare("ref", {"x": np.array([1 + 2j])}, {"x": np.array([1 + 5j])}, 0, 1)
        assert (found.passed, found.max_abs_difference) == (False, 3.0)
        large = np.array([2**60])
        assert not compare("ref", {"x": large}, {"x": large + 1}, 0, 0).passed

    @given(hnp.arrays(np.float32, 5), hnp.arrays(np.float32, 5))
    def test_agrees_with_numpy(self, want: np.ndarray, got: np.ndarray) -> None:
        found = compare("ref", {"x": want}, {"x": got}, 1e-3, 1e-3)
        wide = np.allclose(got.astype(float), want.astype(float), rtol=1e-3, atol=1e-3, equal_nan=True)
        assert found.passed == wide
        assert found.bit_equal == np.array_equal(want, got, equal_nan=True)


class TestInputs:
    def test_are_the_same_everywhere_and_differ_by_name(self) -> None:
        one, again = make_input(A, 0), make_input(A, 0)
        assert np.array_equal(one, again)
        assert not np.array_equal(one, make_input(B, 0))
        assert not np.array_equal(one, make_input(A, 1))
        assert one.dtype == np.float32
        assert -1 <= one.min() < -0.9
        assert 0.9 < one.max() < 1

    @pytest.mark.parametrize(
        ("dtype", "fill", "first"),
        [
            ("float32", "zeros", [0, 0, 0]),
            ("int32", "ones", [1, 1, 1]),
            ("float64", "arange", [0, 1, 2]),
            ("int32", "constant(7)", [7, 7, 7]),
            ("float16", "constant(-0.5)", [-0.5, -0.5, -0.5]),
        ],
    )
    def test_fills(self, dtype: str, fill: str, first: list[float]) -> None:
        made = make_input(ArgumentPlan("x", dtype, (3,), "in", fill), 0)
        assert made.dtype == np.dtype(dtype)
        assert made.tolist() == first

    def test_none_is_poison(self) -> None:
        assert np.isnan(make_input(ArgumentPlan("x", "float32", (4,), "out"), 0)).all()

    @given(st.integers(-50, 50), st.integers(0, 50))
    def test_integers_stay_in_range(self, low: int, width: int) -> None:
        made = make_input(ArgumentPlan("x", "int32", (64,), "in", f"uniform({low}, {low + width})"), 0)
        assert low <= made.min() <= made.max() <= low + width

    @pytest.mark.parametrize(
        "fill", ["normal", "uniform(1)", "constant()", "uniform(a, b)", "zeros(1)", "ones("]
    )
    def test_unknown_fill(self, fill: str) -> None:
        with pytest.raises(UsageError, match="argument x: fill"):
            make_input(ArgumentPlan("x", "float32", (3,), "in", fill), 0)

    def test_unknown_dtype(self) -> None:
        with pytest.raises(UsageError, match="bfloat99"):
            make_input(ArgumentPlan("x", "bfloat99", (3,), "in", "zeros"), 0)


class TestSgemm:
    def test_float64_error(self) -> None:
        a, b = make_input(A, 0), make_input(B, 0)
        exact = (a.astype(float) @ b.astype(float)).astype(np.float32)
        worst, entries = float64_error(a, b, exact)
        assert entries == 64
        assert worst < 1e-6
        assert float64_error(a, b, exact + np.float32(0.25))[0] == pytest.approx(0.25, abs=1e-5)
        assert float64_error(a, b, np.full_like(exact, np.nan))[0] == float("inf")

    def test_cublas_itself_is_checked_against_float64(self) -> None:
        workspace = Workspace(0)
        product = workspace.host(A).astype(np.float32) @ workspace.host(B).astype(np.float32)
        library = plan(library="cublas.sgemm", atol=2e-4)
        right = Verifier(workspace).check(library, {"C": product})
        assert right is not None
        assert right.passed
        assert right.reference == "float64 dot products"
        wrong = Verifier(workspace).check(library, {"C": product + np.float32(1)})
        assert wrong is not None
        assert not wrong.passed
        assert wrong.message.startswith("k at n=64: largest difference 1")

    def test_arguments_that_are_no_matrix_product(self) -> None:
        bad = plan(reference="cublas.sgemm", arguments=(A, C))
        with pytest.raises(UsageError, match=r"needs A \(m x k\)"):
            Verifier(Workspace(0)).check(bad, {"C": np.zeros((N, N), np.float32)})


class TestFunction:
    def reference(self, tmp_path: Path, text: str) -> str:
        (tmp_path / "ref.py").write_text(text)
        return f"{tmp_path / 'ref.py'}:f"

    def test_gets_inputs_and_scalars_by_name(self, tmp_path: Path) -> None:
        x = ArgumentPlan("x", "float32", (8,), "in", "arange")
        y = ArgumentPlan("y", "float32", (8,), "inout", "ones")
        arguments = (x, y, ArgumentPlan("a", "float32", value=2.0))
        reference = self.reference(tmp_path, "def f(x, y, a):\n    y += a * x\n    return y\n")
        saxpy = plan(reference=reference, arguments=arguments)
        verifier = Verifier(Workspace(0))
        right = verifier.check(saxpy, {"y": 1 + 2 * np.arange(8, dtype=np.float32)})
        assert right is not None
        assert right.bit_equal  # and the reference's writing into its argument harmed nobody:
        again = verifier.check(saxpy, {"y": 1 + 2 * np.arange(8, dtype=np.float32)})
        assert again == right
        wrong = verifier.check(saxpy, {"y": np.zeros(8, np.float32)})
        assert wrong is not None
        assert not wrong.passed
        assert "8 of 8 elements differ" in wrong.message

    def test_none_to_compare_with(self) -> None:
        assert Verifier(Workspace(0)).check(plan(), {}) is None

    @pytest.mark.parametrize(
        ("text", "says"),
        [("", "has no function 'f'"), ("1 / 0", "ZeroDivisionError"), ("f = 3", "no function")],
    )
    def test_files_that_are_wrong(self, tmp_path: Path, text: str, says: str) -> None:
        with pytest.raises(UsageError, match=says):
            load_reference(self.reference(tmp_path, text), "k")

    def test_file_that_is_not_there(self) -> None:
        with pytest.raises(UsageError, match="is no file"):
            load_reference("/nowhere/ref.py:f", "k")
