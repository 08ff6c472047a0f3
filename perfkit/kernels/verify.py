"""Is a kernel's output right? Compared with a reference on the same inputs, and with float64 dot products.

Everything here runs on the host with numpy, so that no helper kernel is launched.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.errors import UsageError
from perfkit.kernels.launching import Launcher, Workspace, arrays, outputs
from perfkit.kernels.plan import KernelPlan
from perfkit.model import Verification

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

FLOAT64_ENTRIES = 64
# The largest error of an entry of an FP32 dot product of 4096 terms in [-1, 1], with room; errors add up with
# the number of terms, so longer sums get more.
SGEMM_TOLERANCE = 2e-4
_SGEMM_TERMS = 4096


class Verifier:
    """Verifies launches of one plan; keeps the cuBLAS result of the current inputs, which kernels share."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._gemm: tuple[object, Array] | None = None

    def clear(self) -> None:
        """Forget the kept result, before the next problem size."""
        self._gemm = None

    def check(self, plan: KernelPlan, got: Mapping[str, Array]) -> Verification | None:
        """Compare the outputs of a launch. None when the kernel has no reference to compare with."""
        gemm = plan.reference == "cublas.sgemm" or plan.library == "cublas.sgemm"
        if gemm:
            return self._check_gemm(plan, got)
        if not plan.reference:
            return None
        return self._check_function(plan, got)

    def _check_gemm(self, plan: KernelPlan, got: Mapping[str, Array]) -> Verification:
        a, b, c = _matrices(plan)
        result = got[c.name]
        worst, entries = float64_error(self._workspace.host(a), self._workspace.host(b), result)
        tolerance = (plan.atol or SGEMM_TOLERANCE) * max(1.0, a.shape[1] / _SGEMM_TERMS)
        if plan.library:  # cuBLAS is the reference: it can only be compared with float64
            exact = Verification(worst <= tolerance, "float64 dot products", False, worst, entries, worst)
            return exact if exact.passed else _failed(exact, plan, tolerance)
        expected = self._cublas(plan, (a, b, c))
        outcome = compare("cuBLAS SGEMM", {c.name: expected}, {c.name: result}, plan.rtol, tolerance)
        verification = Verification(
            outcome.passed and worst <= tolerance,
            outcome.reference,
            outcome.bit_equal,
            outcome.max_abs_difference,
            entries,
            worst,
            outcome.message,
        )
        return verification if verification.passed else _failed(verification, plan, tolerance)

    def _cublas(self, plan: KernelPlan, matrices: tuple[Any, Any, Any]) -> Array:
        if self._gemm is None or self._gemm[0] != matrices:
            reference = dataclasses.replace(
                plan, label="cublas", library="cublas.sgemm", arguments=matrices, blocks_per_sm=None
            )
            launcher = Launcher(reference, self._workspace)
            launcher.ready()
            launcher.launch()
            self._gemm = (matrices, launcher.read_outputs()[matrices[2].name])
        return self._gemm[1]

    def _check_function(self, plan: KernelPlan, got: Mapping[str, Array]) -> Verification:
        function = load_reference(plan.reference, plan.key)
        given: dict[str, Any] = {
            a.name: self._workspace.host(a).copy() for a in arrays(plan) if a.direction != "out"
        }
        given |= {a.name: a.value for a in plan.arguments if not a.shape}
        expected = function(**given)
        if not isinstance(expected, Mapping):
            first = outputs(plan)
            if len(first) != 1:
                raise UsageError(
                    f"kernel {plan.key}: {plan.reference} returns one array, the kernel writes {len(first)}",
                    "Return a dict of arrays by the names of the out and inout arguments.",
                )
            expected = {first[0].name: expected}
        outcome = compare(plan.reference, expected, got, plan.rtol, plan.atol)
        return outcome if outcome.passed else _failed(outcome, plan, plan.atol)


def _failed(outcome: Verification, plan: KernelPlan, tolerance: float) -> Verification:
    text = outcome.message or (
        f"largest difference {outcome.max_abs_difference:.3g} from {outcome.reference}, "
        f"{outcome.float64_max_abs_error:.3g} from float64"
    )
    limits = f"tolerance atol {tolerance:.3g}, rtol {plan.rtol:.3g}"
    return dataclasses.replace(outcome, message=f"{plan.label} at {plan.problem}: {text} ({limits})")


