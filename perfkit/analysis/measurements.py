"""Counters of profile runs and timings of bench runs, put together by kernel and problem."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfkit.analysis.derived import Derive
from perfkit.analysis.flops import counted_flops
from perfkit.analysis.least_work import moved_too_little
from perfkit.analysis.peak_model import differ, sources
from perfkit.analysis.roofline import dram_bandwidth
from perfkit.analysis.tables import labels
from perfkit.analysis.timings import Key, Timed, timings
from perfkit.errors import NotComparableError, UsageError
from perfkit.model import Device, Evaluated, KernelRun, RunRecord, Status
from perfkit.model.measurements import Measurements, Source, Traced

_LISTED = 6  # names in a warning
REFERENCES = ("cublas",)  # what share_of_reference refers to, where it is there

# What a bench result holds: our name, its field, the unit.
_BENCH = (
    ("time", "time", "s"),
    ("flop_rate", "flop_rate", "FLOP/s"),
    ("clock", "sm_clock", "Hz"),
    ("power", "power", "W"),
    ("energy", "energy_per_launch", "J"),
    ("timed_share_of_peak", "share_of_peak", "fraction"),
)
# What its verification holds: the largest difference from the reference, and from a float64 dot product.
_VERIFICATION = ("max_abs_difference", "float64_max_abs_error")


# What is put together here, beside the metrics of the sets: names that a claim may use on any run.
NAMES = (
    *(name for name, _, _ in _BENCH),
    *_VERIFICATION,
    "flops",
    "least_bytes",
    "spill_bytes",
    "loop_instructions",
    "loop_fmas",
    "kernel_name",
    "counted_flops",
    "dram_bandwidth",
    "ncu_flop_rate",
    "two_factor_model",
    "measured_share",
    "two_factor_error",
    "model_error",
    "timed_model_error",
    "dram_bytes",
    "flop_per_dram_byte",
    "flop_per_l2_byte",
    "share_of_reference",
    "speedup",
)


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of a run (or a report given by itself) as provenance names it, with its hash."""

    name: str
    sha256: str


def gather(
    evaluated: Sequence[Evaluated],
    records: Sequence[RunRecord] = (),
    files: Mapping[str, RunFile] = MappingProxyType({}),
    reference: str = "",
) -> Measurements:
    """Everything measured, by (name, kernel, problem).

    `files` maps LaunchId.report and a run's path to how provenance names them. Several launches under one
    label (a library call, repetitions) are represented by the longest, and a warning says so: ratios of
    several launches must not be added. Raises NotComparableError when the runs are of different GPUs, and
    UsageError when there is nothing to show or `reference` is not among the kernels.
    """
    gpu, capability = _one_gpu(evaluated, records)
    warnings: list[str] = []
    launches = _representatives(evaluated, records, files, warnings)
    results = _timings_of(launches, records, warnings)
    kernels = _order(launches, results, records)
    if not kernels:
        raise UsageError("no launch and no timing in what was given", "Give a run or a report.")
    if reference and reference not in kernels:
        raise UsageError(f"no kernel {reference!r} in the runs", f"Kernels: {', '.join(kernels)}.")
    found = reference or next((name for name in REFERENCES if name in kernels), "")
    problems = _problems(launches, results, records)
    values: dict[tuple[str, str, str], Traced] = {}
    for (label, problem), launch in launches.items():
        _add_counters(values, label, problem, launch, files)
    for (label, problem), (record, result) in results.items():
        _add_bench(values, label, problem, result, files.get(record.path, RunFile(record.id, "")))
    for record, run in _builds(launches, records, results):
        _add_kernel(values, run, files.get(record.path, RunFile(f"{record.id}/run.json", "")))
    warnings += _too_little(launches, evaluated, values)
    Derive(values, kernels, problems, found).all()
    return Measurements(
        gpu=gpu,
        compute_capability=capability,
        kernels=kernels,
        problems=problems,
        values=values,
        launches=launches,
        reference=found,
        runs=tuple(records),
        warnings=tuple(warnings),
    )


