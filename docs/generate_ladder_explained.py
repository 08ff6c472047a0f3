"""Writes docs/ladder-explained.md: python docs/generate_ladder_explained.py [RUN] [HELD].

RUN holds k1 to k8, k6b and cublas (default: the recorded run); HELD, kernels as they are and held to fewer
blocks per SM (default: the run that the tests use).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perfkit.analysis.compare import Origin
from perfkit.analysis.explain import explain
from perfkit.analysis.interventions import intervention, pairs
from perfkit.analysis.together import by_call
from perfkit.commands._explain_tables import comparison_tables
from perfkit.commands._sides import Sources
from perfkit.commands._verify import summary, table
from perfkit.model import Cell, Column, Comparison, Evaluated, Factor, Table
from perfkit.reports import render

PAGE = Path(__file__).with_name("ladder-explained.md")
LADDER = ("k1", "k2", "k3", "k4", "k5", "k6", "k6b", "k7", "k8", "cublas")
HELD = str(PAGE.parents[1] / "tests" / "data" / "runs" / "held")
WIDTH = 160


@dataclass(frozen=True)
class Step:
    """What the article says of a step, and whether the counters of this run say the same."""

    a: str
    b: str
    article: str
    agrees: Callable[[Comparison], bool]


def every(factors: tuple[Factor, ...]) -> Iterator[Factor]:
    for factor in factors:
        yield factor
        yield from every(factor.children)


def named(result: Comparison, name: str) -> float:
    """A factor's contribution, 0 where the tree has no such factor."""
    return next((factor.contribution for factor in every(result.factors) if factor.name == name), 0.0)


def leads(result: Comparison, name: str, sign: int) -> bool:
    """Whether this stall reason moved the time more than any other in that direction."""
    stalls = [factor for factor in every(result.factors) if factor.name.startswith("stall_")]
    return max(stalls, key=lambda factor: sign * factor.contribution).name == f"stall_{name}"


def evidence(result: Comparison, name: str) -> tuple[float, float]:
    """A metric before and after, as the tree's evidence shows it; NaN where it does not."""
    for factor in every(result.factors):
        for item in factor.evidence:
            if (
                item.name == name
                and isinstance(item.before, (int, float))
                and isinstance(item.after, (int, float))
            ):
                return item.before, item.after
    return math.nan, math.nan


def fell(result: Comparison, name: str) -> bool:
    before, after = evidence(result, name)
    return after < before


def halved(result: Comparison, name: str) -> bool:
    """Whether a metric fell to a half, give or take a tenth."""
    before, after = evidence(result, name)
    return 0.45 * before < after < 0.55 * before


STEPS = (
    Step(
        "k1",
        "k2",
        "coalescing: sectors per global load fall from 16.5 to 2.5, and with them LG throttle",
        lambda r: leads(r, "lg_throttle", -1) and fell(r, "sectors_per_load"),
    ),
    Step(
        "k2",
        "k3",
        "shared-memory tiles: far fewer global loads, and the queue moves from LG to MIO throttle",
        lambda r: (
            named(r, "instructions") < 0 and leads(r, "mio_throttle", 1) and leads(r, "lg_throttle", -1)
        ),
    ),
    Step(
        "k3",
        "k4",
        "eight outputs a thread: 0.8 to 2.7 FMAs per shared load, and less MIO throttle",
        lambda r: named(r, "instructions_shared_load") < 0 and leads(r, "mio_throttle", -1),
    ),
    Step(
        "k4",
        "k5",
        "8 x 8 outputs a thread: fewer shared loads per FMA, half the bytes from L2, at the price of "
        "registers",
        lambda r: (
            named(r, "instructions_shared_load") < 0
            and named(r, "theoretical_occupancy") > 0
            and halved(r, "l2_read_bytes")
        ),
    ),
    Step(
        "k5",
        "k6",
        "float4 accesses: fewer instructions, but 130 registers, so one block per SM, and slower",
        lambda r: r.verdict.kind == "slower" and named(r, "theoretical_occupancy") > 0,
    ),
    Step(
        "k6",
        "k6b",
        "launch bounds: two blocks per SM again, and faster for it",
        lambda r: r.verdict.kind == "faster" and named(r, "theoretical_occupancy") < 0,
    ),
    Step(
        "k6b",
        "k7",
        "no bank conflicts: 5.0 to 3.0 wavefronts per shared load",
        lambda r: fell(r, "wavefronts_per_shared_load") and leads(r, "short_scoreboard", -1),
    ),
    Step(
        "k7",
        "k8",
        "double buffering: global loads in flight, one barrier a slice",
        lambda r: named(r, "stall_long_scoreboard") < 0 and named(r, "stall_barrier") < 0,
    ),
)


