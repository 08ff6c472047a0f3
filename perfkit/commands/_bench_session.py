"""What `perfkit bench` does between parsing and printing: builds, measures, verifies, keeps samples,
writes run.json.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from perfkit.errors import CheckFailedError, PerfkitError
from perfkit.kernels.plan import KernelPlan, label_of, plan_kernel
from perfkit.kernels.sizes import evaluate, problem_label
from perfkit.model import BuildResult, GpuInfo, KernelRun, KernelSpec, RunRecord, Verification
from perfkit.profiler.nvml import SensorLog, open_sensors
from perfkit.profiler.run_store import RunFolder, RunStore
from perfkit.profiler.session import KernelRequest
from perfkit.profiler.timing import Timer, WorkerTimer

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel at one size."""

    spec: KernelSpec
    size: Mapping[str, int]
    blocks_per_sm: int | None = None

    @property
    def label(self) -> str:
        """`k6b`, or `k6b@1` when it is held to one resident block per SM."""
        return label_of(self.spec.key, self.blocks_per_sm)

    @property
    def problem(self) -> str:
        """`n=4096`."""
        return problem_label(self.size)


@dataclass(frozen=True, slots=True)
class Opened:
    """A kernel loaded and verified in a measuring process. `name` is what the process calls it."""

    name: str
    job: Job
    plan: KernelPlan
    verification: Verification | None
    run: KernelRun

    @property
    def right(self) -> bool:
        """Whether its result may be timed: verified, or there was nothing to verify against."""
        return self.verification is None or self.verification.passed


@dataclass(slots=True)
class Session:
    """A bench run being made: the folder, what was measured so far, and how to get a measuring process."""

    folder: RunFolder
    seed: int
    command: tuple[str, ...]
    options: dict[str, Any]
    gpu: GpuInfo
    built: Mapping[str, BuildResult]
    verify: bool = True
    carveout: int | None = None
    timer_factory: Callable[..., Timer] = WorkerTimer
    versions: dict[str, str] = field(default_factory=dict)
    kernels: dict[tuple[str, str], KernelRun] = field(default_factory=dict)
    results: list[dict[str, Any]] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def measuring(self, period: float) -> Iterator[tuple[Timer, SensorLog]]:
        """A fresh measuring process, with the sensors of its GPU read every `period` s beside it."""
        timer = self.timer_factory(seed=self.seed)
        try:
            self.gpu = timer.gpu
            self.versions.update(timer.versions)
            with SensorLog(open_sensors(timer.gpu.uuid), period) as log:
                yield timer, log
            if log.problem and log.problem not in self.messages:
                self.messages.append(log.problem)
        finally:
            timer.close()

    def open(self, timer: Timer, job: Job, *, verify: bool = True) -> Opened:
        """Build, load and verify one kernel."""
        built = self.built.get(job.spec.key)
        plan = plan_kernel(
            job.spec,
            built,
            job.size,
            blocks_per_sm=job.blocks_per_sm,
            carveout=self.carveout,
            verify=verify and self.verify,
        )
        name = f"{plan.label} {plan.problem}"
        verification, facts = timer.open(name, plan)
        known = self.kernels.get((plan.label, plan.problem))
        run = KernelRun(
            key=plan.key,
            label=plan.label,
            title=job.spec.title,
            problem=plan.problem,
            size=dict(job.size),
            flops=_work(job.spec.flops, job.size),
            least_bytes=_work(job.spec.least_bytes, job.size),
            blocks_per_sm=job.blocks_per_sm,
            ballast_bytes=int(facts["ballast_bytes"]),
            build=dataclasses.asdict(built) if built else None,
            verification=verification or (known.verification if known else None),
        )
        self.kernels[(plan.label, plan.problem)] = run
        opened = Opened(name, job, plan, verification, run)
        if verification and not verification.passed:
            self.wrong.append(verification.message or f"{plan.label} at {plan.problem}: wrong result")
        return opened

    def keep(self, name: str, write: Callable[[Any], None]) -> str:
        """Write a file of raw samples into the run folder; its name."""
        write(self.folder.scratch / name)
        self.folder.keep(name)
        if name not in self.samples:
            self.samples.append(name)
        return name

    def raise_wrong(self) -> None:
        """Raise CheckFailedError when a result was wrong."""
        if self.wrong:
            raise CheckFailedError(
                "wrong results, not timed: " + "; ".join(self.wrong),
                f"The kernel's output differs from its reference. The run is kept in {self.folder.path}.",
            )

    def finish(self, status: str, started: datetime) -> None:
        """Write run.json; from here on the run counts."""
        from perfkit import __version__

        self.folder.finish(
            RunRecord(
                id=self.folder.id,
                what="bench",
                status=status,
                command=self.command,
                started=_utc(started),
                ended=_utc(datetime.now(UTC)),
                perfkit_version=__version__,
                gpu=self.gpu,
                versions=self.versions,
                options=self.options,
                kernels=tuple(self.kernels.values()),
                samples=tuple(self.samples),
                results=tuple(self.results),
                messages=(*self.messages, *self.wrong),
            )
        )


@contextlib.contextmanager
def session(
    options: dict[str, Any],
    *,
    gpu: GpuInfo,
    built: Mapping[str, BuildResult],
    seed: int,
    verify: bool = True,
    carveout: int | None = None,
    command: Sequence[str] = (),
    timer_factory: Callable[..., Timer] = WorkerTimer,
    store: RunStore | None = None,
) -> Iterator[Session]:
    """A run folder around the measurements: run.json is written whatever happens, with what was measured
    until then.
    """
    started = datetime.now(UTC)
    current = Session(
        folder=(store or RunStore()).create("bench"),
        seed=seed,
        command=tuple(command) or ("perfkit", *sys.argv[1:]),
        options={**options, "seed": seed},
        gpu=gpu,
        built=built,
        verify=verify,
        carveout=carveout,
        versions={
            "driver": gpu.driver,
            "cuda": gpu.cuda,
            "compiler": ", ".join(sorted({result.compiler for result in built.values()})),
        },
        timer_factory=timer_factory,
    )
    try:
        yield current
    except KeyboardInterrupt:
        current.finish("interrupted", started)
        raise
    except PerfkitError as error:
        if not current.kernels:
            # Nothing ran: no CuPy here, say. There is no run to tell of.
            shutil.rmtree(current.folder.path, ignore_errors=True)
        else:
            current.messages.append(error.message)
            current.finish("failed", started)
        raise
    current.finish("failed" if current.wrong else "complete", started)


def _utc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def generator(seed: int) -> random.Random:
    """The order of the pairs; its own, so that the inputs do not depend on how many pairs were run."""
    return random.Random(f"perfkit pairs {seed}")


def is_fp32(spec: KernelSpec) -> bool:
    """Whether the work can be scalar FP32 as far as the arguments say: every floating-point array is
    float32.
    """
    kinds = {
        a.dtype for a in spec.arguments if a.is_array and a.dtype.startswith(("float", "complex", "bfloat"))
    }
    return kinds <= {"float32"} and bool(kinds)


def _work(expression: str, size: Mapping[str, int]) -> float:
    return float(evaluate(expression, size)) if expression else 0.0


def jobs_of(requests: Sequence[KernelRequest]) -> list[list[Job]]:
    """For each kernel its jobs, one a size, both in the order asked for."""
    chosen: dict[str, list[Job]] = {}
    for request in requests:
        job = Job(request.spec, request.size, request.blocks_per_sm)
        chosen.setdefault(job.label, []).append(job)
    return list(chosen.values())
