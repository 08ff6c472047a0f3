"""The peak model: share of FP32 FMA peak as a product of counters, checked against what was counted and
timed.

    share of peak = issue rate x FMA share x active fraction x lane factor x predicated-on lane fraction
      (full) issue rate x FMA share                                                          (the article's)

Formulas of the factors: analysis/metric_sets/issue.toml. A packed FMA (FFMA2 on compute capability 10.x
and later) counts as two. Measured share, three ways: FMA lanes counted by ncu per elapsed cycle; FLOPs of
the work model over ncu's own time and clock; FLOPs over the event timing of a bench run and the clock that
ran there. Each that is known decides whether the launch closes: the first shares its counters with the model,
so that it alone shows little. A launch that does not close is reported with its residual.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perfkit.analysis.consistency import describe
from perfkit.analysis.definitions import load_devices
from perfkit.analysis.facts import counter, first
from perfkit.analysis.metrics import MetricSets, load_metric_sets
from perfkit.analysis.timings import COLD, Key, cache_of, profiled_caches, timings
from perfkit.model import Launch, MetricValue, RunRecord, Status, WorkloadKind
from perfkit.model.peak import Closure, PeakCheck, TimedShare

CLOSES = 0.001  # fraction of peak: 0.1 point
NEARLY = 0.005  # counters of different replay passes differ by about this
TIMED = 0.01  # event timing runs at another moment, maybe at another clock

Which = tuple[str, ...]  # report, label, problem; or label, problem: of any report
Known = TypeVar("Known")

_METRICS = (
    "instructions",
    "issue_rate",
    "fma_share",
    "fma_weight",
    "active_fraction",
    "fp32_lanes_per_smsp",
    "fma_lane_fraction",
    "share_of_peak",
    "duration",
    "sm_clock",
    "tensor_instructions",
    "fp32_instructions",
    "fp64_instructions",
    "half_instructions",
)
_EXECUTED = "smsp__inst_executed.sum"
_ISSUED = ("smsp__issue_active.sum", "smsp__inst_issued.sum")
_SMS = "device__attribute_multiprocessor_count"
_SCHEDULERS = "device__attribute_num_schedulers_per_multiprocessor"
_FULL_WARPS = "FMAs were counted as threads / 32, so the predicated-off lanes are in the FMA share"


def counters(sets: MetricSets | None = None) -> tuple[str, ...]:
    """What to read from a report for the check, on any chip."""
    wanted = (sets or load_metric_sets()).reading(_METRICS)
    return tuple(dict.fromkeys((*wanted, _EXECUTED, *_ISSUED, _SMS, _SCHEDULERS)))


def fp32_lanes_per_sm(compute_capability: tuple[int, int]) -> int | None:
    """FP32 lanes (FMA units) per SM by compute capability (devices.toml); None for a chip that is not
    there.
    """
    major, minor = compute_capability
    lanes = load_devices().get(f"{major}.{minor}", {}).get("fp32_lanes_per_sm")
    return int(lanes) if isinstance(lanes, (int, float)) else None


def check_launches(
    launches: Sequence[Launch],
    sets: MetricSets | None = None,
    *,
    flops: Mapping[Which, float] | None = None,
    timed: Mapping[Which, TimedShare] | None = None,
) -> list[PeakCheck]:
    """One check a launch, in order; every launch is in the result.

    `flops` and `timed` are by (report, label, problem), or by (label, problem) for any report. Both speak of
    all launches of a label together, so they are used only where the label has one launch in its report (a
    library call may make several).
    """
    sets = sets or load_metric_sets()
    # Within a report only: the same kernel in another report is another measurement of it.
    together = Counter((launch.id.report, launch.key, launch.problem) for launch in launches)
    found = []
    for launch in launches:
        key = (launch.id.report, launch.key or "", launch.problem)
        count = together[launch.id.report, launch.key, launch.problem] if launch.key else 1
        work = _of(flops or {}, key) if count == 1 else None
        share = _of(timed or {}, key) if count == 1 else None
        found.append(_check(launch, sets, work, share, count))
    return found


def _of(known: Mapping[Which, Known], key: tuple[str, str, str]) -> Known | None:
    return known[key] if key in known else known.get(key[1:])


def _check(
    launch: Launch, sets: MetricSets, flops: float | None, timed: TimedShare | None, of_label: int
) -> PeakCheck:
    evaluated = sets.evaluate(launch, _METRICS)
    launch, metrics = evaluated.launch, evaluated.metrics
    factors = _factors(metrics)
    numbers = {name: value.number for name, value in factors.items()}
    weight = metrics["fma_weight"].number
    two = _known(numbers["issue_rate"] * numbers["fma_share"])
    full = _known(
        numbers["issue_rate"]
        * weight
        * numbers["active_fraction"]
        * numbers["lane_factor"]
        * numbers["lane_fraction"]
    )
    counted = _known(metrics["share_of_peak"].number)
    work = _work_share(launch, metrics, flops)
    closure, reason = _closure(launch, metrics, factors, full, counted, work, timed)
    if closure in (Closure.NO_SHARE, Closure.UNKNOWN):
        full = counted = work = timed = None
        two = None if closure is Closure.NO_SHARE else two
    if closure is not Closure.NO_SHARE and of_label > 1:
        reason = _join(
            reason, f"one of {of_label} launches of {launch.label}: compared with ncu's count only"
        )
    reason = _join(
        reason, *(describe(one) for one in evaluated.contradictions if describe(one) not in reason)
    )
    return PeakCheck(
        launch=launch.id,
        kernel=_workload(launch),
        problem=launch.problem,
        gpu=launch.gpu,
        factors=factors,
        two_factor=two,
        full=full,
        counted=counted,
        work=work,
        timed=timed.share if timed else None,
        closure=closure,
        reason=reason,
        timing=timed,
    )


def _workload(launch: Launch) -> str:
    """The kernel's label; of a range or graph also that it is one, for ncu may name it after a kernel."""
    kind = launch.kind.replace("_", " ")
    if launch.kind is WorkloadKind.KERNEL or kind in launch.label:
        return launch.label
    return f"{launch.label} ({kind})"


