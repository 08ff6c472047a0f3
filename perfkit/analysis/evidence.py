"""The counters that speak for a cause, gathered from both launches."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfkit.analysis import opcode_classes as opcodes
from perfkit.analysis.facts import Facts
from perfkit.model import Evaluated, Evidence, Status

TITLES = {
    "sectors_per_load": "sectors per global load",
    "sectors_per_store": "sectors per global store",
    "l1_hit_rate": "L1 hit rate",
    "l2_hit_rate": "L2 hit rate",
    "l2_read_bytes": "read from L2",
    "dram_read_bytes": "read from DRAM",
    "shared_load_conflicts": "bank conflicts of shared loads",
    "shared_store_conflicts": "bank conflicts of shared stores",
    "wavefronts_per_shared_load": "wavefronts per shared load",
    "wavefronts_per_shared_store": "wavefronts per shared store",
    "fma_per_shared_load": "FMAs per shared load",
    "fma_share": "FMA share",
    "eligible_warps_per_scheduler": "warps eligible per scheduler",
    "registers_per_thread": "registers per thread",
    "shared_bytes_per_block": "shared memory per block",
    "block_size": "threads per block",
    "blocks_per_sm": "blocks per SM",
    "grid_size": "blocks in the grid",
    "waves_per_sm": "waves",
    "occupancy_limiter": "occupancy limited by",
    "sm_clock": "SM clock",
}

# Nsight Compute guide, "Warp Stall Reasons": what fills each queue or delays each scoreboard.
_STALL_METRICS = {
    "lg_throttle": ("sectors_per_load", "sectors_per_store"),
    "long_scoreboard": ("l1_hit_rate", "l2_hit_rate", "sectors_per_load", "l2_read_bytes", "dram_read_bytes"),
    "mio_throttle": ("wavefronts_per_shared_load", "shared_load_conflicts"),
    "short_scoreboard": ("wavefronts_per_shared_load", "shared_load_conflicts"),
    "math_pipe_throttle": ("fma_share",),
    "wait": ("fma_share",),
    "drain": ("sectors_per_store",),
}
_GLOBAL_LOADS = (opcodes.GLOBAL_LOAD, opcodes.ASYNC_LOAD)
_GLOBAL = (*_GLOBAL_LOADS, opcodes.GLOBAL_STORE, opcodes.ASYNC_STORE)
# cp.async and the copies of TMA are global accesses too; of TMA one instruction moves a whole tile.
_STALL_RATIOS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "lg_throttle": (("global_per_fma", "global/local instructions", (*_GLOBAL, opcodes.LOCAL)),),
    "long_scoreboard": (("global_loads_per_fma", "global loads", _GLOBAL_LOADS),),
    "mio_throttle": (("shared_per_fma", "shared instructions", (opcodes.SHARED_LOAD, opcodes.SHARED_STORE)),),
    "short_scoreboard": (("shared_loads_per_fma", "shared loads", (opcodes.SHARED_LOAD,)),),
    "membar": (("fences_per_fma", "fences", (opcodes.FENCE,)),),
    "barrier": (("barriers_per_fma", "barriers", (opcodes.BARRIER,)),),
    "branch_resolving": (("branches_per_fma", "branches", ("control",)),),
    "imc_miss": (("constant_per_fma", "constant loads", ("constant",)),),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Both launches: their metrics and their facts."""

    a: Evaluated
    b: Evaluated
    before: Facts
    after: Facts

    def of(self, *names: str) -> tuple[Evidence, ...]:
        """Metrics by name; those that neither report holds are left out."""
        found = [metric_evidence(self.a, self.b, name) for name in names]
        return tuple(item for item in found if item.before is not None or item.after is not None)

    def for_stall(self, reason: str) -> tuple[Evidence, ...]:
        """What speaks for a stall reason."""
        base = (
            "FMA"
            if self.before.classes.get(opcodes.FMA) and self.after.classes.get(opcodes.FMA)
            else "instruction"
        )
        doubtful = self.before.invalid | self.after.invalid
        ratios = tuple(
            Evidence(
                name,
                self._counted(f"{title} per {base}", classes),
                self.before.per_fma(*classes),
                self.after.per_fma(*classes),
                valid=not doubtful.intersection(f"class_{one}" for one in (opcodes.FMA, *classes)),
            )
            for name, title, classes in _STALL_RATIOS.get(reason, ())
            # Counters alone do not tell every class: 0 is only said where one of the launches has some.
            if any(held.get(c) for c in classes for held in (self.before.classes, self.after.classes))
        )
        return ratios + self.of(*_STALL_METRICS.get(reason, ()))

    def _counted(self, title: str, classes: tuple[str, ...]) -> str:
        """The title without the local accesses where they were not counted: only opcodes tell them."""
        if opcodes.LOCAL in classes and not (self.before.by_opcode and self.after.by_opcode):
            return title.replace("global/local", "global") + ", local not counted"
        return title


def metric_evidence(a: Evaluated, b: Evaluated, name: str) -> Evidence:
    """A metric of both launches as evidence."""
    metric = a.metrics.get(name) or b.metrics.get(name)
    unit = metric.unit if metric is not None else ""
    title = TITLES.get(name, name.replace("_", " "))
    return Evidence(name, title, _value(a, name), _value(b, name), unit, valid(a, name) and valid(b, name))


def valid(evaluated: Evaluated, name: str) -> bool:
    """Whether a metric is in its possible range and not contradicted; also where it is not there at all."""
    metric = evaluated.metrics.get(name)
    return metric is None or metric.status is not Status.INVALID


def _value(evaluated: Evaluated, name: str) -> float | str | None:
    metric = evaluated.metrics.get(name)
    if metric is None or metric.value is None:
        return None
    if isinstance(metric.value, str):
        return metric.value
    return None if math.isnan(metric.number) else metric.number
