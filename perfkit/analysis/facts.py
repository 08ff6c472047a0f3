"""What the explanation needs to know of a launch, as plain numbers. NaN where the report does not tell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from perfkit.analysis import opcode_classes as opcodes
from perfkit.analysis.definitions import load_devices
from perfkit.analysis.opcode_counts import PER_OPCODE
from perfkit.model import Evaluated, Launch, Status

NAN = float("nan")
_STALL = "stall_"
NO_STALL = ("selected", "not_selected")  # scheduler states: the warp could issue

# Class -> counters, the first that is held answers (L1 makes one request of a global access); thread-
# level counters count the 32 lanes of a warp.
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"  # those of cp.async (LDGSTS) are among them
_BY_COUNTER: Mapping[str, tuple[str, ...]] = {
    opcodes.GLOBAL_LOAD: (
        "smsp__inst_executed_op_global_ld.sum",
        "smsp__sass_inst_executed_op_global_ld.sum",
        _REQUESTS,
    ),
    opcodes.GLOBAL_STORE: (
        "smsp__inst_executed_op_global_st.sum",
        "smsp__sass_inst_executed_op_global_st.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    ),
    opcodes.ASYNC_LOAD: ("smsp__inst_executed_op_ldgsts.sum",),
    opcodes.SHARED_LOAD: (
        "smsp__inst_executed_op_shared_ld.sum",
        "smsp__sass_inst_executed_op_shared_ld.sum",
    ),
    opcodes.SHARED_STORE: (
        "smsp__inst_executed_op_shared_st.sum",
        "smsp__sass_inst_executed_op_shared_st.sum",
    ),
}
_FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
_FP32 = (
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
)
_ALU, _FMA_PIPE = "smsp__inst_executed_pipe_alu.sum", "smsp__inst_executed_pipe_fma.sum"
_CYCLES, _TOTAL_CYCLES = "smsp__cycles_elapsed.avg", "smsp__cycles_elapsed.sum"
_ISSUED = "smsp__issue_active.sum"

# Counters that add up over the kernels of one call.
ADDITIVE = (
    _TOTAL_CYCLES,
    _CYCLES,
    "smsp__cycles_active.sum",
    _ISSUED,
    "sm__inst_executed_pipe_tensor.sum",
    "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",
    _FFMA,
    *_FP32,
    *chain.from_iterable(_BY_COUNTER.values()),
    _ALU,
    _FMA_PIPE,
)
CLOCK = "smsp__cycles_elapsed.avg.per_second"
SCHEDULERS = "device__attribute_num_schedulers_per_multiprocessor"
SM_COUNTS = ("launch__sm_count", "device__attribute_multiprocessor_count")
# Counters that the explanation reads itself, beside the metrics of the fixed sets.
COUNTERS = (*ADDITIVE, CLOCK, PER_OPCODE, *SM_COUNTS, SCHEDULERS, "launch__shared_mem_config_size")


@dataclass(frozen=True, slots=True)
class Facts:
    """Numbers of one launch: seconds, Hz, warp instructions, cycles; fractions 0..1; stalls in cycles per
    issue.

    Numbers that cannot be right are held too: `invalid` names them (the field; `stall_...`; `class_...`).
    """

    duration: float
    clock: float
    cycles: float  # elapsed cycles of an SM sub-partition (SMSP), mean over them
    smsps: float
    instructions: float
    issued: float  # cycles with an instruction issued, over all SMSPs
    issue_rate: float
    active: float
    warps: float  # active per scheduler
    theoretical_warps: float  # warps per scheduler that occupancy would allow
    stalls: Mapping[str, float] = field(default_factory=dict)  # without selected and not_selected
    not_selected: float = NAN
    classes: Mapping[str, float] = field(default_factory=dict)  # warp instructions by opcode class
    by_opcode: bool = False  # classes come from opcodes; otherwise from hardware counters, and are coarser
    invalid: frozenset[str] = frozenset()

    @property
    def latency(self) -> float:
        """Cycles between two issues of a warp that are not waits for its turn: 1 (the issue) + the stalls."""
        return 1.0 + sum(self.stalls.values()) if self.stalls else NAN

    @property
    def readiness(self) -> float:
        """r: the probability that a warp can issue in a cycle, 1 / latency."""
        return 1.0 / self.latency

    def per_fma(self, *classes: str) -> float:
        """Instructions of these classes per FMA; per instruction where the kernel has no FMA."""
        counts = self.classes
        if not counts:
            return NAN
        base = counts.get(opcodes.FMA) or sum(counts.values())  # of the pass that counted the classes
        return sum(counts.get(name, 0.0) for name in classes) / base if base > 0 else NAN


def facts_of_pair(a: Evaluated, b: Evaluated) -> tuple[Facts, Facts]:
    """The facts of both, with instruction classes from the same source: opcodes only where both hold them.

    A class that one launch counts by opcode and the other by counter would seem to have changed.
    """
    before, after = facts_of(a), facts_of(b)
    if before.by_opcode == after.by_opcode:
        return before, after
    return facts_of(a, opcodes_held=False), facts_of(b, opcodes_held=False)


def facts_of(evaluated: Evaluated, *, opcodes_held: bool = True) -> Facts:
    """Gather the numbers from the metrics, and from the counters where no metric carries them.

    Without `opcodes_held` the instruction classes come from hardware counters even where opcodes are held.
    """
    launch = evaluated.launch
    duration = evaluated.number("duration")
    clock = first(counter(launch, CLOCK), evaluated.number("sm_clock"))
    total = counter(launch, _TOTAL_CYCLES)
    smsps = _smsps(launch, total)
    cycles = first(counter(launch, _CYCLES), total / smsps, duration * clock)
    active = evaluated.number("active_fraction")
    issue_rate = evaluated.number("issue_rate")
    return Facts(
        duration=duration,
        clock=clock,
        cycles=cycles,
        smsps=smsps,
        instructions=evaluated.number("instructions"),
        issued=first(counter(launch, _ISSUED), issue_rate * active * cycles * smsps),
        issue_rate=issue_rate,
        active=active,
        warps=evaluated.number("active_warps_per_scheduler"),
        theoretical_warps=_theoretical_warps(evaluated),
        stalls=stalls_of(evaluated),
        not_selected=evaluated.number(_STALL + "not_selected"),
        classes=_classes(evaluated, opcodes_held),
        by_opcode=opcodes_held and bool(opcode_counts(launch)),
        invalid=_invalid(evaluated),
    )


def _invalid(evaluated: Evaluated) -> frozenset[str]:
    """The facts that rest on a metric outside its possible range, or on counters that others contradict."""
    launch = evaluated.launch

    def doubted(*names: str) -> bool:
        """Whether the first of these that the launch holds (metric or counter) is invalid."""
        for name in names:
            held = launch.counters.get(name) or evaluated.metrics.get(name)
            if held is not None and held.value is not None:
                return held.status is Status.INVALID
        return False

    made: dict[str, bool] = {
        "duration": doubted("duration"),
        "clock": doubted(CLOCK, "sm_clock"),
        "cycles": doubted(_CYCLES, _TOTAL_CYCLES, "duration") or doubted(_CYCLES, _TOTAL_CYCLES, "sm_clock"),
        "instructions": doubted("instructions"),
        "issued": doubted(_ISSUED, "issue_rate") or doubted(_ISSUED, "active_fraction"),
        "issue_rate": doubted("issue_rate"),
        "active": doubted("active_fraction"),
        "warps": doubted("active_warps_per_scheduler"),
        "theoretical_warps": doubted("blocks_per_sm") or doubted("block_size"),
        "not_selected": doubted(_STALL + "not_selected"),
        "class_fp32_other": any(map(doubted, _FP32)),
        "class_alu_pipe": doubted(_ALU),
        "class_fma_pipe": doubted(_FMA_PIPE),
        f"class_{opcodes.FMA}": doubted(_FFMA),
        **{f"class_{name}": doubted(*counters) for name, counters in _BY_COUNTER.items()},
    }
    if opcode_counts(launch):  # the classes come from these, which nothing contradicts
        made = {name: doubt for name, doubt in made.items() if not name.startswith("class_")}
    stalls = {_STALL + name: doubted(_STALL + name) for name in stalls_of(evaluated)}
    made |= {**stalls, "latency": any(stalls.values())}
    return frozenset(name for name, doubt in made.items() if doubt)


def counter(launch: Launch, name: str) -> float:
    """A counter's value as stored, NaN where it is missing or no number."""
    held = launch.counters.get(name)
    if (
        held is None
        or held.status not in (Status.OK, Status.INVALID)
        or not isinstance(held.value, (int, float))
    ):
        return NAN
    return float(held.value)


