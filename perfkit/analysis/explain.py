"""Why is B slower than A, and where did A's share of peak go? Puts verdict, factors and sentences
together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perfkit.analysis import compare, decomposition, evidence, factors, peak_model, sentences
from perfkit.analysis import opcode_classes as opcodes
from perfkit.analysis.facts import Facts, facts_of, facts_of_pair
from perfkit.analysis.predict import SCHEDULERS
from perfkit.errors import UsageError
from perfkit.model import (
    Comparison,
    Evaluated,
    Factor,
    PeakLoss,
    Side,
    Status,
    Verdict,
    VerdictKind,
    WallClock,
    Waterfall,
    WaterfallStep,
)

_LONG = 72  # characters of a name that a title and a sentence may hold
_SHORT = 40  # characters of a name that still make a column's title


def explain(
    a: Sequence[Evaluated],
    b: Sequence[Evaluated],
    *,
    origin_a: compare.Origin | None = None,
    origin_b: compare.Origin | None = None,
    wall_clock: WallClock | None = None,
) -> Comparison:
    """Explain T_B / T_A from one or more launches a side; repeated launches make the verdict surer.

    The factors are those of each side's median launch. Raises NotComparableError (compare.check_comparable).
    """
    for one in a:
        for other in b[:1]:
            compare.check_comparable(one, other, origin_a, origin_b)
    for other in b:
        compare.check_comparable(a[0], other, origin_a, origin_b)
    one, other = compare.median_launch(a), compare.median_launch(b)
    warnings, work_ratio = compare.check_comparable(one, other, origin_a, origin_b)
    before, after = facts_of_pair(one, other)
    log_ratio = math.log(after.duration / before.duration)
    verdict = compare.judge(
        [side.number("duration") * work_ratio for side in a],
        [side.number("duration") for side in b],
        before.cycles * work_ratio,
        after.cycles,
    )
    if wall_clock is not None and work_ratio == 1:
        verdict = compare.with_timings(verdict, log_ratio, wall_clock)
    if doubt := compare.undecided((*a, *b)):
        verdict = Verdict(VerdictKind.AMBIGUOUS, f"{doubt}; {verdict.reason}")
    found = factors.factors(one, other, before, after, work_ratio)
    side_a, side_b = _apart(_side(one, len(a)), _side(other, len(b)), origin_a, origin_b)
    result = Comparison(
        a=side_a,
        b=side_b,
        verdict=verdict,
        log_ratio=log_ratio,
        factors=found,
        residual=log_ratio - sum(factor.contribution for factor in found),
        sentences=(),
        warnings=warnings,
        work_ratio=work_ratio,
        wall_clock=wall_clock,
        checks=factors.self_checks(before, after),
    )
    return replace(result, sentences=sentences.of_comparison(result))


def _side(evaluated: Evaluated, repeats: int) -> Side:
    launch = evaluated.launch
    return Side(
        label=launch.label,
        launch=launch.id,
        kernel=launch.kernel,
        problem=launch.problem,
        gpu=launch.gpu,
        ncu_version=launch.ncu_version,
        duration=evaluated.number("duration"),
        repeats=repeats,
    )


def _shorten(name: str, limit: int = _SHORT) -> str:
    """A library's function name for people, mostly its start: types and tile (`Side.kernel` is whole)."""
    return name if len(name) <= limit else f"{name[: limit - 12]}…{name[-11:]}"


def _shortened(a: Side, b: Side) -> tuple[Side, Side]:
    """Both sides with names for people; those that differ only in the middle show where they do."""
    one, other = _shorten(a.label), _shorten(b.label)
    if one == other and a.label != b.label:
        pairs = enumerate(zip(a.label, b.label, strict=False))
        start = max(0, next((i for i, (x, y) in pairs if x != y), 0) - 8)
        one, other = (f"{name[:12]}…{name[start : start + _SHORT - 14]}…" for name in (a.label, b.label))
    return replace(a, label=one), replace(b, label=other)


def _apart(
    a: Side, b: Side, origin_a: compare.Origin | None, origin_b: compare.Origin | None
) -> tuple[Side, Side]:
    """Sides that bear one name (a kernel of two runs, or a repeated one) under names that differ."""
    a, b = _shortened(a, b)
    called = [origin.called if origin is not None else "" for origin in (origin_a, origin_b)]
    choices = [(a.label, b.label), (f"{a.label} {a.problem}".strip(), f"{b.label} {b.problem}".strip())]
    if max(map(len, called)) <= _SHORT:
        choices.append((called[0], called[1]))
    if a.launch.report == b.launch.report:
        choices.append((f"{a.label} #{a.launch.launch}", f"{b.label} #{b.launch.launch}"))
    files = [Path(side.launch.report) for side in (a, b)]
    for parts in (1, 2, 100):  # as much of the path as tells them apart
        names = ["/".join(file.parts[-parts:]) for file in files]
        choices.append((f"{a.label} of {names[0]}", f"{b.label} of {names[1]}"))
    for one, other in choices:
        if one and other and one != other:
            return replace(a, label=one), replace(b, label=other)
    return a, b