def compare(
    reference: str, expected: Mapping[str, Any], got: Mapping[str, Array], rtol: float, atol: float
) -> Verification:
    """Every element within atol + rtol |expected|. NaN only equals NaN: outputs are poisoned with it before a
    launch.

    With both tolerances 0 the outputs must be equal bit for bit (as numbers).
    """
    import numpy as np

    worst, equal, passed, message = 0.0, True, True, ""
    for name, wanted in expected.items():
        if name not in got:
            known = ", ".join(got)
            raise UsageError(
                f"{reference} gives {name!r}, which the kernel does not write", f"It writes: {known}."
            )
        want, have = np.asarray(wanted), got[name]
        if want.shape != have.shape:
            raise UsageError(
                f"{reference}: {name} has shape {want.shape}, the kernel writes {have.shape}",
                "Return an array of the argument's shape.",
            )
        if np.array_equal(want, have, equal_nan=want.dtype.kind in "fc"):
            continue
        equal = False
        wide = np.complex128 if "c" in (want.dtype.kind, have.dtype.kind) else np.float64
        exact, measured = want.astype(wide), have.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.abs(measured - exact)
        if want.dtype.kind in "iu" and have.dtype.kind in "iu":  # a float64 cannot tell large ones apart
            difference[(have != want) & (difference == 0)] = 1.0
        difference[np.isnan(difference)] = np.inf  # a NaN on one side, or infinities of two signs
        difference[(have == want) | (np.isnan(measured) & np.isnan(exact))] = 0.0
        # A limit relative to infinity or NaN says nothing: there only infinity or NaN itself is right, by the
        # difference of 0 above, and no tolerance reaches it from elsewhere.
        with np.errstate(invalid="ignore", over="ignore"):
            limit = atol + rtol * np.abs(exact)
        bad = ~((difference == 0) | ((difference <= limit) & np.isfinite(difference)))
        worst = max(worst, float(difference.max()))
        if bad.any():
            passed = False
            place = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
            unwritten = int((np.isnan(measured) & ~np.isnan(exact)).sum())
            message = message or (
                f"{name}: {int(bad.sum())} of {bad.size} elements differ, first at {place}: "
                f"{have[place]} instead of {want[place]}" + (f"; {unwritten} are NaN" if unwritten else "")
            )
    if missing := [name for name in got if name not in expected]:
        raise UsageError(
            f"{reference} gives no {', '.join(missing)}, which the kernel writes",
            "Return every out and inout argument; scratch that nobody reads can be of direction in.",
        )
    return Verification(passed, reference, equal, worst, message=message)


def float64_error(a: Array, b: Array, c: Array, entries: int = FLOAT64_ENTRIES) -> tuple[float, int]:
    """Largest |C - A x B| over random entries, each against a float64 dot product; NaN counts as infinite."""
    import numpy as np

    generator = np.random.default_rng(0)
    worst = 0.0
    for _ in range(entries):
        row, column = int(generator.integers(c.shape[0])), int(generator.integers(c.shape[1]))
        exact = float(np.dot(a[row].astype(np.float64), b[:, column].astype(np.float64)))
        error = abs(float(c[row, column]) - exact)
        worst = max(worst, error if error == error else float("inf"))
    return worst, entries


def _matrices(plan: KernelPlan) -> tuple[Any, Any, Any]:
    inputs = [a for a in arrays(plan) if a.direction == "in" and len(a.shape) == 2]
    written = [a for a in outputs(plan) if len(a.shape) == 2]
    shapes = [a.shape for a in (*inputs[:2], *written[:1])]
    if len(inputs) != 2 or len(written) != 1 or shapes[2] != (shapes[0][0], shapes[1][1]):
        raise UsageError(
            f"kernel {plan.key}: the reference cublas.sgemm needs A (m x k), B (k x n) in and C (m x n) out",
            'Correct the arguments, or give a Python function as reference = "file.py:function".',
        )
    return inputs[0], inputs[1], written[0]


def load_reference(reference: str, key: str) -> Callable[..., Any]:
    """The function of "file.py:function".

    Raises UsageError when file or function is missing or does not load.
    """
    file, _, name = reference.rpartition(":")
    path = Path(file)
    remedy = 'Give it as reference = "file.py:function", relative to the perfkit.toml.'
    if not path.is_file():
        raise UsageError(f"kernel {key}: the reference {file} is no file", remedy)
    spec = importlib.util.spec_from_file_location(f"perfkit_reference_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"kernel {key}: the reference {file} is no Python file", remedy)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(
            f"kernel {key}: the reference {file} cannot be imported: {type(error).__name__}: {error}", remedy
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"kernel {key}: {file} has no function {name!r}", remedy)
    return function  # type: ignore[no-any-return]  # callable() narrows Any to a callable of unknown type
