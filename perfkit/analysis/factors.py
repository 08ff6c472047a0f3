"""The exact tree of causes: ln(T_B / T_A) from the counters of two launches.

    T = cycles / clock,   cycles = instructions x (issued / instructions) / (issue rate x active x SMSPs)

with cycles elapsed of an SM sub-partition (SMSP), instructions and issued summed over the launch, issue
rate = issued / cycles active and active = cycles active / cycles elapsed. The product telescopes, so that
only the difference between the duration that ncu measured and cycles / clock is left as the residual.

The issue rate is I = k (1 - (1 - r)^W): each of the W warps active per scheduler is ready with probability
r, and k is what that independence misses. r = 1 / (1 + stalls), the stalls in cycles per issue without "not
selected", which is a ready warp waiting for its turn. See docs/explain.md for the derivation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace

from perfkit.analysis import decomposition as split
from perfkit.analysis import evidence
from perfkit.analysis import opcode_classes as opcodes
from perfkit.analysis.facts import Facts
from perfkit.model import Evaluated, Factor, SelfCheck

# As Nsight Compute calls them; what each waits for is in docs/explain.md.
STALL_TITLES = {
    "barrier": "barrier",
    "branch_resolving": "branch resolving",
    "dispatch_stall": "dispatch stall",
    "drain": "drain",
    "gmma": "warpgroup MMA",
    "imc_miss": "IMC miss",
    "lg_throttle": "LG throttle",
    "long_scoreboard": "long scoreboard",
    "math_pipe_throttle": "math pipe throttle",
    "membar": "memory barrier",
    "mio_throttle": "MIO throttle",
    "misc": "misc",
    "no_instruction": "no instruction",
    "short_scoreboard": "short scoreboard",
    "sleeping": "sleeping",
    "tex_throttle": "TEX throttle",
    "wait": "wait",
}


def factors(
    a: Evaluated, b: Evaluated, before: Facts, after: Facts, work_ratio: float = 1.0
) -> tuple[Factor, ...]:
    """The top factors of ln(T_B / T_A); what they leave of it is the residual.

    With `work_ratio` (B's work over A's) other than 1, a factor "work" carries its logarithm and
    instructions are counted per unit of A's work. Factors whose counters are missing are put together as
    "cycles".
    """
    both = evidence.Pair(a, b, before, after)
    found: list[Factor] = []
    if work_ratio != 1:
        found.append(_leaf("work", "work", 1.0, work_ratio, "", math.log(work_ratio)))
    if not _positive(before.cycles, after.cycles, before.clock, after.clock):
        return tuple(checked(both, factor) for factor in (*found, _time(before, after, work_ratio)))
    if _positive(before.instructions, after.instructions) and _positive(
        before.issued, after.issued, before.issue_rate, after.issue_rate, before.active, after.active
    ):
        found += [
            _instructions(both, work_ratio),
            _replays(before, after),
            _issue_rate(both),
            _active(both),
        ]
        if _positive(before.smsps, after.smsps):
            change = -math.log(after.smsps / before.smsps)
            found.append(_leaf("smsps", "SM sub-partitions", before.smsps, after.smsps, "", change))
    else:
        change = math.log(after.cycles / before.cycles) - math.log(work_ratio)
        note = "not split: the reports lack " + ", ".join(_missing(before, after))
        found.append(_leaf("cycles", "cycles", before.cycles, after.cycles, "cycle", change, note=note))
    change = -math.log(after.clock / before.clock)
    found.append(_leaf("clock", "SM clock", before.clock, after.clock, "Hz", change))
    # The order stays that of the formula; only the ties are taken over.
    tied = {factor.name for factor in ordered(found) if factor.tied}
    return tuple(checked(both, replace(factor, tied=factor.name in tied)) for factor in found)


# Factor -> the facts it is made of (Facts.invalid); one that is not here is made of the fact of its name.
_MADE_OF = {
    "time": ("duration",),
    "smsps": ("cycles",),
    "issued_per_executed": ("issued", "instructions"),
    "correction": ("issue_rate", "warps", "latency"),
    "theoretical_occupancy": ("theoretical_warps",),
    "achieved_occupancy": ("warps", "theoretical_warps"),
}


def checked(both: evidence.Pair, factor: Factor) -> Factor:
    """The factor and all below it, marked where a value that it is made of cannot be."""
    own = factor.name.replace("instructions_", "class_", 1)
    doubtful = both.before.invalid | both.after.invalid
    valid = not doubtful.intersection(_MADE_OF.get(factor.name, (own,)))
    children = tuple(checked(both, child) for child in factor.children)
    return replace(factor, children=children, valid=valid)


def _time(before: Facts, after: Facts, work_ratio: float) -> Factor:
    change = math.log(after.duration / before.duration) - math.log(work_ratio)
    note = "not split: the reports hold neither elapsed cycles nor a clock"
    return _leaf("time", "time", before.duration, after.duration, "s", change, note=note)


def _instructions(both: evidence.Pair, work_ratio: float) -> Factor:
    before, after = both.before, both.after
    scaled = {name: count / work_ratio for name, count in after.classes.items()}
    total = after.instructions / work_ratio
    change = math.log(total / before.instructions)
    children: tuple[Factor, ...] = ()
    if before.classes and scaled:
        shares = split.split_sum(before.classes, scaled)
        children = ordered(
            _leaf(
                f"instructions_{name}",
                opcodes.TITLES[name],
                before.classes.get(name, 0.0),
                scaled.get(name, 0.0),
                "inst",
                share,
            )
            for name, share in shares.items()
        )
        # Opcode counts above the total (a report that mixes passes) would leave a difference: show it, lose
        # nothing.
        rest = change - sum(child.contribution for child in children)
        if abs(rest) > 1e-12:
            children += (_leaf("instructions_unattributed", "not attributed", None, None, "inst", rest),)
    title = "instructions" if work_ratio == 1 else "instructions per unit of work"
    return Factor(
        "instructions",
        title,
        before.instructions,
        total,
        "inst",
        change,
        children,
        both.of("fma_share"),
        note="" if children else "not split: the reports lack sass__inst_executed_per_opcode",
    )


def _replays(before: Facts, after: Facts) -> Factor:
    one, other = before.issued / before.instructions, after.issued / after.instructions
    return _leaf("issued_per_executed", "issued per executed", one, other, "", math.log(other / one))


def _issue_rate(both: evidence.Pair) -> Factor:
    before, after = both.before, both.after
    change = -math.log(after.issue_rate / before.issue_rate)
    children: tuple[Factor, ...] = ()
    note = ""
    if _positive(before.warps, after.warps) and before.stalls and after.stalls:
        children = _warps_and_readiness(both)
    else:
        lacking = "the stall reasons" if not (before.stalls and after.stalls) else "the active warps"
        note = f"not split: the reports lack {lacking}"
    return Factor(
        "issue_rate",
        "issue rate",
        before.issue_rate,
        after.issue_rate,
        "fraction",
        change,
        children,
        both.of("eligible_warps_per_scheduler"),
        note,
    )


def _warps_and_readiness(both: evidence.Pair) -> tuple[Factor, ...]:
    before, after = both.before, both.after
    a = (before.issue_rate, before.warps, before.readiness)
    b = (after.issue_rate, after.warps, after.readiness)
    by_warps, by_ready, by_correction = split.split_issue_rate(a, b)
    k_before, k_after = correction(before), correction(after)
    return (
        Factor(
            "warps",
            "warps active per scheduler",
            before.warps,
            after.warps,
            "warp",
            -by_warps,
            _occupancy(both, -split.elasticity_of_warps(a, b)),
            both.of("registers_per_thread", "shared_bytes_per_block", "block_size", "blocks_per_sm"),
        ),
        Factor(
            "latency",
            "cycles a warp waits per issue",
            before.latency,
            after.latency,
            "cycle",
            -by_ready,
            # r = 1 / latency and T goes with 1 / I: the two signs cancel.
            _stalls(both, split.elasticity_of_readiness(a, b)),
            (),
        ),
        _leaf(
            "correction",
            "correction k",
            k_before,
            k_after,
            "",
            -by_correction,
            note="what 1-(1-r)^W, with independent warps, does not say",
        ),
    )


def correction(facts: Facts) -> float:
    """k = issue rate / (1 - (1 - r)^W); NaN where the launch lacks one of the three."""
    if not _positive(facts.issue_rate, facts.warps, facts.latency):
        return math.nan
    return math.exp(math.log(facts.issue_rate) - split.log_slots_filled(facts.readiness, facts.warps))


def self_checks(before: Facts, after: Facts) -> tuple[SelfCheck, ...]:
    """What can be off although the factors add up: the model of the issue rate, the time against the cycles,
    the warp states against the warps. A side that lacks the counters has None.
    """
    return (
        _self_check(
            "correction",
            "correction k: issue rate / (1-(1-r)^W)",
            [correction(side) for side in (before, after)],
            -1.0,
            "what independent warps do not explain, and no cause by itself",
            _sound(before, after, "issue_rate", "warps", "latency"),
        ),
        _self_check(
            "time",
            "duration x clock / cycles",
            [
                side.duration * side.clock / side.cycles if side.cycles > 0 else math.nan
                for side in (before, after)
            ],
            1.0,
            "the residual: all that the factors can leave, since they telescope to cycles / clock",
            _sound(before, after, "duration", "clock", "cycles"),
        ),
        _self_check(
            "warp_states",
            "warp states / (warps / issue rate)",
            [
                (side.latency + side.not_selected) * side.issue_rate / side.warps
                if side.warps > 0
                else math.nan
                for side in (before, after)
            ],
            None,
            "whether the passes that counted the stalls and the warps ran alike",
            _sound(before, after, "latency", "not_selected", "issue_rate", "warps"),
        ),
    )


def _sound(before: Facts, after: Facts, *names: str) -> bool:
    """Whether none of these facts of either side is invalid."""
    return not (before.invalid | after.invalid).intersection(names)


def _self_check(
    name: str, title: str, values: list[float], sign: float | None, note: str, valid: bool
) -> SelfCheck:
    one, other = (value if value > 0 and math.isfinite(value) else None for value in values)
    known = one is not None and other is not None and sign is not None
    contribution = sign * math.log(other / one) if known and one and other and sign else None
    return SelfCheck(name, title, one, other, contribution, note, valid)


def _occupancy(both: evidence.Pair, slope: float) -> tuple[Factor, ...]:
    before, after = both.before, both.after
    if not _positive(before.theoretical_warps, after.theoretical_warps):
        return ()
    theory = math.log(after.theoretical_warps / before.theoretical_warps)
    achieved = math.log(after.warps / before.warps) - theory
    return (
        Factor(
            "theoretical_occupancy",
            "theoretical warps per scheduler",
            before.theoretical_warps,
            after.theoretical_warps,
            "warp",
            slope * theory,
            (),
            both.of("occupancy_limiter", "blocks_per_sm", "registers_per_thread", "shared_bytes_per_block"),
        ),
        Factor(
            "achieved_occupancy",
            "achieved of theoretical",
            before.warps / before.theoretical_warps,
            after.warps / after.theoretical_warps,
            "fraction",
            slope * achieved,
            (),
            both.of("waves_per_sm", "grid_size"),
        ),
    )


def _stalls(both: evidence.Pair, slope: float) -> tuple[Factor, ...]:
    before = {"selected": 1.0, **both.before.stalls}
    after = {"selected": 1.0, **both.after.stalls}
    shares = split.split_sum(before, after)
    return ordered(
        Factor(
            f"stall_{name}",
            STALL_TITLES.get(name, name.replace("_", " ")),
            before.get(name, 0.0),
            after.get(name, 0.0),
            "cycle",
            slope * share,
            (),
            both.for_stall(name),
        )
        for name, share in shares.items()
        if name != "selected"
    )


def _active(both: evidence.Pair) -> Factor:
    before, after = both.before.active, both.after.active
    return Factor(
        "active",
        "active fraction",
        before,
        after,
        "fraction",
        -math.log(after / before),
        (),
        both.of("waves_per_sm", "grid_size", "blocks_per_sm"),
        note="cycles in which an SM holds work; the rest is launch, imbalance and tail",
    )


def ordered(found: Iterable[Factor]) -> tuple[Factor, ...]:
    """Largest first; neighbours that differ by less than a tenth of the larger are marked as tied.

    What is under a twentieth of the largest is no cause worth ranking, and never tied.
    """
    ranked = sorted(found, key=lambda factor: -abs(factor.contribution))
    least = abs(ranked[0].contribution) / 20 if ranked else 0.0
    tied = set()
    for i, (one, other) in enumerate(itertools.pairwise(ranked)):
        larger, smaller = one.contribution, other.contribution
        if larger * smaller > 0 and abs(smaller) > max(0.9 * abs(larger), least):
            tied |= {i, i + 1}
    return tuple(replace(factor, tied=True) if i in tied else factor for i, factor in enumerate(ranked))


def _leaf(
    name: str,
    title: str,
    before: float | None,
    after: float | None,
    unit: str,
    contribution: float,
    *,
    note: str = "",
) -> Factor:
    return Factor(name, title, before, after, unit, contribution, note=note)


def _positive(*values: float) -> bool:
    return all(value > 0 for value in values)


def _missing(before: Facts, after: Facts) -> list[str]:
    needed = {
        "the instruction count": (before.instructions, after.instructions),
        "the issue rate": (before.issue_rate, after.issue_rate),
        "the active cycles": (before.active, after.active),
    }
    return [name for name, values in needed.items() if not _positive(*values)]
