"""Proving the occupancy cause by intervening, and the table of interventions that a run already holds."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfkit.commands._console import note
from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.commands._sides import Chosen, Sources
    from perfkit.model import (
        Comparison,
        Evaluated,
        Intervention,
        KernelSpec,
        RegisterLimit,
        Table,
        Verified,
    )
    from perfkit.profiler.session import KernelRequest

CARVEOUT = 100  # both arms: the ballast would otherwise take L1 away from one of them
_NEAR = 0.10
_EFFECT = 0.02  # a slowdown under 2 % is no effect: a prediction of "none" is easy there


def intervene(one: Chosen, other: Chosen, result: Comparison, *, registers: bool) -> Verified:
    """Launch the faster kernel as it is and held to the slower one's blocks per SM: predicted and observed.

    With `registers` the kernel with more registers is also built to the other's count. Raises UsageError
    where there is nothing to intervene on, CannotError without a GPU or ncu.
    """
    fast, slow = (one, other) if result.log_ratio >= 0 else (other, one)
    spec, size = _registered(fast)
    blocks = _blocks(slow)
    if blocks >= _blocks(fast):
        raise UsageError(
            f"nothing to intervene on: {fast.text} has {_blocks(fast)} blocks per SM and {slow.text} "
            f"{blocks}",
            "--verify proves that fewer resident blocks made a kernel slower.",
        )
    from perfkit.profiler.session import KernelRequest

    wanted = [KernelRequest(spec, size), KernelRequest(spec, size, blocks)]
    if registers:
        wanted.append(_limited(fast, slow, size))
    run, launches = _profile(wanted)
    base, held = launches[0], launches[1]
    from perfkit.analysis.interventions import intervention
    from perfkit.model import Verified

    case = intervention(base, held)
    gap = abs(result.log_ratio)
    share = math.log(case.observed) / gap if gap > 0 else math.nan
    return Verified(run, case, share, _limit(launches[2], base) if registers else None)


def verified_table(found: Verified, result: Comparison) -> Table:
    """What intervening showed of the two that were compared, and in words."""
    a, b = result.a.label, result.b.label
    lines = [
        _verdict(found.intervention),
        f"Residency alone makes {found.residency_share:.0%} of the difference of {a} and {b}.",
    ]
    if found.limit is not None:
        lines.append(
            f"{found.limit.label}: {found.limit.registers} registers, {found.limit.blocks_per_sm} blocks per "
            f"SM, x{found.limit.ratio:.3f} the time of {found.intervention.label.split('@')[0]}."
        )
    return table([found.intervention], "Intervention: held to fewer blocks per SM", tuple(lines))


def _registered(side: Chosen) -> tuple[KernelSpec, dict[str, int]]:
    from perfkit.kernels.registry import load_registry, resolve

    if side.kernel is None:
        raise UsageError(
            f"{side.text} is no kernel that perfkit can launch: it comes from a bare report",
            "--verify needs kernels of a run (`perfkit profile K`).",
        )
    (spec,) = resolve([side.kernel.key], load_registry())
    return spec, dict(side.kernel.size)


def _blocks(side: Chosen) -> int:
    value = side.launches[0].number("blocks_per_sm")
    if not value > 0:
        raise UsageError(
            f"{side.text}: the report does not tell the blocks per SM", "Profile it with `perfkit profile`."
        )
    return int(value)


def _limited(fast: Chosen, slow: Chosen, size: dict[str, int]) -> KernelRequest:
    """The kernel with more registers, built to the other's count: what the limit itself costs or gives."""
    from perfkit.profiler.session import KernelRequest

    counts = {side: side.launches[0].number("registers_per_thread") for side in (fast, slow)}
    more, fewer = (fast, slow) if counts[fast] > counts[slow] else (slow, fast)
    limit = int(counts[fewer])
    spec, _ = _registered(more)
    limited = dataclasses.replace(
        spec,
        key=f"{spec.key}-r{limit}",
        title=f"{spec.title}, limited to {limit} registers",
        flags=(*spec.flags, f"-maxrregcount={limit}"),
    )
    return KernelRequest(limited, size)


def _profile(wanted: Sequence[KernelRequest]) -> tuple[str, list[Evaluated]]:
    """Profile these: the run's folder, and their launches in the order asked for."""
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.commands._progress import ProfileProgress
    from perfkit.commands._sides import Sources
    from perfkit.kernels.cuda_driver import first_gpu
    from perfkit.kernels.plan import label_of
    from perfkit.kernels.sizes import problem_label
    from perfkit.profiler import session

    sets = load_metric_sets()
    settings = session.Settings(sets.counters(None, first_gpu().compute_capability), tuple(sets.sets))
    with ProfileProgress(len(wanted), show_program=False, counted=True) as progress:
        done = session.profile_kernels(
            wanted,
            settings,
            carveout=CARVEOUT,
            command=("perfkit", "explain", "--verify"),
            on_line=progress.line,
            on_progress=progress.moved,
        )
    if done.problem:
        raise done.problem
    note(f"run: {done.path}")
    sources = Sources()
    launches = [one for name in done.record.reports for one in sources.launches(done.path / name)]
    return str(done.path), [
        only_launch(launches, label_of(w.spec.key, w.blocks_per_sm), problem_label(w.size), str(done.path))
        for w in wanted
    ]


