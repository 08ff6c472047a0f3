"""Reading reports: every launch of every file, or an error that says what is wrong with which file.

Each file is checked by its container first (container.py), then read by NVIDIA's library (reader.py), both
in a process of their own, because that library can crash on a damaged file: a crash or a hang takes down
that file, not the command. There is no other way of reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfkit.analysis import reader
from perfkit.analysis.beside import read_json
from perfkit.analysis.container import Container, Result
from perfkit.analysis.counters import CounterMap, Raw
from perfkit.analysis.file_kind import AGAIN
from perfkit.analysis.isolated import unpack
from perfkit.analysis.opcode_counts import own_label
from perfkit.analysis.prepared import prepared
from perfkit.analysis.reader import RawLaunch
from perfkit.analysis.workers import Failure, Workers
from perfkit.errors import CannotError, PerfkitError, ReportError
from perfkit.model import Device, Dim3, Launch, LaunchId, Report, WorkloadKind

__all__ = ["Report", "library_version", "read_report", "read_reports"]

library_version = reader.library_version

_MOST_NAMED = 6


def read_report(path: str | Path, counters: Sequence[str] | None) -> Report:
    """Read one file; see `read_reports`. Raises ReportError when no launch of it can be read."""
    return read_reports([path], counters)[0]


def read_reports(
    paths: Sequence[str | Path],
    counters: Sequence[str] | None,
    *,
    jobs: int = 1,
    keep_going: bool = False,
    progress: Callable[[Report], None] | None = None,
) -> list[Report]:
    """Read files in the order given: every launch, with those of `counters` (None: all) that the file holds.

    `jobs` processes read at a time. `progress` is called with every report, in order of completion.

    Raises ReportError for the first file of which nothing can be read; with `keep_going` such a file comes
    back as a Report with `error` set. What is missing from a file that can be read is in `lost` and
    `problems`. Raises CannotError where ncu_report is not installed, or there is no room to unpack a file.
    """
    files = [Path(path) for path in paths]
    reports: list[Report | None] = [None] * len(files)

    def done(index: int, report: Report) -> None:
        reports[index] = report
        if progress is not None:
            progress(report)

    reader.library()
    with Workers(max(1, min(jobs, len(files)))) as workers:
        workers.map(lambda file: _read(file, counters, workers), files, done)
    result = [report for report in reports if report is not None]
    if not keep_going:
        for report in result:
            if report.error:
                raise ReportError(report.error, report.remedy)
    return result


def _read(path: Path, counters: Sequence[str] | None, workers: Workers) -> Report:
    """One file, with every error about it turned into a Report that holds it."""
    try:
        raw = workers.read(str(path), counters)
        if not isinstance(raw, Failure):
            packed, launches, notes = raw
            return _assemble(path, unpack(path, packed), launches, notes)
        with prepared(path) as source:  # only the library crashes: what the file declares can still be told
            checked = source.container
    except CannotError:
        raise
    except PerfkitError as error:
        return Report(str(path), (), "", error=error.message, remedy=error.remedy)
    problems = "; ".join(checked.problems)
    why = f"{raw.what}{f'; the file {problems}' if problems else ''}"
    return Report(
        str(path), (), checked.ncu_version, checked.expected_launches, checked.expected_launches,
        checked.truncated, checked.problems, f"{path}: {why}", AGAIN,
    )  # fmt: skip


def _assemble(path: Path, checked: Container, raw: list[RawLaunch], notes: tuple[str, ...]) -> Report:
    results = _in_step(raw, checked.results)
    launches = _launches(path, checked.ncu_version, raw, results)
    problems = [*checked.problems, *_disagreements(launches, raw, checked, results)]
    if launches and not launches[0].gpu:
        problems.append("does not say which GPU it is of: it may have been cut after its first launches")
    lost = max(checked.expected_launches - len(launches), 0)
    if lost:
        problems.append(f"has lost {lost} of the {checked.expected_launches} launches that it declares")
    report = Report(
        str(path), launches, checked.ncu_version, checked.expected_launches, lost,
        checked.truncated, (*problems, *notes),
    )  # fmt: skip
    return (
        report
        if launches
        else replace(report, error=f"{path}: {_why_empty(checked, problems)}", remedy=AGAIN)
    )


def _in_step(raw: Sequence[RawLaunch], results: Sequence[Result]) -> Sequence[Result] | None:
    """The container's results where each is the launch that the library gives at its place, else None."""
    if len(raw) != len(results):
        return None
    for (_, _, kernel, _, kind, *_), result in zip(raw, results, strict=True):
        if kernel and kind and kind != result.kind:
            return None
        if kernel and result.name and kernel.isascii() and kernel != result.name:
            return None
    return results


def _launches(
    path: Path, version: str, raw: Sequence[RawLaunch], results: Sequence[Result] | None
) -> tuple[Launch, ...]:
    """The launches that the library could parse."""
    found: list[Launch] = []
    numbers: Counter[WorkloadKind] = Counter()
    for place, one in enumerate(raw):
        result = results[place] if results else None
        kind = WorkloadKind(one[4]) if one[4] else (result.kind if result else WorkloadKind.KERNEL)
        if one[2]:
            launch = _launch(str(path), version, one, kind, numbers[kind])
            found.append(replace(launch, process=result.process) if result else launch)
        numbers[kind] += 1
    return tuple(_with_uuid(path, found))