def explain_alone(a: Sequence[Evaluated]) -> PeakLoss:
    """Where the share of FP32 peak that A does not reach went: losses and share add up to 1.

    share = (issue rate x FMA share x slots that an FMA fills) x active x predicated-on lanes, against 1 for
    each. The loss 1 - share is split over the three with logarithmic-mean weights; that of the slots between
    empty ones and those of other instructions in proportion to -ln(issue rate) and -ln(FMA share), then over
    the stall reasons and the classes of the other instructions. Raises UsageError where the counters do not
    give a share, or give one that cannot be, NotComparableError for a range or graph.
    """
    compare.refuse_workloads(*a)
    one = compare.median_launch(a)
    share = one.number("share_of_peak")
    facts = facts_of(one)
    _refuse_alone(one, facts)
    issue_rate, fma_share = facts.issue_rate, one.number("fma_share")
    # What the measured share says beyond these: lanes predicated off, and FMAs that fill more than a slot.
    beyond = share / (issue_rate * fma_share * facts.active)
    lanes = peak_model.fp32_lanes_per_sm(one.launch.compute_capability)
    fma_slots = max(1.0, 32 * SCHEDULERS / lanes if lanes else 1.0, beyond)
    losses = decomposition.split_product(
        {
            "slots": issue_rate * fma_share * fma_slots,
            "active": facts.active,
            "lanes": beyond / fma_slots,
        }
    )
    empty, others = -math.log(issue_rate), -math.log(fma_share)
    to_empty = empty / (empty + others) if empty + others > 0 else 0.0
    both = evidence.Pair(one, one, facts, facts)
    tree = (
        _lost_slots(both, losses["slots"] * to_empty),
        _lost_to_others(both, fma_share, losses["slots"] * (1 - to_empty)),
        Factor(
            "active",
            "active fraction",
            1.0,
            facts.active,
            "fraction",
            losses["active"],
            (),
            both.of("waves_per_sm"),
        ),
        Factor(
            "lanes",
            "lanes",
            1.0,
            beyond / fma_slots,
            "fraction",
            losses["lanes"],
            note="lanes of FMAs predicated off",
        ),
    )
    ranked = factors.ordered(factors.checked(both, factor) for factor in tree)
    side = _side(one, len(a))
    result = PeakLoss(
        a=replace(side, label=_shorten(side.label, _LONG)),
        share=share,
        losses=ranked,
        residual=1.0 - share - sum(loss.contribution for loss in ranked),
        sentences=(),
        warnings=tuple(compare.contradicted(one)),
        fma_slots=fma_slots,
    )
    return replace(result, sentences=sentences.of_loss(result))


def _refuse_alone(one: Evaluated, facts: Facts) -> None:
    """Raise UsageError where a launch has no share of peak to split, or its parts cannot be right."""
    share = one.number("share_of_peak")
    name = f"{one.launch.label} ({one.launch.id})"
    if not share > 0:
        held = one.metrics.get("share_of_peak")
        reason = "its counters do not give one"
        if share == 0:
            reason = "it executes no FP32 FMA, so the share is 0"
        elif held is not None and held.reason:
            reason = held.reason
        raise UsageError(
            f"{name} has no share of FP32 peak to explain: {reason}",
            "`perfkit show` says for each counter whether the report holds it and what would collect it.",
        )
    parts = {"issue_rate": facts.issue_rate, "fma_share": one.number("fma_share"), "active": facts.active}
    lacking = [part for part, value in parts.items() if not value > 0]
    if lacking:
        raise UsageError(
            f"{name}: the report lacks {', '.join(lacking)}",
            "Profile it with `perfkit profile`, which collects them.",
        )
    for metric in ("share_of_peak", "issue_rate", "fma_share", "active_fraction", "instructions"):
        held = one.metrics.get(metric)
        if held is not None and held.status is Status.INVALID:
            read = f"{held.number:,.0f}" if metric == "instructions" else f"{held.number:.1%}"
            raise UsageError(
                f"{name}: its share of FP32 peak cannot be split, since {metric.replace('_', ' ')} reads "
                f"{read}: {held.reason}",
                "Profile it again with nothing else on the GPU; `perfkit show` has its counters.",
            )


