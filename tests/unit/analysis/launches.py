"""Made-up launches for the tests of the explanation: consistent counters from a few free numbers."""

from __future__ import annotations

from collections.abc import Mapping

from perfkit.model import Counter, Evaluated, Launch, LaunchId, MetricValue

OPCODES = {"FFMA": 600.0, "LDS": 200.0, "IADD3": 150.0, "BAR": 50.0}
STALLS = {"long_scoreboard": 3.0, "mio_throttle": 1.0, "barrier": 0.5, "wait": 0.5}


def launch(
    label: str = "k",
    *,
    duration: float = 1e-3,
    clock: float = 1.5e9,
    smsps: float = 8,
    issue_rate: float = 0.5,
    active: float = 0.9,
    warps: float = 4.0,
    blocks: float = 2,
    block_size: float = 256,
    grid: float = 64,
    replayed: float = 1.0,
    stalls: Mapping[str, float] = STALLS,
    not_selected: float = 2.0,
    opcodes: Mapping[str, float] = OPCODES,
    problem: str = "n=64",
    gpu: str = "GPU A",
    ncu: str = "2025.3.1.0",
    off: float = 1.0,
    number: int = 0,
    **more: float | str,
) -> Evaluated:
    """A launch whose counters follow the identity, times `off`: what the residual must then be.

    Instructions are scaled so that cycles = instructions x replayed / (issue rate x active x SMSPs).
    """
    cycles = duration * clock * off
    issued = cycles * smsps * active * issue_rate
    instructions = issued / replayed
    scale = instructions / sum(opcodes.values())
    metrics: dict[str, float | str] = {
        "duration": duration,
        "sm_clock": clock,
        "instructions": instructions,
        "issue_rate": issue_rate,
        "active_fraction": active,
        "active_warps_per_scheduler": warps,
        "blocks_per_sm": blocks,
        "block_size": block_size,
        "grid_size": grid,
        "stall_not_selected": not_selected,
        "stall_selected": 1.0,
        **{f"stall_{name}": cycles_ for name, cycles_ in stalls.items()},
        **more,
    }
    counters = {
        "smsp__cycles_elapsed.avg": cycles,
        "smsp__cycles_elapsed.sum": cycles * smsps,
        "smsp__cycles_elapsed.avg.per_second": clock,
        "smsp__issue_active.sum": issued,
    }
    held = {name: Counter(name, value, "") for name, value in counters.items()}
    instances = tuple((opcode, count * scale) for opcode, count in opcodes.items())
    held["sass__inst_executed_per_opcode"] = Counter(
        "sass__inst_executed_per_opcode", instructions, "inst", instances=instances
    )
    return Evaluated(
        Launch(
            LaunchId("made-up.ncu-rep", 0, number),
            label,
            label.partition("@")[0],  # held to fewer blocks the function is the same
            gpu,
            (8, 9),
            ncu,
            (int(grid), 1, 1),
            (int(block_size), 1, 1),
            collected=duration > 0,
            key=label,
            problem=problem,
            counters=held,
        ),
        {name: MetricValue(name, value, "") for name, value in metrics.items()},
    )
