"""A profile from start to stored run: the ladder's kernels, or any program.

The caller hands over the counters to collect (the metric sets live in another room) and looks at the returned
run; a run that failed is stored too, with its status, and raised only after that.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import perfkit
from perfkit.errors import (
    CannotError,
    CheckFailedError,
    PerfkitError,
    ToolError,
    UsageError,
)
from perfkit.kernels.cuda_driver import first_gpu
from perfkit.kernels.plan import KernelPlan, Plan, plan_kernel, write_plan
from perfkit.kernels.sizes import evaluate
from perfkit.model import BuildResult, GpuInfo, KernelRun, KernelSpec, RunRecord, Verification
from perfkit.profiler.ncu import Line, Outcome, Progress, profile_command
from perfkit.profiler.ncu_command import Filters, NcuOptions, ncu_command, resolve_target
from perfkit.profiler.ncu_tool import NcuTool, check_temporary_folder, find_ncu
from perfkit.profiler.process import redirected_stdin
from perfkit.profiler.run_store import RunFolder, RunStore, load_run
from perfkit.profiler.sass_file import write_sass_file
from perfkit.profiler.selection import KernelRequest as KernelRequest
from perfkit.profiler.selection import count_launches
from perfkit.profiler.selection import select as select

REPORT = "profile.ncu-rep"
LOG = "ncu.log"
SASS = "profile.sass.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to collect: shared by kernels and programs. `timeout` in seconds, None waits for ever.

    `sets` only names the metric sets that `counters` came from, for the record. `source` keeps the SASS in
    the report and counts by instruction. `typed` are those of `counters` that the user named.
    """

    counters: tuple[str, ...]
    sets: tuple[str, ...] = ()
    clock_control: str = "none"
    cache_control: str = "all"
    timeout: float | None = None
    source: bool = False
    typed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profiled:
    """A stored run and, where it did not go well, the error to raise once it was shown.

    `passes` is the most. `warnings` are what the report lacks, beside the problem.
    """

    record: RunRecord
    path: Path
    problem: PerfkitError | None
    passes: int
    seconds: float
    warnings: tuple[str, ...] = ()


# What a whole report lacks: a sentence each, and the error that it is where the user asked for it by name.
Examine = Callable[[Path], tuple[tuple[str, ...], PerfkitError | None]]


def profile_kernels(
    wanted: Sequence[KernelRequest],
    settings: Settings,
    *,
    verify: bool = True,
    carveout: int | None = None,
    seed: int = 0,
    store: RunStore | None = None,
    command: Sequence[str] = (),
    examine: Examine | None = None,
    on_built: Callable[[BuildResult], None] = lambda _: None,
    on_line: Line | None = None,
    on_progress: Progress | None = None,
) -> Profiled:
    """Build, launch and profile kernels in one ncu process, and store the run.

    Raises UsageError, CannotError or CompileError before anything is started, KeyboardInterrupt after the
    interrupted run was stored; every other failure is in the result's `problem`.
    """
    if not wanted:
        raise UsageError("there is no kernel to profile", "`perfkit kernels` lists them.")
    tool = find_ncu()
    gpu = first_gpu()
    built = build_all([request.spec for request in wanted], gpu, on_built)
    plans = [
        plan_kernel(
            request.spec,
            built.get(request.spec.key),
            request.size,
            blocks_per_sm=request.blocks_per_sm,
            carveout=carveout,
            verify=verify,
        )
        for request in wanted
    ]
    options = _options(settings, from_start=False)
    check_temporary_folder()
    folder = (store or RunStore()).create("profile")
    plan = Plan(str(folder.scratch / "RESULT.json"), tuple(plans), seed)
    plan_file = folder.scratch / "PLAN.json"
    write_plan(plan, plan_file)
    target = [sys.executable, "-m", "perfkit.kernels.runner", str(plan_file)]
    session = _Session(folder, tool, settings, tuple(command) or ("perfkit", "profile"), examine=examine)
    outcome = session.run(options, target, None, on_line, on_progress)
    result = _read_result(Path(plan.result))
    kernels = tuple(
        _kernel_run(request, kernel, built.get(request.spec.key), result, launches)
        for request, kernel, launches in zip(
            wanted, plans, count_launches(wanted, plans, outcome.launches), strict=True
        )
    )
    problem = _kernel_problem(outcome, result, kernels)
    messages: tuple[str, ...] = ()
    if outcome.report:
        message = write_sass_file(folder.scratch / SASS, built.values())
        messages = (message,) if message else ()
        if not message and built:
            folder.keep(SASS)
    return session.finish(
        outcome,
        kernels,
        gpu=_gpu_of(result) or gpu,
        versions={**(result.get("versions") or {}), "compiler": _compilers(built)},
        extra_options={"seed": seed, "verify": verify},
        problem=problem,
        messages=messages,
    )


