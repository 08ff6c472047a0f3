"""What a launch would take with another number of resident blocks per SM, from its own counters alone.

A warp's cycles per issued instruction are split by what they wait for:

- the issue slot: selected, not selected, dispatch stall and math pipe throttle. A dispatch stall blocks
the slot for
  every ready warp, so it lengthens the slot's service: S = 1 + (dispatch + math pipe) / (1 + not selected)
  cycles.
- the memory pipe that the SM's schedulers share (MIO, LG and TEX throttle, short scoreboard): a queueing
station with
  demand D per instruction. D is the one unknown, solved so that the model meets the launch's own issue rate.
- exposed phases of a block (barrier, long scoreboard, memory barrier) where the kernel has barriers: its
warps wait
  for the same data together, e cycles per instruction. Without barriers every warp waits for itself.
- z, all the rest: fixed latencies.

Within a block's compute phase, warps circulate among slots, memory pipe and latencies: a closed queueing
network, solved by exact mean value analysis (M. Reiser, S. S. Lavenberg, "Mean-value analysis of closed
multichain queuing networks", J. ACM 27 (1980) 313-322). Blocks alternate between exposed and compute
phases: the compute phase is a flow-equivalent server whose rate depends on how many blocks are in it (K.
M. Chandy, U. Herzog, L. Woo, "Parametric analysis of queuing networks", IBM J. Res. Dev. 19 (1975) 36-42),
the blocks a birth-death process. The grid is then dealt out in waves. What it cannot know: hit rates that
change with the number of blocks at work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from perfkit.analysis.decomposition import slots_filled
from perfkit.analysis.facts import Facts, facts_of
from perfkit.errors import UsageError
from perfkit.model import Evaluated

SCHEDULERS = 4  # per SM, on every architecture since Volta
_ISSUE = ("dispatch_stall", "math_pipe_throttle")
_PIPE = ("mio_throttle", "lg_throttle", "tex_throttle", "short_scoreboard")
_EXPOSED = ("barrier", "long_scoreboard", "membar")
_STEPS = 40  # halvings of the interval that holds the demand
_NOTHING = 1e-6  # cycles: an exposed phase this short is none


@dataclass(frozen=True, slots=True)
class Residency:
    """What the model needs of a launch. Times in cycles per issued instruction of a warp, rates per
    scheduler.
    """

    issue_rate: float
    blocks: int  # resident per SM, at most
    warps_per_block: int
    grid: int
    sms: int
    issue_service: float  # S
    exposed: float  # e, 0 for a kernel without barriers
    latency: float  # z
    simple_readiness: float  # r of 1 - (1 - r)^W, for comparison

    @property
    def resident(self) -> int:
        """Blocks that an SM really holds at once: a small grid does not fill it."""
        return min(self.blocks, max(1, math.ceil(self.grid / self.sms)))


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted effect of holding a launch to `blocks` per SM."""

    blocks: int
    slowdown: float  # cycles over those of the launch as it is
    issue_rate: float
    simple_slowdown: float  # with 1 - (1 - r)^W instead of the queueing network
    demand: float  # D, cycles of the shared pipe per instruction
    correction: float  # measured over modelled issue rate where D = 0 is still too slow; 1 otherwise


def residency(evaluated: Evaluated) -> Residency:
    """Gather the model's inputs. Raises UsageError naming what the report lacks."""
    facts = facts_of(evaluated)
    numbers = {
        "the issue rate": facts.issue_rate,
        "blocks per SM": evaluated.number("blocks_per_sm"),
        "the block size": evaluated.number("block_size"),
        "the grid size": evaluated.number("grid_size"),
        "the number of SM sub-partitions": facts.smsps,
        "not selected": facts.not_selected,
        "the stall reasons": facts.latency,
    }
    lacking = [name for name, value in numbers.items() if not value >= 0]
    if lacking:
        raise UsageError(
            f"{evaluated.launch.label} ({evaluated.launch.id}): no prediction without {', '.join(lacking)}",
            "Profile it with `perfkit profile`, which collects them.",
        )
    needed = {"issue_rate", "theoretical_warps", "not_selected", "latency", "cycles"}
    needed |= {f"stall_{name}" for name in facts.stalls}
    if doubtful := sorted(facts.invalid & needed):
        raise UsageError(
            f"{evaluated.launch.label} ({evaluated.launch.id}): no prediction from values that cannot be "
            f"right: {', '.join(name.replace('_', ' ') for name in doubtful)}",
            "`perfkit show` says what is wrong with each; profile again with nothing else on the GPU.",
        )
    return Residency(
        issue_rate=facts.issue_rate,
        blocks=int(numbers["blocks per SM"]),
        warps_per_block=math.ceil(numbers["the block size"] / 32),
        grid=int(numbers["the grid size"]),
        sms=round(facts.smsps / SCHEDULERS),
        issue_service=1.0 + _sum(facts, _ISSUE) / (1.0 + facts.not_selected),
        exposed=_sum(facts, _EXPOSED) if facts.stalls.get("barrier", 0.0) > 0 else 0.0,
        latency=_latency(facts),
        simple_readiness=facts.readiness,
    )