def first(*values: float) -> float:
    """The first that is not NaN."""
    return next((value for value in values if not math.isnan(value)), NAN)


def _smsps(launch: Launch, total: float) -> float:
    cycles = counter(launch, _CYCLES)
    if total > 0 and cycles > 0:
        return total / cycles
    return schedulers_per_sm(launch) * first(*(counter(launch, name) for name in SM_COUNTS))


def schedulers_per_sm(launch: Launch) -> float:
    """Warp schedulers (SM sub-partitions) an SM: as the report says, else as devices.toml says of the chip.

    Of a chip that it does not hold: 4, as every one has since Volta (Nsight Compute guide, hardware model).
    """
    told = counter(launch, SCHEDULERS)
    if told > 0:
        return told
    major, minor = launch.compute_capability
    return float(load_devices().get(f"{major}.{minor}", {}).get("smsps_per_sm", 4))


def _theoretical_warps(evaluated: Evaluated) -> float:
    blocks, size = evaluated.number("blocks_per_sm"), evaluated.number("block_size")
    if not (blocks > 0 and size > 0):
        return NAN
    return blocks * math.ceil(size / 32) / schedulers_per_sm(evaluated.launch)


def stalls_of(evaluated: Evaluated) -> dict[str, float]:
    """Cycles per issue by stall reason, of those that have a value."""
    return {
        name.removeprefix(_STALL): metric.number
        for name, metric in evaluated.metrics.items()
        if name.startswith(_STALL)
        and name.removeprefix(_STALL) not in NO_STALL
        and not math.isnan(metric.number)
    }