def _factors(metrics: Mapping[str, MetricValue]) -> dict[str, MetricValue]:
    lanes = metrics["fp32_lanes_per_smsp"]
    factor = MetricValue(
        "lane_factor",
        32 / lanes.number if lanes.number > 0 else None,
        "",
        lanes.status,
        lanes.reason,
        "32 / fp32_lanes_per_smsp",
        lanes.counters,
    )
    share, fraction = metrics["fma_share"], metrics["fma_lane_fraction"]
    weight = metrics["fma_weight"].formula
    by_threads = "pred_on" in (share.formula if weight == "fma_share" else weight)
    if by_threads:
        fraction = MetricValue("lane_fraction", 1.0, "fraction", Status.OK, _FULL_WARPS, "1", ())
    elif share.number == 0:
        # No FMA ran, so no lane of one was off: 0 x anything.
        fraction = MetricValue("lane_fraction", 1.0, "fraction", Status.OK, "no FMA was executed", "1", ())
    return {
        "issue_rate": metrics["issue_rate"],
        "fma_share": share,
        "active_fraction": metrics["active_fraction"],
        "lane_factor": factor,
        "lane_fraction": fraction,
    }


def _work_share(launch: Launch, metrics: Mapping[str, MetricValue], flops: float | None) -> float | None:
    """FLOPs / (ncu's time x SMs x FP32 lanes an SM x 2 x ncu's clock)."""
    if not flops:
        return None
    lanes = metrics["fp32_lanes_per_smsp"].number * first(counter(launch, _SCHEDULERS), 4.0)
    cycles = metrics["duration"].number * metrics["sm_clock"].number
    peak = 2 * counter(launch, _SMS) * lanes * cycles
    return _known(flops / peak) if peak > 0 else None