def profile_program(
    target: Sequence[str],
    settings: Settings,
    filters: Filters,
    *,
    cwd: Path | None = None,
    from_start: bool = True,
    what: str = "profile",
    store: RunStore | None = None,
    command: Sequence[str] = (),
    examine: Examine | None = None,
    on_line: Line | None = None,
    on_progress: Progress | None = None,
) -> Profiled:
    """Profile any program, children included, and store the run. Errors as in `profile_kernels`.

    `what` is "list" for a run that only counts launches, so that nobody takes it for the latest profile.
    """
    tool = find_ncu()
    program = resolve_target(target, cwd)
    options = dataclasses.replace(_options(settings, from_start=from_start), filters=filters)
    check_temporary_folder()
    folder = (store or RunStore()).create(what)
    called = tuple(command) or ("perfkit", "profile", "--", *target)
    session = _Session(folder, tool, settings, called, what, examine)
    outcome = session.run(options, program, cwd, on_line, on_progress, redirected_stdin())
    try:
        gpu: GpuInfo | None = first_gpu()
    except CannotError:
        gpu = None  # the program may have chosen another; the report names the GPU of each launch
    return session.finish(
        outcome,
        (),
        gpu=gpu,
        versions={},
        extra_options={"filters": str(filters), "program": list(program), "cwd": str(cwd or Path.cwd())},
        problem=outcome.problem,
    )


def dry_run(target: Sequence[str], settings: Settings, filters: Filters, from_start: bool = True) -> str:
    """The ncu command line that would be run, quoted for a shell."""
    options = dataclasses.replace(_options(settings, from_start=from_start), filters=filters)
    try:
        tool = find_ncu()
    except CannotError:
        tool = NcuTool("ncu", "", frozenset())
    return shlex.join(ncu_command(tool, options, Path("RUN") / REPORT, target))


def build_all(
    specs: Iterable[KernelSpec], gpu: GpuInfo, done: Callable[[BuildResult], None] = lambda _: None
) -> dict[str, BuildResult]:
    """Build every kernel that has a source, for this GPU; `done` hears of each. Raises CompileError or
    CannotError.
    """
    from perfkit.profiler.build import build_many

    major, minor = gpu.compute_capability
    sources = {spec.key: spec for spec in specs if not spec.library}
    return {
        result.key: result for result in build_many(list(sources.values()), f"sm_{major}{minor}", done=done)
    }


def _options(settings: Settings, *, from_start: bool) -> NcuOptions:
    return NcuOptions(
        counters=settings.counters,
        clock_control=settings.clock_control,
        cache_control=settings.cache_control,
        from_start=from_start,
        source=settings.source,
    )


