"""The three things `perfkit bench` does: time kernels, compare two, and test its own method."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from perfkit.analysis import bench_results
from perfkit.analysis.statistics import StopRule
from perfkit.commands._bench_session import Job, Opened, Session, generator, is_fp32
from perfkit.errors import UsageError
from perfkit.model import BenchResult, PairComparison, PairSamples, SelfTest, Timing
from perfkit.profiler import bench as protocols
from perfkit.profiler import bench_samples
from perfkit.profiler.nvml import SensorLog
from perfkit.profiler.timing import Timer

_WARM_UP = 0.5  # s before the pairs of a size
_REST_WARM_UP = 0.005  # s before each comparison of a self-test: statistics ran in between
_PAIR_PERIOD = 0.02  # s between two readings of the sensors


def parse_handicap(text: str, aa: int) -> float:
    """ "1%" or "0.01" as a fraction; 0 for "". Raises UsageError."""
    if not text:
        return 0.0
    from perfkit import units

    try:
        value, unit = units.parse(text)
    except ValueError as error:
        raise UsageError(f"--handicap: {error}", "Write --handicap 1%.") from error
    if unit not in ("", units.FRACTION) or not 0 < value < 1:
        raise UsageError(f"--handicap {text} is no share between 0 and 100 %", "Write --handicap 1%.")
    if not aa:
        raise UsageError("--handicap belongs to the self-test", "Add --aa K.")
    return float(value)


def check(
    jobs: Sequence[Sequence[Job]], *, pairs: int, aa: int, rounds: int, cold: bool, article: bool = False
) -> None:
    """Refuse what does not go together, before anything is built."""
    if min(pairs, aa, rounds) < 0:
        raise UsageError(
            "--pairs, --aa and --rounds must not be negative", "Leave the option out for the usual number."
        )
    for job in (job for sizes in jobs for job in sizes):
        if job.blocks_per_sm is not None and job.blocks_per_sm < 1:
            raise UsageError(
                f"{job.label}: no kernel runs with {job.blocks_per_sm} blocks per SM",
                f"Name at least 1, as in {job.spec.key}@1.",
            )
    if aa or pairs:
        if cold:
            raise UsageError("--cold goes with neither --pairs nor --aa", "Pairs are measured with a hot L2.")
        if article:
            raise UsageError(
                "--protocol article goes with neither --pairs nor --aa", "Pairs have a protocol of their own."
            )
        if rounds:
            raise UsageError("--rounds goes with neither --pairs nor --aa", "Ask for more --pairs.")
    if aa and len(jobs) != 1:
        raise UsageError(f"--aa compares one kernel with itself, {len(jobs)} were named", "Name one kernel.")
    if pairs and not aa:
        if len(jobs) != 2:
            raise UsageError(
                f"--pairs compares two kernels, {len(jobs)} {'was' if len(jobs) == 1 else 'were'} named",
                "Name A and B: B is judged against A.",
            )
        if [job.size for job in jobs[0]] != [job.size for job in jobs[1]]:
            raise UsageError("the two kernels have different problem sizes", "Give both with -n or --size.")
    if pairs and pairs < 12:
        raise UsageError(
            f"--pairs {pairs} gives no 95 % interval", "At least 12 are needed (6 couples); 60 are usual."
        )


def protocol_of(name: str, rounds: int, cold: bool) -> protocols.Protocol:
    """The protocol by its name, with the options that the user changed."""
    chosen: protocols.Protocol
    if name == "article":
        chosen = protocols.ArticleProtocol(cold=cold)
    else:
        chosen = protocols.QuickProtocol(stop=StopRule().reason, cold=cold)
    return dataclasses.replace(chosen, rounds=rounds) if rounds else chosen


def time(current: Session, jobs: Sequence[Sequence[Job]], protocol: protocols.Protocol) -> list[BenchResult]:
    """Every kernel at every size: each kernel and round in a process of its own."""
    total = sum(len(sizes) for sizes in jobs) * protocol.rounds
    results: list[BenchResult] = []
    with _progress(total) as step:
        for sizes in jobs:
            results += _time_kernel(current, sizes, protocol, step)
    current.results += [dataclasses.asdict(result) for result in results]
    return results


def _time_kernel(
    current: Session, sizes: Sequence[Job], protocol: protocols.Protocol, step: Callable[[str], None]
) -> list[BenchResult]:
    timings: dict[str, list[Timing]] = {job.problem: [] for job in sizes}
    opened: dict[str, Opened] = {}
    log: list[Any] = []
    for number in range(protocol.rounds):
        with current.measuring(protocol.sensor_period) as (timer, sensors):
            for job in sizes:
                step(f"{job.label} at {job.problem}")
                if job.problem in opened and not opened[job.problem].right:
                    continue
                kernel = current.open(timer, job, verify=number == 0)
                opened.setdefault(job.problem, kernel)
                if kernel.right:
                    timings[job.problem].append(protocols.time_kernel(timer, kernel.name, protocol))
                timer.clear()
        log += sensors.samples
    return [_result(current, opened[job.problem], timings[job.problem], log, protocol) for job in sizes]


def _result(
    current: Session,
    kernel: Opened,
    rounds: Sequence[Timing],
    log: Sequence[Any],
    protocol: protocols.Protocol,
) -> BenchResult:
    run, cache = kernel.run, "cold" if protocol.cold else "hot"
    subject = bench_results.Subject(
        key=run.key,
        label=run.label,
        title=run.title,
        problem=run.problem,
        size=run.size,
        flops=run.flops,
        fp32=is_fp32(kernel.job.spec),
        blocks_per_sm=run.blocks_per_sm,
        verification=run.verification,
    )
    if not rounds:
        return bench_results.failed_result(subject, protocol=protocol.name, cache=cache)
    name = current.keep(
        bench_samples.file_name("samples", run.label, run.problem),
        lambda path: bench_samples.write_timings(path, rounds),
    )
    spans = [(timing.batches[0].started, timing.batches[-1].ended) for timing in rounds]
    during = [[s for s in log if start <= s.time <= end] for start, end in spans]
    around = [s for s in log if any(start - 1 <= s.time <= end + 1 for start, end in spans)]
    current.keep(
        bench_samples.file_name("sensors", run.label, run.problem),
        lambda path: bench_samples.write_sensors(path, around),
    )
    return bench_results.bench_result(
        subject,
        current.gpu,
        rounds,
        during,
        protocol=protocol.name,
        cache=cache,
        short_launch=protocols.SHORT_LAUNCH,
        samples=name,
    )


def compare(current: Session, jobs: Sequence[Sequence[Job]], pairs: int) -> list[PairComparison]:
    """B against A at every size."""
    found: list[PairComparison] = []
    order = generator(current.seed)
    with current.measuring(_PAIR_PERIOD) as (timer, sensors), _progress(len(jobs[0])) as step:
        for job_a, job_b in zip(*jobs, strict=True):
            step(f"{job_a.label} and {job_b.label} at {job_a.problem}")
            a, b = current.open(timer, job_a), current.open(timer, job_b)
            if a.right and b.right:
                inner = _window(timer, (a.name, b.name))
                samples = protocols.measure_pairs(timer, (a.name, b.name), pairs, inner, order)
                found.append(_judge(current, (a, b), [samples], 0.0)[0])
            timer.clear()
        _keep_sensors(current, sensors)
    current.results += [dataclasses.asdict(one) for one in found]
    return found


def self_test(
    current: Session, jobs: Sequence[Sequence[Job]], count: int, pairs: int, handicap: float
) -> list[SelfTest]:
    """The kernel against itself, `count` times at every size; with a handicap one side is slowed on
    purpose.
    """
    found: list[SelfTest] = []
    order = generator(current.seed)
    with current.measuring(_PAIR_PERIOD) as (timer, sensors), _progress(len(jobs[0]) * count) as step:
        for job in jobs[0]:
            kernel = current.open(timer, job)
            if kernel.right:
                found.append(_self_test(current, timer, kernel, order, step, (count, pairs, handicap)))
            timer.clear()
        _keep_sensors(current, sensors)
    current.results += [dataclasses.asdict(one) for one in found]
    return found


def _self_test(
    current: Session,
    timer: Timer,
    kernel: Opened,
    order: Any,
    step: Callable[[str], None],
    how: tuple[int, int, float],
) -> SelfTest:
    count, pairs, handicap = how
    names = (kernel.name, kernel.name)
    inner, spin = _window(timer, names, bool(handicap)), 0
    if handicap:
        inner, spin = protocols.calibrate_delay(timer, kernel.name, inner, handicap, order)
    measured = []
    for _ in range(count):
        step(kernel.name)
        timer.warm(kernel.name, _REST_WARM_UP)
        measured.append(protocols.measure_pairs(timer, names, pairs, inner, order, spin))
    return bench_results.self_test(_judge(current, (kernel, kernel), measured, handicap))


def _window(timer: Timer, names: tuple[str, str], handicapped: bool = False) -> int:
    each = [timer.warm(name, _WARM_UP) for name in dict.fromkeys(names)]
    return protocols.window_launches(min(each), handicapped)


def _judge(
    current: Session, kernels: tuple[Opened, Opened], measured: Sequence[PairSamples], handicap: float
) -> list[PairComparison]:
    a, b = (kernel.run for kernel in kernels)
    name = current.keep(
        bench_samples.file_name("pairs", a.label if a == b else f"{a.label}-{b.label}", a.problem),
        lambda path: bench_samples.write_pairs(path, measured),
    )
    return [
        bench_results.comparison(
            (a.label, b.label), a.problem, samples, size=a.size, handicap=handicap, samples=name
        )
        for samples in measured
    ]


def _keep_sensors(current: Session, sensors: SensorLog) -> None:
    current.keep("sensors.csv.gz", lambda path: bench_samples.write_sensors(path, sensors.samples))


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on stderr that names what is in hand; silent when stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)
        done = -1

        def step(text: str) -> None:
            nonlocal done
            done += 1
            bar.update(task, completed=done, description=text)

        yield step