def without_held(measurements: Measurements) -> Measurements:
    """Without the kernels that were held to fewer blocks an SM, where the kernels themselves are there too.

    A warning says what was left out.
    """
    held = [kernel for kernel in measurements.kernels if kernel.partition("@")[0] != kernel]
    left_out = [kernel for kernel in held if kernel.partition("@")[0] in measurements.kernels]
    if not left_out:
        return measurements
    warning = f"left out, held to fewer blocks an SM: {', '.join(left_out)} (--held shows them)"
    kernels = tuple(kernel for kernel in measurements.kernels if kernel not in left_out)
    return replace(measurements, kernels=kernels, warnings=(*measurements.warnings, warning))


def _one_gpu(
    evaluated: Sequence[Evaluated], records: Sequence[RunRecord]
) -> tuple[str, tuple[int, int] | None]:
    seen = {(item.launch.gpu, item.launch.compute_capability): item.launch.id.report for item in evaluated}
    for record in records:
        if record.gpu is not None:
            seen.setdefault((record.gpu.name, record.gpu.compute_capability), record.id)
    if len(seen) > 1:
        which = "; ".join(f"{name} in {where}" for (name, _), where in seen.items())
        raise NotComparableError(
            f"the runs are of different GPUs: {which}", "Make one article or report for each GPU."
        )
    return next(iter(seen), ("", None))


def _representatives(
    evaluated: Sequence[Evaluated],
    records: Sequence[RunRecord],
    files: Mapping[str, RunFile],
    warnings: list[str],
) -> dict[tuple[str, str], Evaluated]:
    """The launch that stands for each (label, problem). Without a registry key each stands for itself.

    Of several reports the last one read counts (runs sort by time), those of runs that hold kernels to fewer
    blocks only where no other has the kernel: their shared-memory carve-out is another one. Of several
    launches in a report it is the longest.
    """
    groups: dict[tuple[str, str], list[Evaluated]] = {}
    bare = iter(labels([item.launch for item in evaluated if item.launch.key is None]))
    for item in evaluated:
        label = next(bare) if item.launch.key is None else item.launch.label
        groups.setdefault((label, item.launch.problem), []).append(item)
    held = _reports_of_held(records)
    chosen = {}
    several: dict[tuple[str, str], list[str]] = {}
    for (label, problem), items in groups.items():
        reports = dict.fromkeys(item.launch.id.report for item in items)
        report = max(reports, key=lambda name: (name not in held, list(reports).index(name)))
        those = [item for item in items if item.launch.id.report == report]
        found = chosen[label, problem] = max(those, key=_duration)
        called = f"{label} {problem}".strip()
        where = files[report].name if report in files else report
        if len(items) > 1:
            differ_in = _unlike(items, records)
            which = f"{len(items)} launches" + (f" in {len(reports)} reports" if len(reports) > 1 else "")
            choice = f"the longest in {where}" if len(those) > 1 else f"the one in {where}"
            which += f", which differ in {' and '.join(differ_in)}" if differ_in else ""
            several.setdefault((which, choice), []).append(called)
        if not found.launch.collected:
            number = f"{found.launch.id.range}.{found.launch.id.launch}"
            warnings.append(f"{called}: the launch was not collected ({where}, launch {number})")
    for (which, choice), ones in several.items():
        warnings.append(f"{_listed(ones)}: {which}; the counters are those of {choice}")
    return chosen


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if names[_LISTED:] else "")


def _unlike(items: Sequence[Evaluated], records: Sequence[RunRecord]) -> list[str]:
    """In what launches of one label and problem differ: those are no repetitions of one measurement."""
    launches = [item.launch for item in items]
    key = (launches[0].label, launches[0].problem)
    runs = [run for item in items if (run := _run_of(item, records)) is not None]
    builds = {build for run in runs if (build := sources([run]).get(key)) is not None}
    ways: dict[str, set[Any]] = {
        "source or flags": builds,
        "function": {one.name for one in launches},
        "grid": {one.grid for one in launches},
        "block": {one.block for one in launches},
        "device": {one.device for one in launches if one.device != Device()},
    }
    return [name for name, held in ways.items() if len(held) > 1]


