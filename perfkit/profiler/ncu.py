"""Run a program under ncu: the command line, its progress, its timeout, and what its failure means."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.errors import PerfkitError, ToolError
from perfkit.kernels.cuda_driver import driver_version
from perfkit.profiler.ncu_command import NcuOptions, ncu_command
from perfkit.profiler.ncu_failures import Failure, explain_failure
from perfkit.profiler.ncu_output import NcuOutput, ProfiledLaunch
from perfkit.profiler.ncu_tool import NcuTool
from perfkit.profiler.process import run_streaming

Line = Callable[[str, str], None]
Progress = Callable[[NcuOutput], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a profile went. `report` is None when none was written; `problem` is None when all went well.

    A report can stand beside a problem: what was profiled before a program failed or ran out of time is kept.
    `status` is that of model.RunRecord: complete, failed, interrupted, timeout. `seconds` is wall time.
    """

    status: str
    report: Path | None
    problem: PerfkitError | None
    launches: tuple[ProfiledLaunch, ...]
    warnings: tuple[str, ...]
    command: tuple[str, ...]
    seconds: float

    @property
    def most_passes(self) -> int:
        """The most replay passes any launch took; 0 when ncu did not say."""
        return max((launch.passes or 0 for launch in self.launches), default=0)


def profile_command(
    tool: NcuTool,
    options: NcuOptions,
    report: Path,
    target: Sequence[str],
    *,
    timeout: float | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    stdin: int | None = subprocess.DEVNULL,
    on_line: Line | None = None,
    on_progress: Progress | None = None,
) -> Outcome:
    """Profile `target` and write `report` (a .ncu-rep path in a folder that exists).

    Everything ncu and the program print goes to `log`, and line by line to `on_line`. `timeout` is in
    seconds. Ctrl-C gives an Outcome of status interrupted. Raises ToolError only when ncu cannot be started
    at all.
    """
    command = ncu_command(tool, options, report, target)
    output = NcuOutput(on_line, on_progress)
    started = time.monotonic()
    with (log or Path(os.devnull)).open("wb") as stream:
        stream.write((shlex.join(command) + "\n").encode())

        def take(piece: bytes) -> None:
            stream.write(piece)
            stream.flush()
            output.feed(piece)

        try:
            ended = run_streaming(command, take, timeout=timeout, cwd=cwd, env=env, stdin=stdin)
        except OSError as error:
            raise ToolError(
                f"{command[0]} cannot be started: {error.strerror or error}", "`perfkit doctor` checks it."
            ) from error
    output.close()
    written = _written(report)
    problem = None
    if not ended.interrupted:
        problem = explain_failure(
            Failure(
                output=output,
                exit_code=ended.code,
                timed_out=ended.timed_out,
                timeout=timeout,
                report_written=written is not None,
                filters=_filters(options),
                program=shlex.join(target[:4]) + (" ..." if len(target) > 4 else ""),
                ncu_version=tool.version,
                driver_version=driver_version(),
            )
        )
    return Outcome(
        status=_status(ended.interrupted, ended.timed_out, problem),
        report=written,
        problem=problem,
        launches=tuple(output.launches),
        warnings=tuple(output.warnings),
        command=tuple(command),
        seconds=time.monotonic() - started,
    )


def _filters(options: NcuOptions) -> str:
    filters = str(options.filters)
    if options.from_start:
        return filters
    return "--profiler-range" if filters == "none" else f"{filters} --profiler-range"


def _written(report: Path) -> Path | None:
    """The report, under the name asked for; some releases add the extension a second time."""
    for path in (report, report.with_name(report.name + ".ncu-rep")):
        if path.is_file() and path.stat().st_size:
            if path != report:
                path.replace(report)
            return report
    return None


def _status(interrupted: bool, timed_out: bool, problem: PerfkitError | None) -> str:
    if interrupted:
        return "interrupted"
    if timed_out:
        return "timeout"
    return "failed" if problem else "complete"