def _closure(
    launch: Launch,
    metrics: Mapping[str, MetricValue],
    factors: Mapping[str, MetricValue],
    full: float | None,
    counted: float | None,
    work: float | None,
    timed: TimedShare | None,
) -> tuple[Closure, str]:
    if not launch.collected:
        return Closure.UNKNOWN, "the launch was not collected"
    share = metrics["share_of_peak"]
    if share.status is Status.UNDEFINED and share.reason:
        # Refused because of what ran, or because the report does not tell what ran.
        return (Closure.NO_SHARE if _other_work(metrics) else Closure.UNKNOWN), share.reason
    if full is None:
        return Closure.UNKNOWN, _missing(factors)
    if impossible := _impossible(metrics, factors, full, work):
        return Closure.OPEN, impossible
    if counted is None and work is None:
        return Closure.UNKNOWN, share.reason or "nothing to compare with: ncu counted no FMAs"
    if full == 0 and counted == 0:
        return Closure.NO_SHARE, "no FP32 FMA was executed"
    gap = max(abs(full - other) for other in (counted, work) if other is not None)
    why = _why_open(launch, full, counted, work) if gap > CLOSES else ""
    if timed is not None and abs(full - timed.share) > TIMED:
        return Closure.OPEN, _join(why, _why_untimed(full, timed))
    if gap > CLOSES:
        return (Closure.NEARLY if gap <= NEARLY else Closure.OPEN), why
    return (Closure.NCU_ONLY if work is None and timed is None else Closure.CLOSES), ""


def _impossible(
    metrics: Mapping[str, MetricValue], factors: Mapping[str, MetricValue], full: float, work: float | None
) -> str:
    """Which of the values that the shares are made of cannot be, and why; "" where all can."""
    # Issue rate x FMA share is a product over the instructions of one execution: passes must agree on them.
    used = [*factors.values(), metrics["share_of_peak"], metrics["instructions"]]
    if work is not None:
        used += [metrics["duration"], metrics["sm_clock"]]
    said = [
        f"{_titled(one.name)} {_amount(one)}: {one.reason}" for one in used if one.status is Status.INVALID
    ]
    if full > 1 and not said:
        said.append(f"the factors make {full:.1%} of peak, more than there is")
    return _join(*said)


def _titled(name: str) -> str:
    return name.replace("_", " ").replace("fma", "FMA")


def _amount(value: MetricValue) -> str:
    return f"{value.number:.1%}" if value.unit == "fraction" else f"{value.number:.4g} {value.unit}".rstrip()


def _why_untimed(full: float, timed: TimedShare) -> str:
    """How far event timing is off, and what is known of it: both sides' caches, the launches' scatter."""
    gap = full - timed.share
    said = (
        f"{abs(gap) * 100:.2f} points {'above' if gap > 0 else 'below'} event timing ({timed.share:.2%}, "
        f"more than the {TIMED * 100:g} allowed)"
    )
    if timed.profiled and timed.cache != timed.profiled:
        said += f"; timed with {timed.cache} caches, profiled with {timed.profiled} ones"
    if timed.low is None or timed.high is None:
        return said
    where = "within" if timed.holds(full) else "outside"
    return (
        f"{said}; {where} the 5th to 95th percentile of the timed launches "
        f"({timed.low:.2%} to {timed.high:.2%}), and ncu measured one launch"
    )


def _other_work(metrics: Mapping[str, MetricValue]) -> bool:
    fp32 = metrics["fp32_instructions"].number
    others = (metrics["fp64_instructions"].number, metrics["half_instructions"].number)
    return metrics["tensor_instructions"].number > 0 or any(other > fp32 for other in others)


def _missing(factors: Mapping[str, MetricValue]) -> str:
    names = [_titled(name) for name, value in factors.items() if math.isnan(value.number)]
    return f"missing: {', '.join(names)} (the notes name the counters)"


def _why_open(launch: Launch, full: float, counted: float | None, work: float | None) -> str:
    """What the counters say about a residual; "counters of different passes" where they say nothing
    else.
    """
    executed = counter(launch, _EXECUTED)
    issued = next((v for v in (counter(launch, name) for name in _ISSUED) if v > 0), math.nan)
    told = []
    excess = issued / executed - 1 if executed > 0 else math.nan
    if abs(excess) * full > CLOSES / 2:
        told.append(f"{excess:+.2%} instructions issued against executed (replays, or another pass)")
    if counted is not None and work is not None and abs(counted - work) > CLOSES:
        more = "more" if counted > work else "fewer"
        told.append(f"{more} FMAs were counted than the work model has ({counted / work - 1:+.2%})")
    return "; ".join(told) or "counters of different replay passes: each pass runs the kernel again"