def _reports_of_held(records: Sequence[RunRecord]) -> set[str]:
    """Reports of runs that hold kernels to fewer blocks an SM than fit."""
    return {
        str(Path(record.path) / name)
        for record in records
        if any(run.blocks_per_sm for run in record.kernels)
        for name in record.reports
    }


def _duration(item: Evaluated) -> float:
    duration = item.number("duration")
    return duration if duration == duration else -1.0


def _order(
    launches: Mapping[tuple[str, str], Evaluated],
    results: Mapping[tuple[str, str], Any],
    records: Sequence[RunRecord],
) -> tuple[str, ...]:
    """Labels in the order of the runs' own lists, the longest list first; the reference comes last."""
    held = {label for label, _ in (*launches, *results)}
    longest_first = sorted(records, key=lambda record: -len({run.label for run in record.kernels}))
    listed = [run.label for record in longest_first for run in record.kernels if run.label in held]
    ordered = dict.fromkeys([*listed, *(label for label, _ in launches), *(label for label, _ in results)])
    return tuple(sorted(ordered, key=lambda label: label in REFERENCES))


def _problems(
    launches: Mapping[tuple[str, str], Evaluated],
    results: Mapping[tuple[str, str], Any],
    records: Sequence[RunRecord],
) -> tuple[str, ...]:
    work = {run.problem: run.flops for record in records for run in record.kernels}
    found = dict.fromkeys(problem for _, problem in (*launches, *results))
    return tuple(sorted(found, key=lambda problem: work.get(problem, 0.0)))


def _add_counters(
    values: dict[tuple[str, str, str], Traced],
    label: str,
    problem: str,
    item: Evaluated,
    files: Mapping[str, RunFile],
) -> None:
    launch = item.launch
    file = files.get(launch.id.report, RunFile(launch.id.report, ""))

    def source(formula: str, counters: Iterable[str]) -> Source:
        read = tuple(
            (name, held.value, held.unit)
            for name in counters
            if (held := launch.counters.get(name)) is not None
        )
        return Source(
            kind="counters",
            file=file.name,
            sha256=file.sha256,
            launch=f"{launch.id.range}.{launch.id.launch}",
            kernel=launch.name,
            formula=formula,
            counters=read,
        )

    for name, metric in item.metrics.items():
        values[name, label, problem] = Traced(
            value=metric.value,
            unit=metric.unit,
            source=source(metric.formula, metric.counters),
            status=metric.status,
            reason=metric.reason,
        )
    values["kernel_name", label, problem] = Traced(launch.kernel, "", source("the launch's function", ()))
    bandwidth = dram_bandwidth(launch)
    if bandwidth is not None:
        values["dram_bandwidth", label, problem] = Traced(
            bandwidth.value, bandwidth.unit, source(bandwidth.origin, bandwidth.counters)
        )
    counted = counted_flops(item)
    if counted is not None:
        values["counted_flops", label, problem] = Traced(
            counted.value,
            "FLOP",
            source(counted.formula, counted.counters),
            Status.INVALID if counted.doubt else Status.OK,
            counted.doubt,
        )


def _timings_of(
    launches: Mapping[Key, Evaluated], records: Sequence[RunRecord], warnings: list[str]
) -> dict[Key, Timed]:
    """The timing of each kernel, not of another source, or with other flags, than that of its counters.

    Warnings name what is left out for that, and kernels that were timed in several builds.
    """
    built = {id(record): sources([record]) for record in records}
    own = {
        key: built[id(record)].get(key)
        for key, item in launches.items()
        if (record := _run_of(item, records)) is not None
    }

    def usable(record: RunRecord, result: Mapping[str, Any]) -> bool:
        key = (str(result["label"]), str(result["problem"]))
        return not differ(own.get(key), built[id(record)].get(key))

    found = timings(records, usable=usable)
    every = timings(records)
    if left := [f"{label} {problem}".strip() for label, problem in every.keys() - found.keys()]:
        warnings.append(
            f"{_listed(sorted(left))}: the timings are left out, since they are of another source, or of "
            "other flags, than the counters: time and profile one build"
        )
    several = [
        f"{label} {problem}".strip()
        for label, problem in found
        if own.get((label, problem)) is None
        and len({build for one in built.values() if (build := one.get((label, problem))) is not None}) > 1
    ]
    if several:
        warnings.append(f"{_listed(several)}: timed in several builds; the newest timing counts")
    return found