def _sum(facts: Facts, names: tuple[str, ...]) -> float:
    return sum(facts.stalls.get(name, 0.0) for name in names)


def _latency(facts: Facts) -> float:
    known = (*_ISSUE, *_PIPE, *(_EXPOSED if facts.stalls.get("barrier", 0.0) > 0 else ()))
    return max(0.0, facts.latency - 1.0 - _sum(facts, known))


def predict(launch: Residency, blocks: int) -> Prediction:
    """The launch with `blocks` blocks per SM instead of its own number.

    Raises UsageError for fewer than 1 block.
    """
    if blocks < 1:
        raise UsageError(f"cannot predict {blocks} blocks per SM", "Ask for 1 or more.")
    demand, correction = calibrate(launch)

    @cache
    def modelled(resident: int) -> float:
        return correction * issue_rate(launch, resident, demand)

    def simple(resident: int) -> float:
        return slots_filled(launch.simple_readiness, resident * launch.warps_per_block / SCHEDULERS)

    return Prediction(
        blocks=blocks,
        slowdown=grid_time(launch, blocks, modelled) / grid_time(launch, launch.blocks, modelled),
        issue_rate=modelled(min(blocks, launch.resident)),
        simple_slowdown=grid_time(launch, blocks, simple) / grid_time(launch, launch.blocks, simple),
        demand=demand,
        correction=correction,
    )


def calibrate(launch: Residency) -> tuple[float, float]:
    """(D, correction): the demand on the shared pipe with which the model meets the measured issue rate."""
    resident = launch.resident
    fastest = issue_rate(launch, resident, 0.0)
    if fastest <= launch.issue_rate:
        return 0.0, launch.issue_rate / fastest
    low, high = 0.0, 1.0
    while issue_rate(launch, resident, high) > launch.issue_rate:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if issue_rate(launch, resident, middle) > launch.issue_rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2, 1.0


def issue_rate(launch: Residency, resident: int, demand: float) -> float:
    """Instructions per cycle and scheduler with `resident` blocks on an SM."""
    width = launch.warps_per_block
    rates = compute_rates(launch, resident * width, demand)
    if launch.exposed < _NOTHING:
        return rates[-1] / SCHEDULERS
    # Blocks between exposed phases (rate 1/e each) and the compute phase (flow-equivalent server), per
    # instruction: the weights of a birth-death process.
    served = [0.0] + [rates[busy * width] / width for busy in range(1, resident + 1)]
    weights = [1.0]
    for busy in range(1, resident + 1):
        weights.append(weights[-1] * (resident - busy + 1) / launch.exposed / served[busy])
    through = sum(weight * rate for weight, rate in zip(weights, served, strict=True)) / sum(weights)
    return width * through / SCHEDULERS


def compute_rates(launch: Residency, warps: int, demand: float) -> list[float]:
    """Instructions per cycle of an SM with 0, 1, ..., `warps` warps in their compute phase: exact MVA."""
    at_slot = at_pipe = 0.0
    rates = [0.0]
    for population in range(1, warps + 1):
        slot = launch.issue_service * (1.0 + at_slot)
        pipe = demand * (1.0 + at_pipe)
        through = population / (launch.latency + slot + pipe)
        at_slot = through * slot / SCHEDULERS
        at_pipe = through * pipe
        rates.append(through)
    return rates


def grid_time(launch: Residency, blocks: int, rate: Callable[[int], float]) -> float:
    """Time of the grid in units of a block's instructions: full waves, then the rest spread over the SMs."""
    full, rest = divmod(launch.grid, launch.sms * blocks)
    time = full * blocks / rate(blocks) if full else 0.0
    if rest:
        last = math.ceil(rest / launch.sms)
        time += last / rate(last)
    return time
