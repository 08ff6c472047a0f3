"""What a person would say to a colleague, built from the tree: two or three plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfkit.model import Comparison, Evidence, Factor, PeakLoss, VerdictKind
from perfkit.units import format_value

# A factor is worth a sentence when it is this much of the largest one, ...
_WORTH = 0.2
# ... and a cause within a factor when it is this much of it.
_WORTH_CHILD = 0.25
_SMALL = 0.005  # ln: below this nothing moved (the floor of the verdict)

_FIXED = ("registers_per_thread", "shared_bytes_per_block", "block_size", "blocks_per_sm", "grid_size")


def of_comparison(result: Comparison) -> tuple[str, ...]:
    """Verdict, the chain of the causes that made the change, and what works against them."""
    said = [_opening(result)]
    # More work is no cause to look for: what is told is the time for the same work.
    sign = 1.0 if result.log_ratio >= math.log(result.work_ratio) else -1.0
    ranked = sorted(
        (factor for factor in result.factors if factor.name != "work"),
        key=lambda factor: -abs(factor.contribution),
    )
    if not ranked or abs(ranked[0].contribution) < _SMALL:
        unexplained = abs(result.residual) >= _SMALL
        rest = f": what moved is the residual, {result.residual:+.3f}" if unexplained else ""
        return (*said, f"No factor moved the time by more than {_SMALL:.1%}{rest}.")
    least = max(_SMALL, _WORTH * abs(ranked[0].contribution))
    causes = [f for f in ranked if f.contribution * sign > 0 and abs(f.contribution) >= least]
    against = [f for f in ranked if f.contribution * sign < 0 and abs(f.contribution) >= least]
    if causes:
        said.append(_sentence(_phrases(causes, sign)))
    if against:
        said.append(_sentence(_phrases(against, -sign), start="Against that, " if causes else ""))
    if abs(result.residual) > 0.005:
        said.append(
            f"The counters leave {_ratio(result.residual)} unexplained: "
            "ncu measured them in several passes, and the passes did not run alike."
        )
    return tuple(said)


def _opening(result: Comparison) -> str:
    a, b = result.a, result.b
    kind = result.verdict.kind
    ratio = math.exp(result.log_ratio) / result.work_ratio
    times = f"{format_value(a.duration, 's')} to {format_value(b.duration, 's')}"
    per_work = ""
    if result.work_ratio != 1:
        per_work = " per unit of work"
        times += f" for {result.work_ratio:.3g} times the work"
    if kind is VerdictKind.SAME:
        return f"{b.label} and {a.label} take the same time{per_work} ({times})."
    if kind is VerdictKind.AMBIGUOUS:
        return f"Whether {b.label} differs from {a.label}{per_work} is not certain ({times}, x{ratio:.3f})."
    if ratio >= 1:
        return f"{b.label} takes {ratio:.2f} times as long as {a.label}{per_work} ({times})."
    return f"{b.label} is {1 / ratio:.2f} times as fast as {a.label}{per_work} ({times})."


def _phrases(found: Sequence[Factor], sign: float) -> list[str]:
    said = [_phrase(factor, sign) for factor in found]
    if len(found) > 1 and found[0].tied and found[1].tied:
        said[1] += ", as much as that"
    return said


def _sentence(phrases: Sequence[str], start: str = "") -> str:
    text = start + "; ".join(phrases) + "."
    return text[0].upper() + text[1:]


def _phrase(factor: Factor, sign: float) -> str:
    maker = {
        "issue_rate": _issue_rate,
        "instructions": _instructions,
        "active": _active,
    }.get(factor.name, _plain)
    doubt = "" if factor.all_valid else ", by counters that cannot be right"
    return f"{maker(factor, sign)} ({_ratio(factor.contribution)} on the time{doubt})"


def _plain(factor: Factor, sign: float) -> str:
    del sign
    return f"{factor.title} {_change(factor)}"


def _instructions(factor: Factor, sign: float) -> str:
    more = math.exp(factor.contribution)
    said = f"{factor.title} {times(more)}"
    moved = _leading(factor, sign)
    if moved:
        said += ", above all " + _join([f"{child.title} {_change(child)}" for child in moved])
    return said


def _active(factor: Factor, sign: float) -> str:
    del sign
    said = f"the SMs hold work in {_share(factor.after)} of the cycles instead of {_share(factor.before)}"
    waves = _evidence(factor, "waves_per_sm")
    return said + (f" (waves {_values(waves)})" if waves is not None else "")


def _issue_rate(factor: Factor, sign: float) -> str:
    chains = []
    for child in _leading(factor, sign):
        if child.name == "warps":
            chains.append(_warps_chain(child))
        elif child.name == "latency":
            chains.append(_latency_chain(child, sign))
        elif not chains:
            chains.append(f"{child.title} {_change(child)}")
    moved = f"issue rate {_change(factor)}"
    return ("; ".join(chains) + ", so " + moved) if chains else moved


def _warps_chain(warps: Factor) -> str:
    """registers 120 -> 130, so blocks per SM 2 -> 1, so warps per scheduler 3.9 -> 2.0, as far as each
    link moved.
    """
    links = []
    theory = next((child for child in warps.children if child.name == "theoretical_occupancy"), None)
    if theory is not None and abs(theory.contribution) > _WORTH_CHILD * abs(warps.contribution):
        limiter = _evidence(theory, "occupancy_limiter")
        limits = f"{limiter.before} {limiter.after}" if limiter is not None else "registers shared"
        causes = [
            held
            for word, name in (("registers", "registers_per_thread"), ("shared", "shared_bytes_per_block"))
            if word in limits
            for held in [_evidence(theory, name)]
        ]
        causes.append(_evidence(warps, "block_size"))
        changed = [held for held in causes if held is not None and held.before != held.after]
        if changed:
            links.append(_join([f"{held.title} {_values(held)}" for held in changed]))
        blocks = _evidence(theory, "blocks_per_sm")
        if blocks is not None and blocks.before != blocks.after:
            links.append(f"blocks per SM {_values(blocks)}")
        elif blocks is not None and causes[-1] in changed:
            links[-1] += f" at {_one(blocks.after, blocks.unit)} blocks per SM"
    achieved = next((child for child in warps.children if child.name == "achieved_occupancy"), None)
    if achieved is not None and abs(achieved.contribution) > _WORTH_CHILD * abs(warps.contribution):
        links.append(
            f"achieved of theoretical occupancy {_share(achieved.before)} -> {_share(achieved.after)}"
        )
    links.append(f"warps per scheduler {_change(warps)}")
    return ", so ".join(links)


def _latency_chain(latency: Factor, sign: float) -> str:
    reasons = _leading(latency, sign)
    if not reasons:
        return f"{latency.title} {_change(latency)}"
    said: list[str] = []
    proven: set[str] = set()  # what speaks for two reasons is said of the first
    for reason in reasons:
        name = reason.title.split(" (")[0]
        proof = [item for item in reason.evidence if has_moved(item) and _agrees(item, reason)][:2]
        proof = [item for item in proof if item.name not in proven]
        proven |= {item.name for item in proof}
        because = f" ({_join([f'{item.title} {_values(item)}' for item in proof])})" if proof else ""
        said.append(f"{name} {_change(reason)} cycles per issue{because}")
    tie = ", a tie," if len(reasons) > 1 and all(reason.tied for reason in reasons) else ""
    return f"{_join(said)}{tie}"


def _leading(factor: Factor, sign: float) -> list[Factor]:
    """The children that made the change: in its direction and at least a quarter of the largest of them."""
    same = [child for child in factor.children if child.contribution * sign > 0]
    ranked = sorted(same, key=lambda child: -abs(child.contribution))
    if not ranked:
        return []
    least = max(_WORTH_CHILD * abs(ranked[0].contribution), _SMALL / 2)
    return [child for child in ranked if abs(child.contribution) >= least][:3]


def _evidence(factor: Factor, name: str) -> Evidence | None:
    return next(
        (i for i in factor.evidence if i.name == name and i.before is not None and i.after is not None), None
    )


def has_moved(item: Evidence) -> bool:
    """Whether a counter is another by more than 5 %; a word, or what build and launch fix, by anything."""
    if item.before is None or item.after is None:
        return False
    if not isinstance(item.before, (int, float)) or not isinstance(item.after, (int, float)):
        return item.before != item.after
    if item.name in _FIXED:
        return item.before != item.after
    scale = max(abs(item.before), abs(item.after))
    return scale > 0 and abs(item.after - item.before) > 0.05 * scale


def _agrees(item: Evidence, reason: Factor) -> bool:
    """Whether a counter moved the way that makes this change: fewer hits, or more of all else, stall more."""
    if not isinstance(item.before, (int, float)) or not isinstance(item.after, (int, float)):
        return True
    more = item.after > item.before
    return (more != item.name.endswith("hit_rate")) == (reason.contribution > 0)


def _values(item: Evidence) -> str:
    doubt = "" if item.valid else ", which cannot be right"
    return f"{_one(item.before, item.unit)} -> {_one(item.after, item.unit)}{doubt}"


def _one(value: float | str | None, unit: str) -> str:
    if isinstance(value, (int, float)):
        return _spoken(value, unit)
    return str(value)


def _spoken(value: float, unit: str) -> str:
    """As people say it: 268 million, where a table has 268,453,461."""
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if unit not in ("fraction", "s", "Hz", "byte") and abs(value) >= size:
            return f"{value / size:.3g} {word}"
    return number(value, unit)


def number(value: float, unit: str) -> str:
    """A value for people: units that are only words (inst, warp, cycle) are left to the title."""
    if math.isnan(value):
        return "?"
    if unit == "byte" and abs(value) >= 1:
        value = float(f"{value:.3g}")  # three digits tell 8.19 kB from 8.3 kB
    if unit in ("fraction", "s", "Hz", "byte"):
        return format_value(value, unit)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"


def _change(factor: Factor) -> str:
    before, after = factor.before, factor.after
    if before is None or after is None:
        return ""
    if factor.name == "issue_rate":
        return f"{before:.2f} -> {after:.2f}"
    return f"{_spoken(before, factor.unit)} -> {_spoken(after, factor.unit)}"


def _share(value: float | None) -> str:
    return "?" if value is None else f"{value:.0%}"


def _ratio(contribution: float) -> str:
    return times(math.exp(contribution))


def times(ratio: float) -> str:
    """A factor for people: x1.31, and x0.0024 where two decimals would say nothing."""
    return f"x{ratio:.2f}" if ratio >= 0.1 else f"x{ratio:.2g}"


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _doubt(factor: Factor) -> str:
    return "" if factor.valid else " (by counters that cannot be right)"


def of_loss(loss: PeakLoss) -> tuple[str, ...]:
    """The share, the largest loss with its leading causes, and the second where it matters."""
    said = [f"{loss.a.label} reaches {loss.share:.1%} of FP32 peak."]
    ranked = [factor for factor in loss.losses if factor.contribution > 0]
    for factor in ranked[:2]:
        if factor.contribution < 0.02:
            continue
        causes = [child for child in _leading(factor, 1.0) if child.contribution >= 0.005]
        detail = (
            _join([f"{one.title} {one.contribution:.1%}{_doubt(one)}" for one in causes]) if causes else ""
        )
        tie = " (a tie)" if len(causes) > 1 and causes[0].tied and causes[1].tied else ""
        said.append(
            _sentence(
                [
                    f"{factor.contribution:.1%} of peak goes to {factor.title}{_doubt(factor)}"
                    + (f": {detail}{tie}" if detail else "")
                ]
            )
        )
    if loss.fma_slots >= 1.02:
        said.append(
            f"An FMA fills its pipe for {loss.fma_slots:.3g} slots here, so {1 / loss.fma_slots:.0%} of the "
            "slots would reach peak: what the slots lose is counted against those."
        )
    return tuple(said)