def _lost_slots(both: evidence.Pair, loss: float) -> Factor:
    facts = both.before
    total = sum(facts.stalls.values())
    children = factors.ordered(
        Factor(
            f"stall_{name}",
            factors.STALL_TITLES.get(name, name.replace("_", " ")),
            0.0,
            cycles,
            "cycle",
            loss * cycles / total,
            (),
            both.for_stall(name),
        )
        for name, cycles in (facts.stalls.items() if total > 0 else ())
        if cycles > 0
    )
    return Factor(
        "issue_rate",
        "slots without an instruction",
        1.0,
        facts.issue_rate,
        "fraction",
        loss,
        children,
        both.of("active_warps_per_scheduler", "eligible_warps_per_scheduler"),
        note="" if children else "not split: the report lacks the stall reasons",
    )


def _lost_to_others(both: evidence.Pair, fma_share: float, loss: float) -> Factor:
    counts = {name: count for name, count in both.before.classes.items() if name != opcodes.FMA and count > 0}
    total = sum(counts.values())
    children = factors.ordered(
        Factor(
            f"instructions_{name}",
            opcodes.TITLES[name],
            0.0,
            count,
            "inst",
            loss * count / total,
        )
        for name, count in counts.items()
    )
    return Factor(
        "fma_share",
        "slots with other instructions",
        1.0,
        fma_share,
        "fraction",
        loss,
        children,
        both.of("fma_per_shared_load"),
        note="" if children else "not split: the report lacks sass__inst_executed_per_opcode",
    )


def flat(found: Sequence[Factor], least: float) -> tuple[Factor, ...]:
    """The tree's front: a factor is opened where one of its children contributes at least `least`.

    The front still adds up: children under `least` of an opened factor are put together as "other ...".
    """
    front: list[Factor] = []
    for factor in found:
        if not any(abs(child.contribution) >= least for child in factor.children):
            front.append(factor)
            continue
        opened = flat(factor.children, least)
        small = [child for child in opened if abs(child.contribution) < least]
        front += [child for child in opened if child not in small]
        rest = factor.contribution - sum(child.contribution for child in opened if child not in small)
        if small:
            front.append(Factor(f"{factor.name}_rest", f"{factor.title}: rest", None, None, "", rest))
    return tuple(front)


def waterfall(comparison: Comparison, least: float = 0.03) -> Waterfall:
    """A comparison as a figure: from ln 1 over the causes to ln(T_B/T_A), small ones put together."""
    limit = least * max(abs(comparison.log_ratio), *(abs(f.contribution) for f in comparison.factors), 1e-12)
    front = flat(comparison.factors, limit)
    shown = [factor for factor in front if abs(factor.contribution) >= limit]
    rest = comparison.log_ratio - sum(factor.contribution for factor in shown)
    steps = [_step(factor.title, factor.contribution) for factor in shown]
    steps.append(_step("rest and residual", rest))
    a, b = comparison.a, comparison.b
    at = f" at {a.problem}" if a.problem and a.problem == b.problem else ""
    return Waterfall(
        title=f"{a.label} to {b.label}{at}: x{math.exp(comparison.log_ratio):.2f}",
        start_label=a.label,
        start=0.0,
        steps=tuple(steps),
        end_label=b.label,
        end=comparison.log_ratio,
        unit="ln of the time ratio",
    )


def _step(label: str, value: float) -> WaterfallStep:
    return WaterfallStep(label, value, f"x{math.exp(value):.2f}")


def waterfall_alone(loss: PeakLoss, least: float = 0.01) -> Waterfall:
    """A peak loss as a figure: from 1 over the losses down to the share reached."""
    front = [factor for factor in flat(loss.losses, least) if abs(factor.contribution) >= least]
    rest = 1.0 - loss.share - sum(factor.contribution for factor in front)
    steps = [
        WaterfallStep(factor.title, -factor.contribution, f"{-factor.contribution:+.1%}") for factor in front
    ]
    steps.append(WaterfallStep("rest and residual", -rest, f"{-rest:+.1%}"))
    at = f" at {loss.a.problem}" if loss.a.problem else ""
    return Waterfall(
        title=f"{loss.a.label}{at}: {loss.share:.1%} of FP32 peak",
        start_label="every slot an FMA",
        start=1.0,
        steps=tuple(steps),
        end_label=loss.a.label,
        end=loss.share,
        unit="share of FP32 peak",
    )