def _disagreements(
    launches: Sequence[Launch], raw: Sequence[RawLaunch], checked: Container, results: Sequence[Result] | None
) -> list[str]:
    """What the container and the library say differently: sentences for people."""
    said: list[str] = []
    unparsed = [LaunchId("", one[0], one[1]).number for one in raw if not one[2]]
    if unparsed:
        said.append(f"is damaged: launch {_listed(unparsed)} cannot be parsed")
    if len(raw) != len(checked.results):
        said.append(
            f"is damaged: its blocks hold {len(checked.results)} launches and ncu_report reads {len(raw)}"
        )
    elif results is None:
        said.append("is damaged: its blocks name other launches than ncu_report reads")
    else:
        places = {(one[0], one[1]): result for one, result in zip(raw, results, strict=True)}
        for launch in launches:
            said += _wrong_shape(launch, places[launch.id.range, launch.id.launch])
    return said


def _wrong_shape(launch: Launch, result: Result) -> list[str]:
    """A result holds grid and block twice: as counters, which the library reads, and beside its name."""
    said = []
    if launch.block and result.block and launch.block != result.block:
        said.append(
            f"is damaged: the block of launch {launch.id.number} is both {launch.block} and {result.block}"
        )
    if launch.grid and launch.block and result.grid and launch.grid != result.grid:
        # ncu 2020 counts the grid beside the name in threads.
        x, y, z = (blocks * threads for blocks, threads in zip(launch.grid, launch.block, strict=True))
        if result.grid != (x, y, z):
            said.append(
                f"is damaged: the grid of launch {launch.id.number} is both {launch.grid} and {result.grid}"
            )
    return said


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _why_empty(checked: Container, problems: list[str]) -> str:
    if problems:
        return f"no launch can be read: the file {'; '.join(problems)}"
    if checked.expected_launches == 0:
        return "holds no launch: no kernel was profiled"
    versions = f"the report was made by ncu {checked.ncu_version}, the reader is {library_version()}"
    return f"no launch can be read; {versions}"


def _launch(report: str, version: str, raw: RawLaunch, kind: WorkloadKind, number: int) -> Launch:
    range_index, index, kernel, name, _, nvtx, collected, values = raw
    key, problem = own_label(nvtx)
    word = kind.replace("_", " ")
    if kind is not WorkloadKind.KERNEL and kernel in (word, kind):
        # Ranges and graphs have no name of their own, and two of them are not the same thing.
        kernel = name = f"{word} {number}"
    is_kernel = kind is WorkloadKind.KERNEL
    return Launch(
        id=LaunchId(report, range_index, index),
        kernel=kernel,
        name=name,
        gpu=str(values.get("device__attribute_display_name", ("",))[0] or ""),
        compute_capability=(
            _integer(values, "device__attribute_compute_capability_major") or 0,
            _integer(values, "device__attribute_compute_capability_minor") or 0,
        ),
        ncu_version=version,
        grid=_dim3(values, "launch__grid_dim_") if is_kernel else None,
        block=_dim3(values, "launch__block_dim_") if is_kernel else None,
        collected=collected,
        key=key,
        problem=problem,
        nvtx=nvtx,
        kind=kind,
        device=_device(values),
        counters=CounterMap(values),
    )


def _device(values: Mapping[str, Raw]) -> Device:
    places = [_integer(values, f"device__attribute_pci_{part}_id") for part in ("domain", "bus", "device")]
    known = [place for place in places if place is not None]
    pci = "{:04x}:{:02x}:{:02x}".format(*known) if len(known) == len(places) else ""
    return Device(_integer(values, "launch__device_id"), pci)


def _with_uuid(path: Path, launches: Sequence[Launch]) -> Sequence[Launch]:
    """Launches of perfkit's own runner know the UUID of their GPU, from the run.json beside the report.

    The runner uses one GPU, the one that run.json describes. A program of somebody else's may have chosen
    another.
    """
    own = [launch for launch in launches if launch.key is not None]
    if not own or len({launch.device for launch in own}) != 1:
        return launches
    run, _ = read_json(path.parent / "run.json")
    if not isinstance(run, dict) or not run.get("kernels") or path.name not in (run.get("reports") or ()):
        return launches
    gpu = run.get("gpu")
    if not isinstance(gpu, dict) or not isinstance(gpu.get("uuid"), str) or gpu.get("name") != own[0].gpu:
        return launches
    device = replace(own[0].device, uuid=gpu["uuid"])
    return [replace(one, device=device) if one.key is not None else one for one in launches]


def _integer(values: Mapping[str, Raw], name: str) -> int | None:
    value = values.get(name, (None,))[0]
    return int(value) if isinstance(value, (int, float)) and abs(value) < 1 << 63 else None


def _dim3(values: Mapping[str, Raw], prefix: str) -> Dim3 | None:
    x, y, z = (_integer(values, prefix + axis) for axis in "xyz")
    return (x, y, z) if x and y and z else None