def run_flops(records: Iterable[RunRecord]) -> dict[Which, float]:
    """FLOPs of the work model by report, label and problem: two runs may mean other work by one label. By
    label and problem alone, for a report that is in none of the runs, where all runs agree.
    """
    found: dict[Which, float] = {}
    every: dict[Key, set[float]] = {}
    for record in records:
        for kernel in record.kernels:
            if kernel.flops:
                key = (kernel.label, kernel.problem)
                every.setdefault(key, set()).add(kernel.flops)
                found.update({(report, *key): kernel.flops for report in _reports(record)})
    found.update({key: values.pop() for key, values in every.items() if len(values) == 1})
    return found


def run_timed(records: Sequence[RunRecord]) -> dict[Which, TimedShare]:
    """Event-timed share of peak by report, label and problem, with cold caches where ncu flushed them and a
    run timed it so (analysis/timings.py); by label and problem alone where no run profiled that.

    A timing of another source, or with other flags, than the report's own is left out: see `other_builds`.
    """
    found: dict[Which, TimedShare] = {}
    timed = {id(record): sources([record]) for record in records}
    profiled = [record for record in records if record.reports]
    for profile in profiled:
        own, caches = sources([profile]), profiled_caches([profile])
        shares = _shares(records, timed, own, caches)
        for kernel in profile.kernels:
            key = (kernel.label, kernel.problem)
            if key in shares:
                found.update({(report, *key): shares[key] for report in _reports(profile)})
    known = {(kernel.label, kernel.problem) for profile in profiled for kernel in profile.kernels}
    others = _shares(records, timed, {}, {})
    found.update({key: share for key, share in others.items() if key not in known})
    return found


def _shares(
    records: Sequence[RunRecord],
    timed: Mapping[int, Mapping[Key, tuple[Any, ...]]],
    own: Mapping[Key, tuple[Any, ...]],
    caches: Mapping[Key, str],
) -> dict[Key, TimedShare]:
    """The timings that fit one profile: of its `own` sources, in its `caches` where there are such."""

    def usable(record: RunRecord, result: Mapping[str, Any]) -> bool:
        key = (str(result["label"]), str(result["problem"]))
        return result.get("share_of_peak") is not None and not differ(
            own.get(key), timed[id(record)].get(key)
        )

    found = timings(records, wanted=lambda key: caches.get(key, COLD), usable=usable)
    return {key: _timed_share(record, result, caches.get(key, "")) for key, (record, result) in found.items()}


def _reports(record: RunRecord) -> list[str]:
    """The reports of a run as LaunchId.report names them."""
    return [str(Path(record.path) / name) for name in record.reports]


def _timed_share(record: RunRecord, result: Mapping[str, Any], profiled: str) -> TimedShare:
    share = float(result["share_of_peak"])
    low, high = (
        share * result["time"] / result[name] if result.get(name) else None
        for name in ("launch_high", "launch_low")
    )
    return TimedShare(share, cache_of(result), profiled, record.id, low, high)


def other_builds(records: Sequence[RunRecord]) -> list[Key]:
    """What was timed, but only of another source or with other flags than what was profiled."""
    timed = timings(records, usable=lambda _record, result: result.get("share_of_peak") is not None)
    shares = run_timed(records)
    left_out = {
        (kernel.label, kernel.problem)
        for record in records
        for report in _reports(record)
        for kernel in record.kernels
        if kernel.build and (report, kernel.label, kernel.problem) not in shares
    }
    return sorted(left_out & timed.keys())


def sources(records: Iterable[RunRecord]) -> dict[Key, tuple[Any, ...]]:
    """Source hash and flags by (label, problem), of kernels that were built."""
    return {
        (kernel.label, kernel.problem): (
            kernel.build.get("source_hash"),
            tuple(kernel.build.get("flags", ())),
        )
        for record in records
        for kernel in record.kernels
        if kernel.build
    }


def differ(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    """Whether two builds are known to be of other sources or flags."""
    return one is not None and other is not None and one != other


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
