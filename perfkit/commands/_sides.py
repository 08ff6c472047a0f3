"""What `perfkit explain` and `check` compare: kernels of a run, RUN:kernel, REPORT:launch, as evaluated
launches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.commands._console import note, warn
from perfkit.errors import ReportError, UsageError
from perfkit.model import REPORT_SUFFIXES

if TYPE_CHECKING:
    from perfkit.analysis.compare import Origin
    from perfkit.model import Evaluated, KernelRun, Report, RunRecord

_LAUNCH = re.compile(r"(?:(\d+)\.)?(\d+)")


@dataclass(frozen=True, slots=True)
class Chosen:
    """One side: its launches, what the run says of them, and the run itself (None for a bare report)."""

    text: str
    launches: tuple[Evaluated, ...]
    origin: Origin
    record: RunRecord | None = None
    kernel: KernelRun | None = None


@dataclass(slots=True)
class Sources:
    """Reads reports once, however often they are named.

    With `keep_going` a report that cannot be read is one without launches, with its error in `reports`.
    """

    run: str = "latest"
    counters: tuple[str, ...] = ()
    keep_going: bool = False
    read: dict[Path, tuple[Evaluated, ...]] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    def launches(self, path: Path) -> tuple[Evaluated, ...]:
        """Every launch of a report with all metrics. Raises ReportError when it cannot be read."""
        if path not in self.read:
            from perfkit.analysis.facts import COUNTERS
            from perfkit.analysis.metrics import load_metric_sets
            from perfkit.analysis.report import read_reports

            sets = load_metric_sets()
            names = tuple(dict.fromkeys((*sets.reading(), *COUNTERS, *self.counters)))
            (report,) = read_reports([path], names, keep_going=self.keep_going)
            self.reports.append(report)
            for problem in report.problems if not report.error else ():
                warn(f"{path}: {problem}")
            self.read[path] = tuple(sets.evaluate(launch) for launch in report.launches)
        return self.read[path]

    def of_run(self, text: str) -> list[tuple[RunRecord, tuple[Evaluated, ...]]]:
        """The profile runs that `text` means, with the launches of their reports.

        A killed or failed run keeps its reports; that it is one is said.
        """
        from perfkit.profiler.run_store import RunStore, load_run, resolve_run, run_folders

        path = RunStore().latest("profile") if text == "latest" else resolve_run(text)
        found = []
        for folder in run_folders(path):
            record = load_run(folder)
            if record.status != "complete":
                warn(f"run {record.id} is {record.status}: what it kept is used")
            launches = tuple(launch for name in record.reports for launch in self.launches(folder / name))
            if launches:
                found.append((record, launches))
        if not found:
            if unread := next((one for one in self.reports if one.error), None):
                raise ReportError(unread.error, unread.remedy)
            raise UsageError(f"run {text} holds no report", "Name a profile run: `perfkit runs` lists them.")
        return found


def choose(sources: Sources, texts: Sequence[str], problem: str = "") -> list[Chosen]:
    """One side for each of `texts`, all at the same problem where a run holds several.

    Raises UsageError for what is not there, naming what is.
    """
    candidates = [_candidates(sources, text) for text in texts]
    problems = [sorted({c.launches[0].launch.problem for c in side}) for side in candidates]
    wanted = problem or _common(problems, texts)
    fitting = []
    for text, side in zip(texts, candidates, strict=True):
        at = [c for c in side if not wanted or c.launches[0].launch.problem in ("", wanted)]
        if not at:
            held = ", ".join(sorted({c.launches[0].launch.problem for c in side}))
            raise UsageError(f"{text} was not profiled at {wanted}", f"It was profiled at {held}: give -n.")
        fitting.append(at)
    return _of_one_run(fitting)


def _of_one_run(fitting: Sequence[list[Chosen]]) -> list[Chosen]:
    """One candidate a side, all from the newest run that holds every side; the newest of each without
    such.
    """
    runs = [{c.record.id for c in side if c.record is not None} for side in fitting]
    shared = set.intersection(*runs) if runs else set()
    if not shared:
        for side in fitting:
            taken = side[-1]
            held = {c.record.id for c in side if c.record is not None}
            at = list(dict.fromkeys(c.launches[0].launch.problem for c in side))
            if len(held) > 1 and taken.record is not None:
                note(f"{taken.text}: of {len(held)} runs that hold it, {taken.record.id} is used")
            if len(at) > 1:
                note(f"{taken.text}: of the problems {', '.join(at)}, {at[-1]} is used (choose with -n)")
        return [side[-1] for side in fitting]
    newest = max(shared)
    return [next(c for c in side if c.record is not None and c.record.id == newest) for side in fitting]


def _common(problems: Sequence[list[str]], texts: Sequence[str]) -> str:
    """The problem to compare at when none was named: the only one, or the largest that all sides hold."""
    if all(len(held) == 1 for held in problems):
        return ""
    shared = set(problems[0]).intersection(*problems[1:])
    if not shared:
        return ""
    largest = max(shared, key=lambda text: [int(number) for number in re.findall(r"\d+", text)])
    if len(shared) > 1:
        others = ", ".join(sorted(shared - {largest}))
        note(f"{' and '.join(texts)} at {largest} (also profiled at {others}: choose with -n)")
    return largest


def _candidates(sources: Sources, text: str) -> list[Chosen]:
    path = Path(text)
    if path.is_file():
        return _of_report(sources, path, None, text)
    # C++ names hold colons; RUN:kernel and REPORT:launch hold one.
    left, colon, right = ("", "", text) if "::" in text else text.rpartition(":")
    if colon and Path(left).is_file():
        return _of_report(sources, Path(left), right, text)
    if colon and left.endswith(REPORT_SUFFIXES):
        raise ReportError(f"{left} does not exist", "Give the path of a report and a launch: REPORT:LAUNCH.")
    if not colon and (text in ("latest", "recorded") or path.is_dir()):
        raise UsageError(f"{text} is a run and no kernel", f"Name a kernel of it: {text}:KERNEL.")
    return _of_run(sources, left or sources.run, right if colon else text, text)


def _of_report(sources: Sources, path: Path, which: str | None, text: str) -> list[Chosen]:
    from perfkit.analysis.compare import Origin
    from perfkit.analysis.identity import called, listed, refuse_several

    launches = sources.launches(path)
    if which is None:
        picked = launches
    elif match := _LAUNCH.fullmatch(which):
        picked = tuple(one for one in launches if _is(one, match))
    else:
        picked = tuple(called(launches, which))
    if not picked:
        raise UsageError(f"{path} holds no launch {which}", f"It holds {listed(launches)}.")
    problems = dict.fromkeys(one.launch.problem for one in picked)
    for problem in problems:
        refuse_several([one for one in picked if one.launch.problem == problem], text)
    return [
        Chosen(text, tuple(one for one in picked if one.launch.problem == problem), Origin(called=text))
        for problem in problems
    ]


def _is(one: Evaluated, match: re.Match[str]) -> bool:
    identity = one.launch.id
    return (identity.range, identity.launch) == (int(match[1] or 0), int(match[2]))


def _of_run(sources: Sources, run: str, kernel: str, text: str) -> list[Chosen]:
    from perfkit.analysis.compare import Origin
    from perfkit.analysis.identity import refuse_several
    from perfkit.analysis.together import together
    from perfkit.reports.text import shorten

    found: list[Chosen] = []
    known: dict[str, None] = {}
    for record, launches in sources.of_run(run):
        known.update(dict.fromkeys(one.launch.label for one in launches))
        for picked in _picked(launches, kernel):
            label, problem = picked[0].launch.label, picked[0].launch.problem
            entry = next((k for k in record.kernels if (k.label, k.problem) == (label, problem)), None)
            if entry is not None and len(picked) > 1:
                # perfkit's runner calls each kernel once: these are the kernels of one library call.
                names = ", ".join(shorten(one.launch.kernel, 60) for one in picked)
                note(f"{text}: {len(picked)} kernels of one call taken together ({names})")
                picked = (together(picked),)
            refuse_several(picked, text)
            work = entry.flops if entry is not None and entry.flops > 0 else float("nan")
            least = entry.least_bytes if entry is not None and entry.least_bytes > 0 else float("nan")
            found.append(Chosen(text, picked, Origin(record.options, work, text, least), record, entry))
    if not found:
        raise UsageError(
            f"there is no kernel {kernel!r} in run {run}",
            f"It holds {', '.join(shorten(one) for one in known)}. "
            "Other runs: RUN:kernel or RUN:launch, reports: REPORT:launch.",
        )
    return found


def _picked(launches: Sequence[Evaluated], which: str) -> list[tuple[Evaluated, ...]]:
    """The launches of the kernel labelled `which`, problem by problem; else the launch of that index."""
    named = [one for one in launches if one.launch.label == which]
    match = None if named else _LAUNCH.fullmatch(which)
    if match:
        return [(one,) for one in launches if _is(one, match)]
    problems = dict.fromkeys(one.launch.problem for one in named)
    return [tuple(one for one in named if one.launch.problem == problem) for problem in problems]