def _too_little(
    launches: Mapping[Key, Evaluated],
    evaluated: Sequence[Evaluated],
    values: Mapping[tuple[str, str, str], Traced],
) -> Iterator[str]:
    """Launches that moved less than their work needs; of a library call of several the work is not split."""
    of_call = Tally((one.launch.id.report, one.launch.key, one.launch.problem) for one in evaluated)
    for (label, problem), item in launches.items():
        least = values.get(("least_bytes", label, problem))
        launch = item.launch
        if least is None or of_call[launch.id.report, launch.key, launch.problem] > 1:
            continue
        if said := moved_too_little(item, least.number):
            yield f"{label} {problem}".strip() + f": {said}"


def _run_of(item: Evaluated, records: Sequence[RunRecord]) -> RunRecord | None:
    """The run whose report holds the launch."""
    report = item.launch.id.report
    return next((r for r in records if any(str(Path(r.path) / name) == report for name in r.reports)), None)


def _builds(
    launches: Mapping[Key, Evaluated], records: Sequence[RunRecord], results: Mapping[Key, Timed]
) -> Iterator[tuple[RunRecord, KernelRun]]:
    """What the runs know of each kernel and problem: the run of its counters, else that of its timing, else
    the last. Other runs may have built other code under the name.
    """
    held: dict[Key, dict[int, tuple[RunRecord, KernelRun]]] = {}
    for record in records:
        for run in record.kernels:
            held.setdefault((run.label, run.problem), {})[id(record)] = (record, run)
    for key, by_run in held.items():
        own = _run_of(launches[key], records) if key in launches else None
        timed = results[key][0] if key in results else None
        chosen = next((one for one in (own, timed) if one is not None and id(one) in by_run), None)
        yield by_run[id(chosen)] if chosen is not None else list(by_run.values())[-1]


def _add_kernel(values: dict[tuple[str, str, str], Traced], run: KernelRun, file: RunFile) -> None:
    """What a run knows of a kernel before it launches it: the work model, and what was compiled."""
    build = run.build or {}
    loop = build.get("loop") or {}
    for name, value, where, unit in (
        ("flops", run.flops or None, "flops", "FLOP"),
        ("least_bytes", run.least_bytes or None, "least_bytes", "byte"),
        ("spill_bytes", build.get("spill_store_bytes"), "build.spill_store_bytes", "byte"),
        ("loop_instructions", loop.get("total"), "build.loop.total", "instruction"),
        ("loop_fmas", loop.get("ffma"), "build.loop.ffma", "instruction"),
    ):
        if value is not None:
            formula = f"kernels[{run.label}, {run.problem}].{where}"
            source = Source("bench", file.name, file.sha256, kernel=run.title, formula=formula)
            values[name, run.label, run.problem] = Traced(float(value), unit, source)


def _add_bench(
    values: dict[tuple[str, str, str], Traced],
    label: str,
    problem: str,
    result: Mapping[str, Any],
    file: RunFile,
) -> None:
    protocol = f"{result.get('protocol', '')} protocol, {result.get('cache', 'hot')} cache"
    verification = result.get("verification") or {}
    entries = [
        *((name, key, unit, result.get(key)) for name, key, unit in _BENCH),
        *((name, f"verification.{name}", "", verification.get(name)) for name in _VERIFICATION),
    ]
    for name, key, unit, value in entries:
        source = Source(
            kind="bench",
            file=file.name,
            sha256=file.sha256,
            kernel=str(result.get("title", "")),
            formula=f"results[{label}, {problem}].{key}",
            note=protocol,
        )
        values[name, label, problem] = Traced(
            value=None if value is None else float(value),
            unit=unit,
            source=source,
            status=Status.NOT_COLLECTED if value is None else Status.OK,
            reason=f"the bench run {file.name} has no {key} for it" if value is None else "",
        )
