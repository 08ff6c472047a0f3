"""FP32 operations that a launch executed, as counted: an FMA is two, predicated-off lanes do not count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perfkit.analysis.facts import counter, first
from perfkit.analysis.opcode_classes import fp32_flops
from perfkit.model import Evaluated, Status

_OPERATIONS = {"ffma": 2, "fadd": 1, "fmul": 1}
_SUMS = {f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum": n for name, n in _OPERATIONS.items()}
# What ncu's own roofline section collects instead (sets `detailed` and `roofline`).
_RATES = {f"{name}.per_cycle_elapsed": flops for name, flops in _SUMS.items()}
_BY_OPCODE = "sass__thread_inst_executed_true_per_opcode"
_CLOCK = ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")

COUNTERS = (*_SUMS, *_RATES, _BY_OPCODE, *_CLOCK)


@dataclass(frozen=True, slots=True)
class CountedFlops:
    """FLOPs of a launch with the formula and the counters that gave them."""

    value: float
    formula: str
    counters: tuple[str, ...]
    doubt: str = ""  # why the value cannot be right, where it rests on a metric that is invalid


def counted_flops(item: Evaluated) -> CountedFlops | None:
    """FP32 FLOPs by the first way that the report allows; None where it allows none.

    0 where only other work ran (tensor cores, FP64, half). On chips with packed FMAs only the opcodes tell
    those from plain ones, so they come first.
    """
    ways: tuple[Callable[[Evaluated], CountedFlops | None], ...] = (_by_opcode, _by_sums, _by_rates)
    return next((found for way in ways if (found := way(item)) is not None), None)


def _by_opcode(item: Evaluated) -> CountedFlops | None:
    held = item.launch.counters.get(_BY_OPCODE)
    if held is None or not held.instances or held.status is Status.INVALID:
        return None
    total = sum(fp32_flops(str(opcode)) * count for opcode, count in held.instances)
    formula = f"{{{_BY_OPCODE}}}: 2 FFMA + FADD + FMUL, twice that for FFMA2, FADD2, FMUL2"
    return CountedFlops(float(total), formula, (_BY_OPCODE,))


def _by_sums(item: Evaluated) -> CountedFlops | None:
    total = sum(flops * counter(item.launch, name) for name, flops in _SUMS.items())
    if total != total:
        return None
    return CountedFlops(total, " + ".join(f"{n} * {{{name}}}" for name, n in _SUMS.items()), tuple(_SUMS))


def _by_rates(item: Evaluated) -> CountedFlops | None:
    rate = sum(flops * counter(item.launch, name) for name, flops in _RATES.items())
    clock = first(*(counter(item.launch, name) for name in _CLOCK), item.number("sm_clock"))
    total = rate * clock * item.number("duration")
    if total != total:
        return None
    terms = " + ".join(f"{n} * {{{name}}}" for name, n in _RATES.items())
    metrics = (item.metrics.get(name) for name in ("sm_clock", "duration"))
    invalid = [one.name for one in metrics if one is not None and one.status is Status.INVALID]
    doubt = f"rests on {', '.join(invalid)}, which cannot be right" if invalid else ""
    return CountedFlops(total, f"({terms}) * SM clock * duration", (*_RATES, *_CLOCK), doubt)
