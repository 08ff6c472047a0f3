"""Reading reports: every launch of every file, or an error that says what is wrong with which file.

Each file is checked by its container first (container.py), then read by NVIDIA's library (reader.py) in a
process of its own, because that library can crash on a damaged file: a crash or a hang takes down that
file, not the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from perfkit.analysis import container, reader
from perfkit.analysis.counters import CounterMap, Raw
from perfkit.analysis.workers import Failure, Workers
from perfkit.errors import PerfkitError, ReportError
from perfkit.model import Dim3, Launch, LaunchId, Report

__all__ = ["Report", "library_version", "read_report", "read_reports"]

library_version = reader.library_version

_OWN_RANGE = re.compile(r"perfkit:([^:]+):(.*)", re.DOTALL)
_AGAIN = "Copy it again from where it was made (compare the sizes), or profile again."


def read_report(path: str | Path, counters: Sequence[str] | None) -> Report:
    """Read one file; see `read_reports`. Raises ReportError when no launch of it can be read."""
    return read_reports([path], counters)[0]


def read_reports(
    paths: Sequence[str | Path],
    counters: Sequence[str] | None,
    *,
    jobs: int = 1,
    isolate: bool = True,
    keep_going: bool = False,
    progress: Callable[[Report], None] | None = None,
) -> list[Report]:
    """Read files in the order given: every launch, with those of `counters` (None: all) that the file holds.

    `jobs` processes read at a time. Without `isolate` a file whose container is whole is read in this
    process, which is faster by the few milliseconds a process costs, but a crash of the library would be a
    crash of the caller. `progress` is called with every report, in order of completion.

    Raises ReportError for the first file of which nothing can be read; with `keep_going` such a file comes
    back as a Report with `error` set. What is missing from a file that can be read is in `lost` and
    `problems`. Raises CannotError where ncu_report is not installed.
    """
    reader.library()
    files = [Path(path) for path in paths]
    reports: list[Report | None] = [None] * len(files)

    def done(index: int, report: Report) -> None:
        reports[index] = report
        if progress is not None:
            progress(report)

    if not isolate and jobs == 1:
        with Workers(counters, 1) as workers:
            for index, file in enumerate(files):
                done(index, _read(file, counters, workers, in_process=True))
    else:
        with Workers(counters, max(1, min(jobs, len(files)))) as workers:
            workers.map(lambda file: _read(file, counters, workers, in_process=False), files, done)
    result = [report for report in reports if report is not None]
    if not keep_going:
        for report in result:
            if report.error:
                raise ReportError(report.error, report.remedy)
    return result


def _read(path: Path, counters: Sequence[str] | None, workers: Workers, *, in_process: bool) -> Report:
    """One file, with every error about it turned into a Report that holds it."""
    try:
        container.check_kind(path)
        with container.unpacked(path) as (file, problem):
            checked = container.inspect(file)
            if in_process and checked.clean and not problem:
                raw: list[reader.RawLaunch] | Failure = reader.read_raw(str(file), counters)
            else:
                raw = workers.read(str(file))
    except PerfkitError as error:
        return Report(str(path), (), "", error=_named(error.message, path), remedy=error.remedy)
    except Exception as error:  # noqa: BLE001 - the library raises what it likes; whatever it is, it is about this file
        return Report(str(path), (), "", error=f"{path}: ncu_report cannot read it: {error}", remedy=_AGAIN)
    if isinstance(raw, Failure):
        problems = "; ".join(checked.problems)
        why = f"{raw.what}{f'; the file {problems}' if problems else ''}"
        return Report(
            str(path), (), checked.ncu_version, checked.expected_launches, checked.expected_launches,
            checked.truncated, checked.problems, f"{path}: {why}", _AGAIN,
        )  # fmt: skip
    return _assemble(path, checked, raw, problem)


def _named(message: str, path: Path) -> str:
    """The message with the path the user gave, where it names a temporary file."""
    return message if str(path) in message else f"{path}: {message.split(': ', 1)[-1]}"


def _assemble(path: Path, checked: container.Container, raw: list[reader.RawLaunch], problem: str) -> Report:
    name = str(path)
    if checked.lost:
        # Of a block that is cut short the library makes a launch all the same, with the counters up to the
        # cut.
        raw = raw[: checked.expected_launches - checked.lost]
    launches = tuple(_launch(name, checked.ncu_version, one) for one in raw)
    problems = [*([problem] if problem else []), *checked.problems]
    if launches and not launches[0].gpu:
        problems.append("does not say which GPU it is of: it may have been cut after its first launches")
    lost = max(checked.lost, checked.expected_launches - len(launches))
    if lost > 0 and not checked.truncated:
        problems.append(
            f"is damaged: it declares {checked.expected_launches} launches and ncu_report reads"
            f" {len(launches)}; {lost} lost"
        )
    elif lost < 0:
        problems.append(
            f"is damaged: it declares {checked.expected_launches} launches, {len(launches)} can be read"
        )
    report = Report(
        name, launches, checked.ncu_version, checked.expected_launches, max(lost, 0),
        checked.truncated or bool(problem), tuple(problems),
    )  # fmt: skip
    return (
        report
        if launches
        else replace(report, error=f"{path}: {_why_empty(checked, problems)}", remedy=_AGAIN)
    )


def _why_empty(checked: container.Container, problems: list[str]) -> str:
    if problems:
        return f"no launch can be read: the file {'; '.join(problems)}"
    if checked.expected_launches == 0:
        return "holds no launch: no kernel was profiled"
    versions = f"the report was made by ncu {checked.ncu_version}, the reader is {library_version()}"
    return f"no launch can be read; {versions}"


def _launch(report: str, version: str, raw: reader.RawLaunch) -> Launch:
    range_index, index, kernel, name, nvtx, collected, values = raw
    key, problem = None, ""
    for text in nvtx:
        if found := _OWN_RANGE.fullmatch(text):
            key, problem = found[1], found[2]
    return Launch(
        id=LaunchId(report, range_index, index),
        kernel=kernel,
        name=name,
        gpu=str(values.get("device__attribute_display_name", ("",))[0] or ""),
        compute_capability=(
            _integer(values, "device__attribute_compute_capability_major"),
            _integer(values, "device__attribute_compute_capability_minor"),
        ),
        ncu_version=version,
        grid=_dim3(values, "launch__grid_dim_"),
        block=_dim3(values, "launch__block_dim_"),
        collected=collected,
        key=key,
        problem=problem,
        nvtx=nvtx,
        counters=CounterMap(values),
    )


def _integer(values: dict[str, Raw], name: str) -> int:
    value = values.get(name, (None,))[0]
    return int(value) if isinstance(value, (int, float)) and value == value else 0


def _dim3(values: dict[str, Raw], prefix: str) -> Dim3 | None:
    x, y, z = (_integer(values, prefix + axis) for axis in "xyz")
    return (x, y, z) if x and y and z else None