@dataclass(frozen=True, slots=True)
class _Session:
    """One run folder while its profile is made."""

    folder: RunFolder
    tool: NcuTool
    settings: Settings
    command: tuple[str, ...]
    what: str = "profile"
    examine: Examine | None = None
    started: str = dataclasses.field(default_factory=lambda: _now())

    def run(
        self,
        options: NcuOptions,
        target: Sequence[str],
        cwd: Path | None,
        on_line: Line | None,
        on_progress: Progress | None,
        stdin: int | None = subprocess.DEVNULL,
    ) -> Outcome:
        """Profile into the scratch folder; what is whole moves into the run."""
        outcome = profile_command(
            self.tool,
            options,
            self.folder.scratch / REPORT,
            target,
            timeout=self.settings.timeout,
            cwd=cwd,
            env=_environment(),
            log=self.folder.scratch / LOG,
            stdin=stdin,
            on_line=on_line,
            on_progress=on_progress,
        )
        self.folder.keep(LOG)
        if outcome.report:
            self.folder.keep(REPORT)
        return outcome

    def finish(
        self,
        outcome: Outcome,
        kernels: tuple[KernelRun, ...],
        *,
        gpu: GpuInfo | None,
        versions: Mapping[str, str],
        extra_options: Mapping[str, Any],
        problem: PerfkitError | None,
        messages: tuple[str, ...] = (),
    ) -> Profiled:
        """Store the run. Raises KeyboardInterrupt when the user ended it.

        A wrong result or a counter that is missing leaves the run complete: it was measured as it is.
        """
        status = outcome.status
        if status == "complete" and problem and not isinstance(problem, CheckFailedError):
            status = "failed"
        lacks: tuple[str, ...] = ()
        missing: PerfkitError | None = None
        if self.examine and outcome.report and status == "complete":
            lacks, missing = self.examine(self.folder.path / REPORT)
        record = RunRecord(
            id=self.folder.id,
            what=self.what,
            status=status,
            command=self.command,
            started=self.started,
            ended=_now(),
            perfkit_version=perfkit.__version__,
            gpu=gpu,
            versions={
                "ncu": self.tool.version,
                "driver": gpu.driver if gpu else "",
                "python": platform.python_version(),
                **versions,
            },
            options={**self._options(outcome), **extra_options},
            kernels=kernels,
            reports=(REPORT,) if outcome.report else (),
            messages=(
                *([problem.message] if problem else []),
                *messages,
                *lacks,
                *dict.fromkeys(outcome.warnings),
            ),
        )
        self.folder.finish(record)
        if status == "interrupted":
            raise KeyboardInterrupt(f"the run {self.folder.path} is kept, marked as interrupted")
        told = problem or missing
        return Profiled(
            load_run(self.folder.path),
            self.folder.path,
            told,
            outcome.most_passes,
            outcome.seconds,
            tuple(text for text in lacks if told is None or text != told.message),
        )

    def _options(self, outcome: Outcome) -> dict[str, Any]:
        return {
            "clock_control": self.settings.clock_control,
            "cache_control": self.settings.cache_control,
            "sets": list(self.settings.sets),
            "counters": list(self.settings.counters),
            "source": self.settings.source,
            "passes": outcome.most_passes,
            "launches": len(outcome.launches),
            "seconds": round(outcome.seconds, 3),
        }


def _environment() -> dict[str, str]:
    """Unbuffered Python output, so that the program's lines and ncu's come in the order they were written."""
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _read_result(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # the runner was ended before it could say anything
    return raw if isinstance(raw, dict) else {}


def _gpu_of(result: Mapping[str, Any]) -> GpuInfo | None:
    raw = result.get("gpu")
    return GpuInfo(**{**raw, "compute_capability": tuple(raw["compute_capability"])}) if raw else None


def _compilers(built: Mapping[str, BuildResult]) -> str:
    return ", ".join(sorted({result.compiler for result in built.values()}))


def _kernel_run(
    request: KernelRequest,
    plan: KernelPlan,
    built: BuildResult | None,
    result: Mapping[str, Any],
    launches: int,
) -> KernelRun:
    spec = request.spec
    mine: Mapping[str, Any] = next(
        (
            entry
            for entry in result.get("kernels", ())
            if (entry["label"], entry["problem"]) == (plan.label, plan.problem)
        ),
        {},
    )
    facts = mine.get("facts") or {}
    verification = mine.get("verification")
    return KernelRun(
        key=spec.key,
        label=plan.label,
        title=spec.title,
        problem=plan.problem,
        size=plan.size,
        flops=float(evaluate(spec.flops, plan.size)) if spec.flops else 0.0,
        least_bytes=float(evaluate(spec.least_bytes, plan.size)) if spec.least_bytes else 0.0,
        launches=launches,
        blocks_per_sm=request.blocks_per_sm,
        ballast_bytes=int(facts.get("ballast_bytes", 0)),
        build={**dataclasses.asdict(built), "launch": facts} if built else {"launch": facts},
        verification=Verification(**verification) if verification else None,
    )


def _kernel_problem(
    outcome: Outcome, result: Mapping[str, Any], kernels: Sequence[KernelRun]
) -> PerfkitError | None:
    """The one error of a run: ncu's causes first, then the runner's own words, then wrong results."""
    error = result.get("error")
    if error and not isinstance(outcome.problem, CannotError):
        kinds = {kind.__name__: kind for kind in (UsageError, CannotError, ToolError)}
        kind = kinds.get(error["type"], ToolError)
        return kind(error["message"], error["remedy"] or "The whole output is in the run's ncu.log.")
    if outcome.problem:
        return outcome.problem
    wrong = [k.verification.message for k in kernels if k.verification and not k.verification.passed]
    if wrong:
        return CheckFailedError(
            "wrong results: " + "; ".join(wrong),
            "The counters are those of a kernel that computes something else.",
        )
    lost = [f"{k.label} at {k.problem}" for k in kernels if not k.launches]
    if lost:
        return ToolError(
            f"ncu did not profile {', '.join(lost)}", "The whole output is in the run's ncu.log."
        )
    return None
