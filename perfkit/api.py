"""What `import perfkit` gives: reports as dataclasses and pandas frames.

    profile = perfkit.load("report.ncu-rep")
    profile.metrics("memory")        # a wide frame, one row a launch
    profile.frame()                  # a long frame with unit and status
    profile.launches[0].counters["smsp__inst_executed.sum"]

`perfkit show` prints what a `Profile` holds; the functions beside `load` run what the other commands run.
"""

from __future__ import annotations

import gc
import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.bench_api import bench, check_model, compare
from perfkit.errors import PerfkitError, ReportError, UsageError
from perfkit.gate_api import check
from perfkit.model import REPORT_SUFFIXES
from perfkit.profiling_api import profile

if TYPE_CHECKING:
    from pandas import DataFrame

    from perfkit.analysis.metrics import MetricSets
    from perfkit.model import Comparison, Evaluated, Launch, PeakLoss, Report, Table

__all__ = ["Profile", "bench", "check", "check_model", "compare", "find_reports", "load", "profile"]

_WHICH = "Choose one by its index in `profile.launches`, from 0, or by its label."


@dataclass(frozen=True)
class Profile:
    """Launches with their metrics.

    `problems` are sentences about what could not be read; `reports` tell file by file. A launch that was not
    collected stays in the list, with `collected` False and metrics without values.
    """

    evaluated: tuple[Evaluated, ...]
    reports: tuple[Report, ...]
    sets: MetricSets
    names: tuple[str, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches, in order of report, range and index."""
        return tuple(one.launch for one in self.evaluated)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the files, a sentence each, and the launches that were not collected."""
        found = [one.error for one in self.reports if one.error]
        found += [
            f"{one.path}: {problem}" for one in self.reports if not one.error for problem in one.problems
        ]
        found += [
            f"{one.id}: {one.label} was not collected: it has no measured counter"
            for one in self.launches
            if not one.collected
        ]
        return tuple(found)

    def __len__(self) -> int:
        return len(self.evaluated)

    def __iter__(self) -> Iterator[Evaluated]:
        return iter(self.evaluated)

    def __getitem__(self, index: int) -> Evaluated:
        return self.evaluated[index]

    def frame(self) -> DataFrame:
        """Every metric of every launch: report, range, launch, kernel, metric, value, text, unit, status,
        ...
        """
        from perfkit.analysis.frames import long_frame

        return long_frame(self.evaluated)

    def metrics(self, *sets: str) -> DataFrame:
        """A column for each metric of these sets (all that were loaded if none is named), a row a launch."""
        from perfkit.analysis.frames import wide_frame

        names = self.sets.names(sets) if sets else self.names
        if missing := [name for name in names if name not in self.names]:
            raise UsageError(f"not loaded: {', '.join(missing)}", f"Load them: load(..., sets={list(sets)}).")
        return wide_frame(self.evaluated, names)

    def counters(self) -> DataFrame:
        """The raw counters that were read: report, range, launch, kernel, counter, value, text, unit,
        status.
        """
        from perfkit.analysis.frames import counter_frame

        return counter_frame(self.evaluated)

    def tables(self, sets: Iterable[str] | None = None) -> list[Table]:
        """What `perfkit show` prints: the launches, then a table for each set."""
        from perfkit.analysis.tables import launch_table, set_tables

        chosen = list(sets) if sets is not None else [one for one in self.sets.sets if self._has(one)]
        return [launch_table(self.evaluated, self.sets), *set_tables(self.evaluated, self.sets, chosen)]

    def select(
        self, *, kernel: str = "", launch: Sequence[str] = (), nvtx: str = "", gpu: str = ""
    ) -> Profile:
        """Only the launches that match every given filter (regular expressions; indices such as "0" or
        "2-5").
        """
        from perfkit.analysis.selection import Selection

        kept = {one.id for one in Selection(kernel, tuple(launch), nvtx, gpu).apply(self.launches)}
        evaluated = tuple(one for one in self.evaluated if one.launch.id in kept)
        return Profile(evaluated, self.reports, self.sets, self.names)

    def explain(self, a: int | str = 0, b: int | str = 1, *, problem: str = "", **options: Any) -> Comparison:
        """Why `b` is slower or faster than `a`: an index into `launches`, or a kernel's label.

        An index counts from 0 (from the end where it is negative), as in `profile[0]`. A label stands for all
        its launches (repeated ones make the verdict surer) of one `problem`, for
        example "n=4096"; launches that differ in function, shape or device are no repetitions and are
        refused. Raises UsageError for a launch that is not there, NotComparableError, with the reason, for
        what must not be compared.
        """
        from perfkit.analysis.explain import explain

        one, other = self._side(a, problem), self._side(b, problem)
        if {side.launch.id for side in one} == {side.launch.id for side in other}:
            raise UsageError(f"{a!r} and {b!r} are the same launch", "Name another kernel or launch for b.")
        return explain(one, other, **options)

    def peak_loss(self, a: int | str = 0, *, problem: str = "") -> PeakLoss:
        """Where the share of FP32 peak went that a launch does not reach; `a` and `problem` as in `explain`.

        Raises UsageError for a launch that has no such share, with the reason.
        """
        from perfkit.analysis.explain import explain_alone

        return explain_alone(self._side(a, problem))

    def _side(self, which: int | str, problem: str) -> list[Evaluated]:
        if isinstance(which, int) and not isinstance(which, bool):
            if -len(self) <= which < len(self):
                return [self.evaluated[which]]
            held = f"launches 0 to {len(self) - 1}" if len(self) else "no launches"
            raise UsageError(f"there is no launch {which}: the profile holds {held}", _WHICH)
        if not isinstance(which, str):
            raise UsageError(f"{which!r} is not a launch", _WHICH)
        from perfkit.analysis.identity import called, refuse_several

        named = called(self.evaluated, which)
        if not named:
            known = ", ".join(dict.fromkeys(one.label for one in self.launches))
            raise UsageError(f"no launch is called {which!r}", f"There are: {known}.")
        matching = [one for one in named if problem in ("", one.launch.problem)]
        problems = list(dict.fromkeys(one.launch.problem for one in (matching or named)))
        if len(problems) != 1 or not matching:
            asked = f" at {problem!r}" if problem else ""
            raise UsageError(
                f"{which!r} has {len(matching)} launches{asked}, of {', '.join(problems)}",
                f"Choose one: explain(..., problem={problems[0]!r}).",
            )
        refuse_several(matching, repr(which))
        return matching

    def _has(self, name: str) -> bool:
        return any(metric in self.names for metric in self.sets.sets[name].metrics)

    def __repr__(self) -> str:
        kernels = list(dict.fromkeys(one.label for one in self.launches))
        shown = ", ".join(kernels[:6]) + (", ..." if len(kernels) > 6 else "")
        counts = ", ".join(
            f"{number} {word}" + ("" if number == 1 else "s")
            for number, word in ((len(self.reports), "report"), (len(self.problems), "problem"))
        )
        launches = "1 launch" if len(self) == 1 else f"{len(self)} launches"
        return f"Profile({launches} of {shown}; {counts})"

    def _repr_html_(self) -> str:
        from perfkit.reports import render

        return render(self.tables(), "html", width=120, color=False)


def load(
    paths: str | Path | Iterable[str | Path],
    sets: Iterable[str] | None = None,
    *,
    jobs: int = 1,
    keep_going: bool = False,
    metric_sets: MetricSets | None = None,
    progress: Callable[[Report], None] | None = None,
    every_counter: bool = False,
) -> Profile:
    """Read reports, run folders, folders of reports or glob patterns, and evaluate their metrics.

    `sets` names metric sets or metrics (default: all). `jobs` processes read at a time. `every_counter`
    keeps all counters of the reports, not only those that the sets need.

    Raises ReportError for a file that cannot be read (with `keep_going` it becomes one of `problems`),
    UsageError for an unknown set, a path that is nothing, or something that is not a path.
    """
    from perfkit.analysis.facts import COUNTERS
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.analysis.report import read_reports

    definitions = load_metric_sets() if metric_sets is None else metric_sets
    chosen = None if sets is None else tuple(sets)
    names = definitions.names(chosen)
    # What explain() reads beside the metrics is read along, unless only some sets were asked for.
    more = COUNTERS if chosen is None else ()
    counters = None if every_counter else tuple(dict.fromkeys((*definitions.reading(chosen), *more)))
    files = [file for one in _several(paths) for file in find_reports(one)]
    with _no_cycles():
        reports = read_reports(
            list(dict.fromkeys(files)),
            counters,
            jobs=jobs,
            keep_going=keep_going,
            progress=progress,
        )
        launches = [launch for report in reports for launch in report.launches]
        evaluated = tuple(definitions.evaluate(launch, names) for launch in launches)
    return Profile(evaluated, tuple(reports), definitions, names)


def _several(given: object) -> list[Any]:
    """What `load` was given, as a list; each is yet to be looked at. Bytes are a sequence too, of numbers."""
    if isinstance(given, Iterable) and not isinstance(given, (str, Path, bytes, bytearray)):
        return list(given)
    return [given]


def _refuse_other_than_path(given: object) -> None:
    """A caller without a type checker can hand over anything."""
    if not isinstance(given, (str, Path)):
        raise UsageError(
            f"{given!r} is not a path (it is of type {type(given).__name__})",
            "Give a text or a pathlib.Path, or, to load(), several of them.",
        )


@contextmanager
def _no_cycles() -> Iterator[None]:
    """Without the garbage collector: what is made here lives on, and walking it again is not linear."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def find_reports(target: str | Path) -> list[Path]:
    """The report files that `target` means: a file, a run, a folder (and all below it), or a glob pattern.

    Raises ReportError (a folder without reports) or UsageError (nothing of that name, or not a path).
    """
    _refuse_other_than_path(target)
    path = Path(target)
    if path.is_dir():
        found = sorted(
            one for one in path.rglob("*") if one.suffix.lower() in REPORT_SUFFIXES and one.is_file()
        )
        if not found:
            raise ReportError(
                f"{path}: is a folder without reports", "Name a folder that holds .ncu-rep files."
            )
        return found
    if path.exists() or (path.suffix.lower() in REPORT_SUFFIXES and not glob.has_magic(str(target))):
        return [path]
    if glob.has_magic(str(target)):
        # Path.glob refuses absolute patterns.
        matched = sorted(glob.glob(str(target), recursive=True))  # noqa: PTH207
        files = [
            file for one in matched for file in (find_reports(one) if Path(one).is_dir() else [Path(one)])
        ]
        if not files:
            raise ReportError(f"{target}: matches no file", "Check the pattern.")
        return files
    return _reports_of_run(str(target))


def _reports_of_run(text: str) -> list[Path]:
    from perfkit.profiler.run_store import resolve_run, run_reports

    try:
        folder = resolve_run(text)
    except PerfkitError as error:
        remedy = "Name a .ncu-rep file, a folder of them, or a run that `perfkit runs` lists."
        whole, colon, part = text.rpartition(":")
        if colon and whole and part:  # as `perfkit explain` names its sides
            option = "--launch" if part.isdigit() else "--kernel"
            remedy = f"Launches are chosen by options: `{whole} {option} {part}`. {remedy}"
        raise UsageError(f"{text}: no such file, folder or run ({error.message})", remedy) from error
    return run_reports(folder)
