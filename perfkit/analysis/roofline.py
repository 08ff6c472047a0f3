"""The roofline of a set of launches: FP32 against DRAM, L2 and L1/shared bytes, and the instruction roofline.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model" (CACM 2009); Ding, Williams,
"An instruction roofline model for GPUs" (PMBS 2019): warp instructions per 32-byte transaction.

Peaks are those of the clock that ran while the counters were taken. Each ceiling says where it comes from:
"counters" (ncu's peak_sustained and clocks), "device attributes" (memory clock and bus width as the driver
reports them), "architecture" (width per SM from NVIDIA's documents x SMs x clock), or "measured" on this GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from perfkit.analysis import flops
from perfkit.analysis.compare import tensor_instructions
from perfkit.analysis.facts import SM_COUNTS, counter, first
from perfkit.analysis.opcode_counts import PER_OPCODE
from perfkit.analysis.peak_model import fp32_lanes_per_sm
from perfkit.errors import UsageError
from perfkit.model import Evaluated, Launch, Status
from perfkit.model.measurements import Measurements
from perfkit.model.traced import LEVEL_NAMES, Ceiling, Roofline, RooflinePoint

LEVELS = ("dram", "l2", "l1")
SECTOR = 32  # bytes, a transaction of L1 and L2
_L1_BYTES_PER_CYCLE = 128  # per SM: 32 banks of 4 bytes (CUDA programming guide, shared memory)
_SCHEDULERS = 4  # SM sub-partitions, each issuing one warp instruction a cycle, since Volta

_FFMA_PEAK = (
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
)
_SM_CLOCK = ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second")
_BUS = ("device__attribute_memory_clock_rate", "device__attribute_global_memory_bus_width")
_BYTES = {"dram": ("dram_read_bytes", "dram_write_bytes"), "l2": ("l2_read_bytes", "l2_write_bytes")}
_WAVEFRONTS = ("l1tex__data_pipe_lsu_wavefronts.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")

# What the ceilings and points need beside the metrics of the fixed sets. Only constants, clocks and counters
# that the sets collect anyway: they cost no replay pass.
COUNTERS = (
    *flops.COUNTERS,
    *_FFMA_PEAK,
    *_SM_CLOCK,
    *SM_COUNTS,
    *_WAVEFRONTS,
    PER_OPCODE,
    "sm__inst_executed_pipe_tensor.sum",
    "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",
    *_BUS,
    "dram__bytes.sum.peak_sustained",
    "dram__cycles_elapsed.avg.per_second",
    "lts__t_sectors.sum.peak_sustained",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors.sum.per_second",
    "lts__t_sectors.sum",
    "lts__cycles_elapsed.avg.per_second",
    "l1tex__t_sectors.sum",
)


@dataclass(frozen=True, slots=True)
class Options:
    """`levels` of memory; `instructions`: the instruction roofline; `measured` ceilings win over others."""

    levels: tuple[str, ...] = ("dram",)
    instructions: bool = False
    measured: tuple[Ceiling, ...] = ()


def roofline(measurements: Measurements, problem: str, options: Options | None = None) -> Roofline:
    """The roofline of every kernel measured at `problem`.

    Raises UsageError when not one kernel can be drawn; the message says which counter is missing where.
    """
    options = options or Options()
    launches = {
        kernel: measurements.launches[kernel, problem]
        for kernel in measurements.kernels
        if (kernel, problem) in measurements.launches
    }
    missing: list[str] = []
    if options.instructions:
        points = _instruction_points(launches, problem, options.levels, missing)
        ceilings = _instruction_ceilings(launches.values(), options)
    else:
        points = _flop_points(measurements, launches, problem, options.levels, missing)
        ceilings = _flop_ceilings(launches.values(), options, missing)
    if not points:
        why = "; ".join(missing[:3]) or "no launch of that size"
        why += f"; and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UsageError(
            f"nothing to draw: {why}",
            "Profile with the sets `memory` and `issue`, or ncu --set full. --instructions needs less.",
        )
    where = ", ".join(part for part in (measurements.gpu, problem) if part)
    kind = "Instruction roofline" if options.instructions else "FP32 roofline"
    return Roofline(
        title=f"{kind} ({where})" if where else kind,
        ceilings=tuple(ceilings),
        points=tuple(points),
        intensity_unit="inst/transaction" if options.instructions else "FLOP/byte",
        rate_unit="inst/s" if options.instructions else "FLOP/s",
        missing=tuple(missing),
        notes=tuple(f"{ceiling.name}: {ceiling.origin}." for ceiling in ceilings),
    )


def _flop_points(
    measurements: Measurements,
    launches: dict[str, Evaluated],
    problem: str,
    levels: Sequence[str],
    missing: list[str],
) -> list[RooflinePoint]:
    points = []
    for kernel, item in launches.items():
        # Counted, not modelled: what the launch did in the time that the counters saw.
        work = measurements.number("counted_flops", kernel, problem)
        duration = item.number("duration")
        tensor = tensor_instructions(item)
        if tensor > 0:
            missing.append(f"{kernel}: tensor-core work ({tensor:,.0f} warp instructions) has no place here")
            continue
        if not work > 0 or not duration > 0:
            missing.append(f"{kernel}: {_why_no_flops(work, duration)}")
            continue
        traced = measurements.values["counted_flops", kernel, problem]
        doubt = _doubt(item, "duration") or (traced.reason if traced.status is Status.INVALID else "")
        if doubt:
            missing.append(f"{kernel}: not drawn, its rate cannot be right: {doubt}")
            continue
        for level in levels:
            moved = _bytes(item, level)
            if doubt := _doubt(item, *_BYTES.get(level, ())):
                missing.append(f"{kernel}: {LEVEL_NAMES[level]} not drawn: {doubt}")
            elif moved > 0:
                points.append(RooflinePoint(kernel, problem, level, work / moved, work / duration))
            else:
                missing.append(f"{kernel}: no {LEVEL_NAMES[level]} bytes were counted")
    return points


def _why_no_flops(work: float, duration: float) -> str:
    if work == 0:
        return "no FP32 FMA, add or multiply was executed: tensor-core, FP64 and half work has no place here"
    if duration != duration:
        return "the launch was not collected"
    return "FP32 FMAs, adds and multiplies were not collected (set `issue`, or ncu --set full)"


def _doubt(item: Evaluated, *names: str) -> str:
    """Which of these metrics is invalid and why, "" where none is. Nothing is drawn by such a number."""
    held = (item.metrics[name] for name in names if name in item.metrics)
    return next((f"{one.name} is invalid: {one.reason}" for one in held if one.status is Status.INVALID), "")


def _bytes(item: Evaluated, level: str) -> float:
    """Bytes moved at a level; NaN where they were not counted."""
    if level in _BYTES:
        return sum(item.number(name) for name in _BYTES[level])
    # A wavefront moves up to 128 bytes through the L1's data stage, be it cache or shared memory.
    return _L1_BYTES_PER_CYCLE * first(*(counter(item.launch, name) for name in _WAVEFRONTS))


def _flop_ceilings(launches: Iterable[Evaluated], options: Options, missing: list[str]) -> list[Ceiling]:
    items = list(launches)
    measured = {(ceiling.kind, _level(ceiling.name)): ceiling for ceiling in options.measured}
    found: list[Ceiling] = []
    peak = measured.get(("compute", "")) or _compute_peak(items)
    if peak is not None:
        found.append(peak)
    else:
        missing.append("FP32 peak: neither peak_sustained nor SM count and clock are in the report")
    for level in options.levels:
        ceiling = measured.get(("memory", level)) or _bandwidth(items, level)
        if ceiling is not None:
            found.append(ceiling)
        else:
            missing.append(
                f"{LEVEL_NAMES[level]} bandwidth: the report does not hold what it is computed from"
            )
    return found


def _level(name: str) -> str:
    return next((level for level in LEVELS if name.casefold().startswith(level)), "")


def _clock(items: Sequence[Evaluated]) -> float:
    """Median SM clock of the launches, Hz: what they ran at, not the attribute of the device."""
    clocks = [
        first(*(counter(item.launch, name) for name in _SM_CLOCK), item.number("sm_clock")) for item in items
    ]
    return median([clock for clock in clocks if clock > 0] or [float("nan")])


def _compute_peak(items: Sequence[Evaluated]) -> Ceiling | None:
    clock = _clock(items)
    for item in items:
        per_cycle = first(*(counter(item.launch, name) for name in _FFMA_PEAK))
        if per_cycle * clock > 0:
            origin = f"counters: {per_cycle:g} FMA/cycle x 2 x {clock / 1e6:.0f} MHz"
            used = (*_FFMA_PEAK, *_SM_CLOCK)
            return Ceiling("FP32", "compute", 2 * per_cycle * clock, "FLOP/s", origin, used)
    for item in items:
        lanes = fp32_lanes_per_sm(item.launch.compute_capability)
        sms = _sm_count(item.launch)
        if lanes is not None and sms * clock > 0:
            origin = f"architecture: {sms:g} SMs x {lanes} lanes x 2 x {clock / 1e6:.0f} MHz"
            used = (*SM_COUNTS, *_SM_CLOCK)
            return Ceiling("FP32", "compute", 2 * sms * lanes * clock, "FLOP/s", origin, used)
    return None


def _sm_count(launch: Launch) -> float:
    return first(*(counter(launch, name) for name in SM_COUNTS))


def _bandwidth(items: Sequence[Evaluated], level: str) -> Ceiling | None:
    finders = {"dram": lambda item, _: dram_bandwidth(item.launch), "l2": _l2_bandwidth, "l1": _l1_bandwidth}
    return next((ceiling for item in items if (ceiling := finders[level](item, items)) is not None), None)


def dram_bandwidth(launch: Launch) -> Ceiling | None:
    """Peak bandwidth of device memory, where the report tells: by ncu's peaks, else the device attributes."""
    used = ("dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second")
    per_cycle, clock = (counter(launch, name) for name in used)
    if per_cycle * clock > 0:
        origin = f"counters: {per_cycle:g} byte a cycle x {clock / 1e6:.0f} MHz"
        return Ceiling("DRAM", "memory", per_cycle * clock, "byte/s", origin, used)
    kilohertz, width = (counter(launch, name) for name in _BUS)
    rate = 1e3 * kilohertz
    if rate * width > 0:
        # Two transfers a clock: the attribute is half the data rate for every memory NVIDIA has shipped.
        origin = f"device attributes: {width:g} bit x 2 x {rate / 1e6:.0f} MHz"
        return Ceiling("DRAM", "memory", 2 * rate * width / 8, "byte/s", origin, _BUS)
    return None