def only_launch(launches: Sequence[Evaluated], label: str, problem: str, run: str) -> Evaluated:
    """The launch of a kernel in a run. Raises UsageError where there is none, or more than one: their times
    are those of other work.
    """
    found = [one for one in launches if (one.launch.label, one.launch.problem) == (label, problem)]
    if len(found) != 1:
        held = f"{len(found)} launches" if found else "no launch"
        raise UsageError(
            f"the run {run} holds {held} of {label} at {problem}, where --verify needs one",
            "`perfkit show` lists what it holds; --verify compares kernels that launch one function once.",
        )
    return found[0]


def _verdict(case: Intervention) -> str:
    said = (
        f"{case.label}: predicted x{case.predicted:.3f} from the counters of {case.label.split('@')[0]} "
        "alone, "
        f"observed x{case.observed:.3f} ({case.error:+.1%}). {_calibrated(case)}"
    )
    if case.moved:
        return f"{said} Not only residency moved: {'; '.join(case.moved)}."
    return f"{said} Nothing else moved: instructions, hit rates, DRAM bytes and clock stayed."


def _calibrated(case: Intervention) -> str:
    """What the prediction was fitted with: nothing of the held launch, but one number of the unheld one."""
    said = f"Calibrated on it: {case.demand:.3g} cycles of the shared memory pipe an instruction"
    if case.correction != 1:
        said += f", and still x{case.correction:.3g} the modelled issue rate"
    return said + "."


def _limit(limited: Evaluated, base: Evaluated) -> RegisterLimit:
    from perfkit.model import RegisterLimit

    return RegisterLimit(
        limited.launch.label,
        int(limited.number("registers_per_thread")),
        int(limited.number("blocks_per_sm")),
        limited.number("duration") / base.number("duration"),
    )


def run_table(sources: Sources, text: str) -> list[Table]:
    """Every kernel of a run (or report) that it also holds at fewer blocks per SM: predicted against
    observed.
    """
    from pathlib import Path

    from perfkit.analysis.interventions import intervention, pairs

    if Path(text).is_file():
        launches = list(sources.launches(Path(text)))
    else:
        launches = [launch for _, held in sources.of_run(text) for launch in held]
    found = [intervention(base, held) for base, held in pairs(launches)]
    if not found:
        raise UsageError(
            f"{text} holds no kernel both as it is and held to fewer blocks per SM",
            "Make such a run, for example: perfkit profile k6b k6b@1 --carveout 100",
        )
    title = "Held to fewer blocks per SM: slowdown predicted from the unheld launch alone, and observed"
    return [table(found, title, summary(found))]


def summary(found: Sequence[Intervention]) -> tuple[str, ...]:
    """Median error and share within 10 %, over all cases and over those in which holding had an effect."""
    said = [_errors("All", found)]
    moved = [case for case in found if abs(math.log(case.observed)) > _EFFECT]
    if len(moved) < len(found):
        said.append(_errors(f"With an effect of more than {_EFFECT:.0%}", moved))
    return tuple(said)


def _errors(which: str, found: Sequence[Intervention]) -> str:
    if not found:
        return f"{which}: no case."

    def of(errors: list[float]) -> str:
        near = sum(error <= _NEAR for error in errors)
        return f"median error {statistics.median(errors):.1%}, {near} of {len(errors)} within {_NEAR:.0%}"

    network = of([abs(case.error) for case in found])
    simple = of([abs(case.simple / case.observed - 1) for case in found])
    return f"{which}: {network}; with 1-(1-r)^W: {simple}."


def table(found: Sequence[Intervention], title: str, notes: tuple[str, ...]) -> Table:
    """One row a case, misses included."""
    from perfkit.model import Cell, Column, Table

    columns = (
        Column("kernel", "kernel"),
        Column("problem", "problem"),
        Column("blocks", "blocks per SM"),
        Column("predicted", "predicted", digits=3, doc="Cycles over those of the unheld launch"),
        Column("observed", "observed", digits=3),
        Column("error", "error", unit="fraction", digits=1),
        Column("simple", "by 1-(1-r)^W", digits=3),
        Column("demand", "D", digits=3, doc="Cycles of the shared memory pipe an instruction, fitted"),
        Column(
            "correction",
            "fit",
            digits=3,
            doc="Measured over modelled issue rate where D = 0 is too much, else 1",
        ),
        Column("issue_predicted", "issue rate predicted", digits=3),
        Column("issue_observed", "observed", digits=3),
        Column("moved", "what else moved"),
    )
    rows = tuple(
        (
            Cell(case.label),
            Cell(case.problem),
            Cell(f"{case.blocks_before} -> {case.blocks_after}"),
            Cell(case.predicted),
            Cell(case.observed),
            Cell(case.error),
            Cell(case.simple),
            Cell(case.demand),
            Cell(case.correction),
            Cell(case.issue_rate_predicted),
            Cell(case.issue_rate_observed),
            Cell("; ".join(case.moved)),
        )
        for case in found
    )
    return Table("interventions", title, columns, rows, notes)
