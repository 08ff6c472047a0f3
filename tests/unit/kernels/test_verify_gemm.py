"""A matrix product against cuBLAS and float64: both must hold, and a failure says how far off it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfkit.kernels import verify
from perfkit.kernels.launching import Workspace
from perfkit.kernels.plan import ArgumentPlan, KernelPlan
from perfkit.model import Verification

N = 8
ARGUMENTS = (
    ArgumentPlan("A", "float32", (N, N), "in", "ones"),
    ArgumentPlan("B", "float32", (N, N), "in", "ones"),
    ArgumentPlan("C", "float32", (N, N), "out"),
)
EXACT = np.full((N, N), float(N))


class FakeCublas:
    """Stands for the GPU: a launch that writes `result`; how many there were is counted."""

    result = EXACT
    launches = 0

    def __init__(self, plan: KernelPlan, _workspace: Workspace) -> None:
        assert plan.library == "cublas.sgemm"

    def ready(self) -> None: ...

    def launch(self) -> None:
        type(self).launches += 1

    def read_outputs(self) -> dict[str, Any]:
        return {"C": self.result}


@pytest.fixture
def cublas(monkeypatch: pytest.MonkeyPatch) -> type[FakeCublas]:
    class Fresh(FakeCublas):
        pass

    monkeypatch.setattr(verify, "Launcher", Fresh)
    return Fresh


def check(verifier: verify.Verifier, got: Any, atol: float = 0.25, rtol: float = 0.0) -> Verification:
    plan = KernelPlan(
        key="k", label="k", problem="n=8", size={"n": N}, arguments=ARGUMENTS, reference="cublas.sgemm",
        atol=atol, rtol=rtol,
    )  # fmt: skip
    found = verifier.check(plan, {"C": got})
    assert found is not None
    return found


def test_right_has_no_message_and_wrong_says_how_far(cublas: type[FakeCublas]) -> None:
    verifier = verify.Verifier(Workspace(0))
    right = check(verifier, EXACT + 0.125)
    assert (right.passed, right.bit_equal, right.max_abs_difference, right.message) == (
        True,
        False,
        0.125,
        "",
    )
    wrong = check(verifier, EXACT + 0.5)
    assert not wrong.passed
    assert wrong.message.startswith("k at n=8: C: 64 of 64 elements differ, first at (0, 0): 8.5 instead of")
    assert wrong.message.endswith("(tolerance atol 0.25, rtol 0)")
    assert cublas.launches == 1  # kernels with the same inputs share it
    verifier.clear()
    check(verifier, EXACT)
    assert cublas.launches == 2


def test_equal_to_a_cublas_that_is_wrong_does_not_pass(cublas: type[FakeCublas]) -> None:
    cublas.result = EXACT + 1.0
    found = check(verify.Verifier(Workspace(0)), EXACT + 1.0)
    assert (found.passed, found.bit_equal) == (False, True)
    assert "largest difference 0 from cuBLAS SGEMM, 1 from float64" in found.message


def test_within_rtol_of_cublas_is_not_enough_where_float64_is_further_off(cublas: type[FakeCublas]) -> None:
    assert not check(verify.Verifier(Workspace(0)), EXACT + 0.5, rtol=0.5).passed
    assert cublas.launches == 1


def test_exactly_at_the_tolerance_passes(cublas: type[FakeCublas]) -> None:
    assert check(verify.Verifier(Workspace(0)), EXACT + 0.25).passed
    assert cublas.launches == 1
