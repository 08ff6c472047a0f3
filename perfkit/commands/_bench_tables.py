"""Bench results as tables."""

from __future__ import annotations

from collections.abc import Sequence

from perfkit.model import (
    BenchResult,
    Cell,
    Column,
    GpuInfo,
    PairComparison,
    SelfTest,
    Status,
    Table,
    Verification,
)

_RESULT_COLUMNS = (
    Column("kernel", "kernel"),
    Column("problem", "problem"),
    Column("time", "time", "s", doc="median time of a launch between CUDA events"),
    Column(
        "interval", "±95 %", "fraction", 2, doc="half of the 95 % interval of the median, over the median"
    ),
    Column("flop_rate", "speed", "FLOP/s", doc="FLOPs of the work model over the time"),
    Column("sm_clock", "SM clock", "Hz", doc="mean SM clock while it was timed"),
    Column("power", "power", "W", doc="mean by the energy counter; article: median of NVML's readings"),
    Column("energy_per_launch", "energy", "J", doc="mean power times the time of a launch"),
    Column("share_of_peak", "share of peak", "fraction", 1, doc="of FP32 FMA peak at the SM clock shown"),
    Column("launches", "launches", "", 0, doc="launches that were timed"),
    Column("verified", "verified", doc="against the reference, and 64 entries in float64"),
)
_PAIR_COLUMNS = (
    Column("a", "A"),
    Column("b", "B"),
    Column("problem", "problem"),
    Column("verdict", "B is"),
    Column("ratio", "T_B / T_A", "", 4),
    Column("low", "95 % from", "", 4),
    Column("high", "to", "", 4),
    Column("cycle_ratio", "in cycles", "", 4),
    Column("a_time", "A's time", "s"),
    Column("b_time", "B's time", "s"),
    Column("pairs", "pairs", "", 0),
    Column("reason", "because"),
)
_TEST_COLUMNS = (
    Column("kernel", "kernel"),
    Column("problem", "problem"),
    Column("handicap", "slowed by", "fraction", 1),
    Column("comparisons", "comparisons", "", 0),
    Column("faster", "faster", "", 0),
    Column("slower", "slower", "", 0),
    Column("same", "same", "", 0),
    Column("ambiguous", "ambiguous", "", 0),
    Column("wrong", "wrong", "", 0),
    Column("half_width", "±95 %", "fraction", 2),
    Column("largest_ratio", "furthest ratio", "", 4),
    Column("gpu_seconds", "GPU time", "s", 1),
)


def results_table(results: Sequence[BenchResult], gpu: GpuInfo | None) -> Table:
    """One row a kernel and size; what needs saying is in the notes."""
    where = f" on {gpu.name}, {gpu.sm_count} SMs" if gpu else ""
    how = sorted({f"{r.protocol} protocol, {r.cache} L2" for r in results})
    notes = [f"{r.label} at {r.problem}: {note}" for r in results for note in r.notes]
    stopped = sorted({_rule(r) for r in results if r.time is not None})
    sources = sorted({r.sm_clock_source for r in results if r.sm_clock_source})
    if sources:
        notes.append(f"SM clock by {' or '.join(sources)}; share of peak is at that clock")
    if any(r.cache == "cold" for r in results):
        notes.append(
            "cold: caches flushed before each launch; clock and power are of the loop, flushes included"
        )
    # Of loops with flushes in them there is no energy a launch: no column of blanks then.
    shown = [
        index
        for index, column in enumerate(_RESULT_COLUMNS)
        if column.name != "energy_per_launch" or any(r.cache != "cold" for r in results)
    ]
    rows = [_result_row(result) for result in results]
    return Table(
        name="bench",
        title=f"bench: {'; '.join(how)}{where}",
        columns=tuple(_RESULT_COLUMNS[index] for index in shown),
        rows=tuple(tuple(row[index] for index in shown) for row in rows),
        notes=(*stopped, *notes),
    )


def _rule(result: BenchResult) -> str:
    from perfkit.analysis.statistics import ran_out_of_time

    if result.protocol == "article":
        return "stopped by time; median of the last three quarters of each round, then over rounds"
    if ran_out_of_time(result.stopped):
        return "stopped by time, before the estimate was good: what is said to lack is below"
    return (
        "stopped when the 95 % interval of the median was within ±0.25 % and its two halves agreed within "
        "0.25 %, after at least 0.5 s of kernel time"
    )


def _result_row(r: BenchResult) -> tuple[Cell, ...]:
    half = (r.time_high - r.time_low) / 2 / r.time if r.time and r.time_low and r.time_high else None
    return (
        Cell(r.label),
        Cell(r.problem),
        *(
            Cell(None) if _is_wrong(r) else _measured(value)
            for value in (
                r.time,
                half,
                r.flop_rate,
                r.sm_clock,
                r.power,
                r.energy_per_launch,
                r.share_of_peak,
            )
        ),
        Cell(r.launches),
        Cell(verified(r.verification)),
    )


def _is_wrong(result: BenchResult) -> bool:
    return result.verification is not None and not result.verification.passed


def _measured(value: float | None) -> Cell:
    return Cell(value, Status.OK if value is not None else Status.NOT_COLLECTED)


def verified(outcome: Verification | None) -> str:
    """A word or two: bit-equal, the largest difference, that it is wrong, or that nothing was compared."""
    if outcome is None:
        return "not verified"
    if not outcome.passed:
        return "WRONG"
    if outcome.bit_equal:
        return "bit-equal"
    return f"within {outcome.max_abs_difference:.2g}"


def comparisons_table(found: Sequence[PairComparison]) -> Table:
    """One row a comparison."""
    rows = tuple(
        (
            Cell(c.a),
            Cell(c.b),
            Cell(c.problem),
            Cell(c.verdict),
            Cell(c.ratio),
            Cell(c.low),
            Cell(c.high),
            _measured(c.cycle_ratio),
            Cell(c.a_time),
            Cell(c.b_time),
            Cell(c.pairs),
            Cell(c.reason),
        )
        for c in found
    )
    return Table(
        name="pairs",
        title="B against A, from interleaved pairs",
        columns=_PAIR_COLUMNS,
        rows=rows,
        notes=(
            "ratio: Hodges-Lehmann estimate of ln(T_B / T_A) over couples of pairs in both orders, 95 % "
            "interval of the signed-rank test; a verdict needs the whole interval beyond (or within) the "
            f"floor of {found[0].floor:.1%}, and cycles that agree",
        ),
    )


def self_tests_table(found: Sequence[SelfTest]) -> Table:
    """One row a size; the note counts over all of them."""
    rows = [
        (
            Cell(t.label),
            Cell(t.problem),
            Cell(t.handicap),
            Cell(t.comparisons),
            *(Cell(t.verdicts[name]) for name in ("faster", "slower", "same", "ambiguous")),
            Cell(t.wrong),
            Cell(t.median_half_width),
            Cell(t.largest_ratio),
            Cell(t.gpu_seconds),
        )
        for t in found
    ]
    total, wrong = sum(t.comparisons for t in found), sum(t.wrong for t in found)
    slowed = f", slowed by {found[0].handicap:.1%}" if found[0].handicap else ""
    kind = "slow-downs missed" if found[0].handicap else "false verdicts of faster or slower"
    return Table(
        name="selftest",
        title=f"a kernel against itself{slowed}",
        columns=_TEST_COLUMNS,
        rows=tuple(rows),
        notes=(f"{wrong} of {total} comparisons are {kind} ({wrong / total:.1%})",),
    )
