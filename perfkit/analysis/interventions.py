"""A kernel as it is against the same kernel held to fewer blocks per SM: predicted and observed, and what
else moved.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from perfkit.analysis.evidence import valid
from perfkit.analysis.facts import counter, facts_of
from perfkit.analysis.identity import identities
from perfkit.analysis.predict import predict, residency
from perfkit.errors import UsageError
from perfkit.model import Evaluated, Intervention

_HELD = re.compile(r"(.+)@(\d+)")
# Metric, what it is called, how far it may move before it is said: absolute for fractions, relative for
# the others.
_WATCHED = (
    ("l1_hit_rate", "L1 hit rate", 0.03),
    ("l2_hit_rate", "L2 hit rate", 0.05),
    ("instructions", "instructions", 0.005),
    ("sm_clock", "SM clock", 0.01),
    ("dram_read_bytes", "bytes read from DRAM", 0.25),
)
_CARVEOUT = "launch__shared_mem_config_size"


def intervention(base: Evaluated, held: Evaluated) -> Intervention:
    """Predict `held` from `base`'s counters and compare with what was measured.

    Raises UsageError when the counters do not allow a prediction, or the L1/shared carve-out of the two
    differs: then the ballast took L1 away, and the effect is not residency's alone.
    """
    one, other = counter(base.launch, _CARVEOUT), counter(held.launch, _CARVEOUT)
    if one != other and not (math.isnan(one) or math.isnan(other)):
        raise UsageError(
            f"{base.launch.label} and {held.launch.label} ran with different L1/shared carve-outs "
            f"({one:,.0f} and {other:,.0f} bytes of shared memory): the effect is not residency's alone",
            "Profile both with --carveout 100.",
        )
    before, after = facts_of(base), facts_of(held)
    for side, facts in ((base, before), (held, after)):
        if "cycles" in facts.invalid:
            raise UsageError(
                f"{side.launch.label} ({side.launch.id}): its elapsed cycles cannot be right, so that no "
                "slowdown can be told by them",
                "`perfkit show` says what contradicts them; profile again with nothing else on the GPU.",
            )
    blocks = held.number("blocks_per_sm")
    if not blocks > 0:
        raise UsageError(
            f"{held.launch.label} ({held.launch.id}): the report does not tell the blocks per SM",
            "Profile it with `perfkit profile`, which collects the occupancy limits.",
        )
    launch = residency(base)
    found = predict(launch, int(blocks))
    observed = after.cycles / before.cycles
    return Intervention(
        label=held.launch.label,
        problem=base.launch.problem,
        blocks_before=launch.blocks,
        blocks_after=int(blocks),
        predicted=found.slowdown,
        simple=found.simple_slowdown,
        observed=observed,
        error=found.slowdown / observed - 1.0,
        issue_rate_predicted=found.issue_rate,
        issue_rate_observed=after.issue_rate,
        moved=_moved(base, held),
        demand=found.demand,
        correction=found.correction,
    )


def _moved(base: Evaluated, held: Evaluated) -> tuple[str, ...]:
    found = []
    for name, title, limit in _WATCHED:
        before, after = base.number(name), held.number(name)
        if math.isnan(before) or math.isnan(after):
            continue
        if not (valid(base, name) and valid(held, name)):
            found.append(f"{title}: cannot be told, its counters cannot be right")
            continue
        fraction = name.endswith("_rate")
        change = after - before if fraction else (after / before - 1.0 if before else math.inf)
        if abs(change) > limit:
            said = f"{before:.0%} -> {after:.0%}" if fraction else f"{change:+.0%}"
            found.append(f"{title} {said}")
    return tuple(found)


def pairs(launches: Sequence[Evaluated]) -> list[tuple[Evaluated, Evaluated]]:
    """Every (kernel, the same held to fewer blocks): labels `k` and `k@B` of one report at the same problem.

    Of one report, because both arms must have been launched alike (clocks, caches, carve-out).
    """
    found = []
    for report in dict.fromkeys(one.launch.id.report for one in launches):
        those = [one for one in launches if one.launch.id.report == report and one.launch.collected]
        known = dict(zip(identities([one.launch for one in those]), those, strict=True))
        for which, held in known.items():
            match = _HELD.fullmatch(which.kernel)
            # One function, grid, device and process, and the same launch of several that are alike.
            base = known.get(replace(which, kernel=match[1])) if match else None
            if base is not None:
                found.append((base, held))
    return found
