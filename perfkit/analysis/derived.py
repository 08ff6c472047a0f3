"""What is computed from measurements: products, differences and ratios, with the names they were made of.

A value that is computed of an invalid one is invalid too: kept, and flagged with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from perfkit.model import Status
from perfkit.model.measurements import Source, Traced

NO_BENCH = "no timing: give a bench run of this kernel and size as well (perfkit bench)"


@dataclass(slots=True)
class Derive:
    """Adds what is computed from other measurements. A derived value lacks for the reason its input does."""

    values: dict[tuple[str, str, str], Traced]
    kernels: tuple[str, ...]
    problems: tuple[str, ...]
    reference: str

    def all(self) -> None:
        # A reference at the end is no step of the ladder; one that was chosen among the steps stays one.
        outside = self.reference if self.reference == self.kernels[-1] else ""
        for problem in self.problems:
            before = ""
            for kernel in self.kernels:
                self._of_kernel(kernel, problem)
                self._against_others(kernel, problem, "" if kernel == outside else before)
                if ("time", kernel, problem) in self.values and kernel != outside:
                    before = kernel

    def _of_kernel(self, kernel: str, problem: str) -> None:
        def product(*factors: float) -> float:
            return math.prod(factors)

        def difference(a: float, b: float) -> float:
            return a - b

        def ratio(a: float, b: float) -> float:
            return a / b if b else float("nan")

        here = (kernel, problem)
        if ("flops", *here) not in self.values and ("counted_flops", *here) in self.values:
            self._add("flops", *here, "FLOP", "counted_flops", ("counted_flops",), product)
        add = self._add
        add("ncu_flop_rate", *here, "FLOP/s", "flops / duration", ("flops", "duration"), ratio)
        add(
            "two_factor_model",
            *here,
            "fraction",
            "issue_rate * fma_share",
            ("issue_rate", "fma_share"),
            product,
        )
        measured = "timed_share_of_peak" if self._has("timed_share_of_peak", *here) else "share_of_peak"
        add("measured_share", *here, "fraction", measured, (measured,), product)
        for name, model, against in (
            ("two_factor_error", "two_factor_model", "measured_share"),
            ("model_error", "model_share_of_peak", "share_of_peak"),
            ("timed_model_error", "model_share_of_peak", "timed_share_of_peak"),
        ):
            add(name, *here, "point", f"{model} - {against}", (model, against), difference)
        both = ("dram_read_bytes", "dram_write_bytes")
        add("dram_bytes", *here, "byte", " + ".join(both), both, lambda a, b: a + b)
        add("flop_per_dram_byte", *here, "FLOP/byte", "flops / dram_bytes", ("flops", "dram_bytes"), ratio)
        add(
            "flop_per_l2_byte", *here, "FLOP/byte", "flops / l2_read_bytes", ("flops", "l2_read_bytes"), ratio
        )

    def _against_others(self, kernel: str, problem: str, before: str) -> None:
        def against(name: str, other: str, flip: bool) -> None:
            mine, theirs = ("time", kernel, problem), ("time", other, problem)
            if mine not in self.values or theirs not in self.values:
                return
            a, b = self.values[mine].number, self.values[theirs].number
            formula = f"time({other}) / time({kernel})"
            source = Source(kind="derived", formula=formula, inputs=(_call(*mine), _call(*theirs)))
            value = b / a if a else float("nan")
            if value == value:
                doubt = self._doubt((mine, theirs))
                self.values[name, kernel, problem] = Traced(
                    value, "fraction" if flip else "", source, Status.INVALID if doubt else Status.OK, doubt
                )
            else:
                self.values[name, kernel, problem] = Traced(
                    None, "fraction" if flip else "", source, Status.NOT_COLLECTED, NO_BENCH
                )

        if self.reference:
            against("share_of_reference", self.reference, True)
        if before:
            against("speedup", before, False)

    def _doubt(self, keys: Iterable[tuple[str, str, str]]) -> str:
        """Which inputs are invalid and why, "" where none is."""
        invalid = [(key, self.values[key]) for key in keys if self.values[key].status is Status.INVALID]
        return "; ".join(f"{_call(*key)} is invalid: {held.reason}" for key, held in invalid)

    def _has(self, name: str, kernel: str, problem: str) -> bool:
        found = self.values.get((name, kernel, problem))
        return found is not None and found.number == found.number

    def _add(
        self,
        name: str,
        kernel: str,
        problem: str,
        unit: str,
        formula: str,
        inputs: tuple[str, ...],
        function: Callable[..., float],
    ) -> None:
        found = [self.values.get((item, kernel, problem)) for item in inputs]
        if all(item is None for item in found):
            return
        source = Source(
            kind="derived", formula=formula, inputs=tuple(_call(item, kernel, problem) for item in inputs)
        )
        numbers = [item.number if item is not None else float("nan") for item in found]
        if all(number == number for number in numbers):
            value = function(*numbers)
            if value != value:
                self.values[name, kernel, problem] = Traced(None, unit, source, Status.UNDEFINED)
                return
            doubt = self._doubt((item, kernel, problem) for item in inputs)
            status = Status.INVALID if doubt else Status.OK
            self.values[name, kernel, problem] = Traced(value, unit, source, status, doubt)
            return
        at = next(index for index, number in enumerate(numbers) if number != number)
        lacking = found[at]
        self.values[name, kernel, problem] = Traced(
            None,
            unit,
            source,
            lacking.status if lacking is not None else Status.NOT_COLLECTED,
            lacking.reason if lacking is not None and lacking.reason else f"needs {inputs[at]}",
        )


def _call(name: str, kernel: str, problem: str) -> str:
    return f"{name}({kernel}, {problem})" if problem else f"{name}({kernel})"