def _l2_bandwidth(item: Evaluated, _items: Sequence[Evaluated]) -> Ceiling | None:
    """Bytes that the slices of L2 can look up a second.

    The points are of what moved between L2 and L1: that can be more where one look-up serves two SMs (9.0).
    """
    launch = item.launch
    used = ("lts__t_sectors.sum.peak_sustained", "lts__cycles_elapsed.avg.per_second")
    per_cycle, clock = (counter(launch, name) for name in used)
    if per_cycle * clock > 0:
        origin = f"counters: {per_cycle:g} sectors a cycle x {clock / 1e6:.0f} MHz"
        return Ceiling("L2", "memory", SECTOR * per_cycle * clock, "byte/s", origin, used)
    rate = first(
        counter(launch, "lts__t_sectors.sum.per_second"),
        counter(launch, "lts__t_sectors.sum") / item.number("duration"),
    )
    share_name = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
    share = counter(launch, share_name) / 100
    # A share near 0 has too few digits to divide by.
    if rate > 0 and share > 0.01:
        origin = "counters: sectors a second over their share of peak"
        of_share = (
            "lts__t_sectors.sum.per_second",
            "lts__t_sectors.sum",
            "gpu__time_duration.sum",
            share_name,
        )
        return Ceiling("L2", "memory", SECTOR * rate / share, "byte/s", origin, of_share)
    return None


