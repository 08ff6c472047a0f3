"""A timer that answers as a measuring process would: times with noise, from a seeded generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perfkit.kernels.plan import KernelPlan
from perfkit.model import Batch, GpuInfo, PairSamples, Verification

CLOCK = 1.98e9


class FakeTimer:
    """`times`: s a launch by label. `wrong`: labels whose result is wrong. One instance is one process."""

    started = 0

    def __init__(
        self, times: dict[str, float], *, wrong: Sequence[str] = (), noise: float = 0.002, seed: int = 0
    ) -> None:
        self.gpu = GpuInfo("NVIDIA H200", "GPU-0", (9, 0), 132, "580.0", "13.0")
        self.versions = {"cupy": "14.2.0", "python": "3.12.3"}
        self.opened: dict[str, KernelPlan] = {}
        self.closed = False
        self.now = 100.0
        self._times, self._wrong, self._noise = times, wrong, noise
        self._random = np.random.default_rng(seed + FakeTimer.started)
        FakeTimer.started += 1

    def open(self, name: str, plan: KernelPlan) -> tuple[Verification | None, dict[str, Any]]:
        self.opened[name] = plan
        outcome = None
        if plan.verify:
            bad = plan.label in self._wrong
            message = f"{plan.label} at {plan.problem}: largest difference 3" if bad else ""
            outcome = Verification(not bad, "cuBLAS SGEMM", not bad, 3.0 if bad else 0.0, message=message)
        return outcome, {"ballast_bytes": 0}

    def warm(self, name: str, seconds: float) -> float:
        self.now += seconds
        return self._of(name)

    def batch(
        self, name: str, launches: int, *, inner: int = 1, cold: bool = False, lead_in: bool = False
    ) -> Batch:
        assert not cold or inner == 1
        assert lead_in == (not cold and self._of(name) < 40e-6)
        each = self._of(name) * (1.2 if cold else 1.0)
        times = tuple((each * np.exp(self._random.normal(0, self._noise, launches))).tolist())
        start, self.now = self.now, self.now + sum(times) * inner
        return Batch(times, inner, start, self.now, CLOCK)

    def pairs(
        self, a: str, b: str, a_first: Sequence[bool], *, inner: int, spin_cycles: int = 0
    ) -> PairSamples:
        count = len(a_first)
        noise = self._random.normal(0, self._noise, (2, count))
        first = self._of(a) * inner * np.exp(noise[0])
        delay = 1.5e-6 + spin_cycles / CLOCK if spin_cycles else 0.0
        second = self._of(b) * inner * np.exp(noise[1]) + delay
        return PairSamples(
            tuple(first.tolist()), tuple(second.tolist()), tuple((first * CLOCK).tolist()),
            tuple((second * CLOCK).tolist()), tuple(a_first), inner,
            CLOCK, CLOCK,
        )  # fmt: skip

    def clear(self) -> None:
        self.opened.clear()

    def close(self) -> None:
        self.closed = True

    def _of(self, name: str) -> float:
        plan = self.opened[name]
        return self._times[plan.label] * (plan.size["n"] / 1024) ** 3