def page(run: str = "recorded", held: str = HELD) -> str:
    """The page as text."""
    sources = Sources()
    launches = by_call([one for _, found in sources.of_run(run) for one in found])
    by_name = {(one.launch.label, one.launch.problem): one for one in launches}
    sizes = sorted({problem for _, problem in by_name}, key=lambda text: int(text.rpartition("=")[2]))
    gpu = launches[0].launch
    major, minor = gpu.compute_capability
    release = gpu.ncu_version.split(" ")[0]
    parts = [_HEAD.format(gpu=gpu.gpu, cc=f"{major}.{minor}", ncu=release)]
    main = sizes[-1]
    parts.append(f"## Step by step, {main}\n")
    for step in STEPS:
        parts.append(_step(step, by_name[step.a, main], by_name[step.b, main]))
    parts.append(_closure(by_name, sizes))
    cases = [
        intervention(a, b) for a, b in pairs([one for _, found in sources.of_run(held) for one in found])
    ]
    text = render([table(cases, "", summary(cases))], "markdown", width=WIDTH)
    parts.append(f"## Interventions\n\n{_INTERVENTIONS}\n\n{text}")
    return "\n".join(parts)


_HEAD = """# The ladder explained

Who reads this: whoever wants to see what `perfkit explain` says of each step of the SGEMM ladder, and how
far to trust it. Made by `python docs/generate_ladder_explained.py` from a run on an {gpu} (compute
capability {cc}, ncu {ncu}); a test keeps it current. docs/explain.md says how to read a tree.
"""
_INTERVENTIONS = """Every kernel held to fewer blocks per SM by unused shared memory, both arms with the
same L1/shared carve-out. The slowdown is in cycles, predicted from the counters of the unheld launch alone
(docs/explain.md, "What fewer blocks per SM would cost"); every case is here, misses included, and what else
than residency moved is said."""
_CLOSURE = """## Does it add up?

Every pair of the ladder: the residual is what the factors leave of the measured time ratio, in % of it.
"""


def _step(step: Step, a: Evaluated, b: Evaluated) -> str:
    result = explain([a], [b], origin_a=Origin(), origin_b=Origin())
    agreed = "The counters agree." if step.agrees(result) else f"**Not so here:** {_instead(a, b, result)}."
    text = render(comparison_tables(result), "markdown", width=WIDTH)
    text = text.replace("### ", "#### ")
    return f"### {step.a} to {step.b}\n\nThe article: {step.article}. {agreed}\n\n{text}"


def _instead(a: Evaluated, b: Evaluated, result: Comparison) -> str:
    """What the counters say where the article's story is not theirs: stalls, registers, blocks, verdict."""
    stalls = [factor for factor in every(result.factors) if factor.name.startswith("stall_")]
    less, more = (choose(stalls, key=lambda factor: factor.contribution) for choose in (min, max))
    said = []
    for factor, verb in ((less, "fell"), (more, "rose")):
        if abs(factor.contribution) > 0.01:
            said.append(
                f"{factor.title.split(' (')[0]} {verb} most ({factor.before:.2g} to {factor.after:.2g} "
                "cycles)"
            )
    said += [
        f"{title} {a.number(name):.0f} and {b.number(name):.0f}"
        for name, title in (("registers_per_thread", "registers"), ("blocks_per_sm", "blocks per SM"))
    ]
    return f"{', '.join(said)}; {result.b.label} is {result.verdict.kind}"


def _closure(by_name: dict[tuple[str, str], Evaluated], sizes: list[str]) -> str:
    columns = (
        Column("problem", "problem"),
        Column("pairs", "pairs"),
        Column("residual", "largest residual, %", digits=4),
        Column("pair", "of"),
        Column("sum", "largest error of the sum", digits=4),
    )
    rows = []
    for size in sizes:
        found = []
        for a, b in itertools.combinations([k for k in LADDER if (k, size) in by_name], 2):
            result = explain([by_name[a, size]], [by_name[b, size]])
            total = sum(factor.contribution for factor in result.factors) + result.residual
            found.append((abs(math.expm1(result.residual)), f"{a} to {b}", abs(total - result.log_ratio)))
        worst = max(found)
        sums = max(error for _, _, error in found)
        rows.append(
            (
                Cell(size),
                Cell(len(found)),
                Cell(100 * worst[0]),
                Cell(worst[1]),
                Cell(sums, text="under 1e-12" if sums < 1e-12 else f"{sums:.1e}"),
            )
        )
    text = render([Table("closure", "", columns, tuple(rows))], "markdown", width=WIDTH)
    return f"{_CLOSURE}\n{text}"


if __name__ == "__main__":
    PAGE.write_text(page(*sys.argv[1:]), encoding="utf-8")