def _l1_bandwidth(item: Evaluated, items: Sequence[Evaluated]) -> Ceiling | None:
    clock, sms = _clock(items), _sm_count(item.launch)
    if clock * sms > 0:
        origin = f"architecture: {sms:g} SMs x {_L1_BYTES_PER_CYCLE} byte x {clock / 1e6:.0f} MHz"
        used = (*SM_COUNTS, *_SM_CLOCK)
        return Ceiling("L1/shared", "memory", _L1_BYTES_PER_CYCLE * sms * clock, "byte/s", origin, used)
    return None


def _instruction_points(
    launches: dict[str, Evaluated], problem: str, levels: Sequence[str], missing: list[str]
) -> list[RooflinePoint]:
    points = []
    for kernel, item in launches.items():
        count, duration = item.number("instructions"), item.number("duration")
        if not count > 0 or not duration > 0:
            missing.append(f"{kernel}: executed instructions or the duration were not collected")
            continue
        if doubt := _doubt(item, "instructions", "duration"):
            missing.append(f"{kernel}: not drawn, its rate cannot be right: {doubt}")
            continue
        for level in levels:
            transactions = _bytes(item, level) / SECTOR
            if doubt := _doubt(item, *_BYTES.get(level, ())):
                missing.append(f"{kernel}: {LEVEL_NAMES[level]} not drawn: {doubt}")
            elif transactions > 0:
                points.append(RooflinePoint(kernel, problem, level, count / transactions, count / duration))
            else:
                missing.append(f"{kernel}: no {LEVEL_NAMES[level]} bytes were counted")
    return points


def _instruction_ceilings(launches: Iterable[Evaluated], options: Options) -> list[Ceiling]:
    items = list(launches)
    clock = _clock(items)
    sms = next((count for item in items if (count := _sm_count(item.launch)) > 0), float("nan"))
    found = []
    if sms * clock > 0:
        origin = f"architecture: {sms:g} SMs x {_SCHEDULERS} schedulers x {clock / 1e6:.0f} MHz"
        used = (*SM_COUNTS, *_SM_CLOCK)
        found.append(Ceiling("Issue", "compute", sms * _SCHEDULERS * clock, "inst/s", origin, used))
    measured = {_level(ceiling.name): ceiling for ceiling in options.measured if ceiling.kind == "memory"}
    for level in options.levels:
        ceiling = measured.get(level) or _bandwidth(items, level)
        if ceiling is not None:
            found.append(replace(ceiling, value=ceiling.value / SECTOR, unit="transaction/s"))
    return found