def opcode_counts(launch: Launch) -> dict[str, float]:
    """Warp instructions by opcode; {} where the report does not hold them, or other counters contradict."""
    held = launch.counters.get(PER_OPCODE)
    if held is None or held.status is Status.INVALID:
        return {}
    return {str(opcode): float(count) for opcode, count in held.instances}


def _classes(evaluated: Evaluated, opcodes_held: bool) -> dict[str, float]:
    """Warp instructions by class: from the opcodes where they are held, else from the hardware's own
    counters.

    What neither accounts for is under "other", unless the total is in doubt: then what a pass of another
    length executed more is no class. {} where the report holds too little for a split.
    """
    launch, held = evaluated.launch, evaluated.metrics.get("instructions")
    total = NAN if held is not None and held.status is Status.INVALID else evaluated.number("instructions")
    counts = opcodes.by_class(opcode_counts(launch)) if opcodes_held else {}
    counts = counts or _classes_by_counter(launch)
    missing = total - sum(counts.values())
    if counts and missing > 0:
        counts[opcodes.OTHER] = counts.get(opcodes.OTHER, 0.0) + missing
    return counts


def _classes_by_counter(launch: Launch) -> dict[str, float]:
    fma = counter(launch, _FFMA) / 32
    if math.isnan(fma):
        return {}
    counts = {name: first(*(counter(launch, c) for c in names)) for name, names in _BY_COUNTER.items()}
    if counts[opcodes.GLOBAL_LOAD] == counter(launch, _REQUESTS):
        counts.pop(opcodes.ASYNC_LOAD)
    counts[opcodes.FMA] = fma
    counts["fp32_other"] = sum(counter(launch, name) for name in _FP32) / 32
    counts["alu_pipe"] = counter(launch, _ALU)
    # Integer multiply-adds share the FMA pipe with FP32.
    integer = counter(launch, _FMA_PIPE) - fma - first(counts["fp32_other"], 0.0)
    counts["fma_pipe"] = integer if math.isnan(integer) else max(0.0, integer)
    return {name: count for name, count in counts.items() if not math.isnan(count)}
