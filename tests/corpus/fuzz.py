"""Damaged reports through every command: what becomes of them, and of perfkit.

    PERFKIT_REPORTS=FOLDER python tests/corpus/fuzz.py --flips 2000 --cuts 500 --seed 1

A mutant is a field report with one byte changed, or cut short. It is read as every command reads, in a
process of its own; then a forked child runs the commands, which are given what was read (only `explain` of
two launches reads the single instructions as well). Mutants of one report that differ only in ordinary
values of counters take the same way through the commands, so these run on one of them: a reading is distinct
by its errors and problems, by which launches there are and what they are called, by counters that came,
went, or hold what no counter should (nan, infinity, below 0, beyond 2^53), and by the status of every metric.
One mutant in 25 also goes through the real command line, with nothing given.

What may become of a mutant: it is an error that names the file; or every launch that the whole report holds
is read, or counted as lost, or the report says that more may be lost than can be counted. And every command
says so. A changed byte inside a value that still parses gives another value, which nothing can tell: the
format has no checksum.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import io
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from perfkit.analysis import report as reading
from perfkit.analysis.workers import Workers
from perfkit.errors import ReportError
from perfkit.model import REPORT_SUFFIXES, Launch, Report

FORMATS = ("terminal", "markdown", "csv", "json", "latex", "html")
RULES = """
[[rule]]
kernel = "*"
metric = "registers_per_thread"
op = "<="
value = 255
"""
TIMEOUT_S = 240
MEMORY_MB = 600
END_TO_END = 25  # one mutant of so many goes through the real command line
_GOOD_EXITS = (0, 1, 2)
_LARGEST_OFTEN = 250_000  # bytes: of larger reports there are a third as many mutants
_EXACT = 2.0**53  # integers beyond it are not exact as doubles
_ADDRESS_SPACE = 16 << 30  # bytes: threads and libraries of a GPU program reserve far more than they use


@dataclass
class Tally:
    """What became of the mutants: counts, and whatever must not happen."""

    made: Counter[bool] = field(default_factory=Counter)  # whether cut
    became: Counter[str] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    real: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    distinct: int = 0
    reader_mb: float = 0.0
    command_mb: float = 0.0
    real_mb: float = 0.0
    slowest_s: float = 0.0
    spent: Counter[str] = field(default_factory=Counter)  # seconds


@dataclass(frozen=True)
class Whole:
    """A report as it was before anything was done to it, and the status of every metric by launch."""

    report: Report
    statuses: Sequence[dict[str, str]]


class _Open(Workers):
    """A reading process that outlives one call: starting one takes longer than reading a small report."""

    def __exit__(self, *_: object) -> None:
        return

    def peak_mb(self) -> float:
        """The largest resident memory of the present reading process so far."""
        process = self._all[0]._process
        if process is None or not Path(f"/proc/{process.pid}/status").exists():
            return 0.0
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 1024


def mutants(files: Sequence[Path], flips: int, cuts: int, seed: int) -> Iterator[tuple[str, Path, bytes]]:
    """(what was done, original, content): bytes changed at random, mixed with cuts at random lengths."""
    rnd = random.Random(seed)
    cut = [False] * flips + [True] * cuts
    rnd.shuffle(cut)
    turns = [one for one in files for _ in range(3 if one.stat().st_size <= _LARGEST_OFTEN else 1)]
    for number in range(flips + cuts):
        if not number % len(turns):
            rnd.shuffle(turns)
        original = turns[number % len(turns)]
        data = bytearray(original.read_bytes())
        place = rnd.randrange(8, len(data))
        if not cut[number]:
            data[place] ^= rnd.randrange(1, 256)
            yield f"byte {place} of {original.name} changed to {data[place]:#04x}", original, bytes(data)
        else:
            yield f"{original.name} cut to {place} bytes", original, bytes(data[:place])


def commands(file: Path, folder: Path, launches: int) -> list[tuple[str, list[str]]]:
    """Every command that reads reports, on this one."""
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    name = str(file)
    found = [(f"show {fmt}", ["show", name, "--format", fmt]) for fmt in FORMATS]
    found += [
        ("show raw", ["show", name, "--raw", "." if file.stat().st_size < 100_000 else "^sm__"]),
        ("show aggregate", ["show", name, "--aggregate", "median"]),
        ("model", ["model", name]),
        ("explain", ["explain", f"{name}:0"]),
        ("check", ["check", name, "--rules", str(rules)]),
        ("report", ["report", name, "-o", str(folder / "page.html")]),
        ("roofline", ["roofline", name, "-o", str(folder / "roof.svg")]),
    ]
    if launches > 1:
        found.append(("explain two", ["explain", f"{name}:0", f"{name}:{launches - 1}"]))
    return found


def run(
    files: Sequence[Path],
    flips: int,
    cuts: int,
    seed: int,
    only: Callable[[str], bool] = lambda _: True,
    real_every: int = END_TO_END,
    progress: Callable[[int, Tally], None] = lambda *_: None,
) -> Tally:
    """Make the mutants, read them, run those commands that `only` takes on every distinct reading, and some
    of them on one mutant of `real_every` as a user would.
    """
    tally = Tally()
    seen: set[str] = set()
    whole: dict[Path, Whole] = {}
    process = _Open(1)
    real = vars(reading)["Workers"]
    vars(reading)["Workers"] = lambda _count: process
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _warm_up(min(files, key=lambda one: one.stat().st_size), folder, only)
            for number, (what, original, data) in enumerate(mutants(files, flips, cuts, seed)):
                if original not in whole:
                    whole[original] = _whole(original)
                    seen.add(f"{original} {distinct_by(whole[original].report, whole[original], original)}")
                    with _spent(tally, "commands"):
                        _commands_in_child(whole[original].report, folder, original.name, only, tally)
                file = folder / f"mutant{original.suffix}"
                file.write_bytes(data)
                start = time.monotonic()
                with _spent(tally, "reading"):
                    (report,) = reading.read_reports([file], None, keep_going=True)
                tally.slowest_s = max(tally.slowest_s, time.monotonic() - start)
                tally.reader_mb = max(tally.reader_mb, process.peak_mb())
                fate = became(report, whole[original].report)
                tally.became[fate] += 1
                if fate.startswith("FAULT"):
                    tally.faults.append(f"{what}: {fate}")
                with _spent(tally, "comparing"):
                    key = f"{original} {distinct_by(report, whole[original], file)}"
                if key not in seen:
                    seen.add(key)
                    with _spent(tally, "commands"):
                        _commands_in_child(report, folder, what, only, tally)
                if number % real_every == 0:
                    with _spent(tally, "real"):
                        _really(report, folder, what, only, tally, number // real_every)
                tally.distinct = len(seen)
                tally.made[" cut to " in what] += 1
                progress(number + 1, tally)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")  # what was found until then counts
    finally:
        vars(reading)["Workers"] = real
        Workers.__exit__(process, None, None, None)
    return tally


def _whole(original: Path) -> Whole:
    report = reading.read_report(original, None)
    return Whole(report, [_statuses(one) for one in report.launches])


def _statuses(launch: Launch) -> dict[str, str]:
    from perfkit.analysis.metrics import load_metric_sets

    evaluated = load_metric_sets().evaluate(launch)
    found = {name: str(value.status.value) for name, value in evaluated.metrics.items()}
    return found | {"contradictions": str(len(evaluated.contradictions))}


def _warm_up(file: Path, folder: Path, only: Callable[[str], bool]) -> None:
    """Every command once in this process, so that no child has to import what they use, or to build the
    command line from the functions' signatures.
    """
    import typer.main

    from perfkit import cli
    from perfkit.commands import _reading

    # A child is given what was read: it needs no reading process but for single instructions.
    vars(_reading)["process"] = lambda _command: contextlib.nullcontext()
    if isinstance(cli.app, typer.Typer):
        vars(cli)["app"] = typer.main.get_command(cli.app)
    found = commands(file, folder, len(reading.read_report(file, ()).launches))
    for name, args in found:
        if only(name):
            _run_one(name, args)


@contextlib.contextmanager
def _spent(tally: Tally, what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    tally.spent[what] += time.monotonic() - start  # type: ignore[assignment]


def became(report: Report, whole: Report) -> str:
    """What became of a report, in words; those that must not be start with FAULT."""
    launches = len(whole.launches)
    if report.error:
        if report.path not in report.error or not report.remedy:
            return "FAULT: an error that does not name the file, or no remedy"
        return "error: no launch can be read"
    if any(not one.name or not (one.gpu or one.counters) for one in report.launches):
        return "FAULT: a launch without a name"
    if len(report.launches) > launches:
        return "FAULT: more launches than there were"
    if len(report.launches) + report.lost >= launches:
        if report.lost:
            return "every launch read or counted as lost"
        if report.problems:
            return "every launch read, damage named"
        return "every launch read, nothing to see (a value may be another)"
    if report.truncated:
        return "some lost, said that they cannot all be counted"
    if any("behind its last whole block" in one for one in report.problems):
        return "some lost, the bytes that are not read named"
    # A cut exactly between two blocks leaves a whole, shorter report.
    return "FAULT: launches are missing without a word"


def distinct_by(report: Report, whole: Whole, file: Path) -> str:
    """The same for mutants of one report that every command treats alike; see the top of this file."""
    said = "\n".join([report.error, *report.problems, str(report.lost), str(report.truncated)])
    parts = [re.sub(r"[\d,]*\d", "N", said.replace(str(file), "FILE"))]
    before = {one.id.number: place for place, one in enumerate(whole.report.launches)}
    for one in report.launches:
        place = before.get(one.id.number)
        if place is None:
            parts.append(f"launch {one.id.number} is new")
            continue
        changes = sorted(_changes(one, whole.report.launches[place]))
        if dict(one.counters) != dict(whole.report.launches[place].counters):
            statuses, old = _statuses(one), whole.statuses[place]
            changes += sorted(f"{name} {value}" for name, value in statuses.items() if value != old.get(name))
        parts.append(f"launch {one.id.number}: {'; '.join(changes)}")
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()


def _changes(now: Launch, then: Launch) -> Iterator[str]:
    for what in ("kernel", "name", "gpu", "ncu_version", "key", "problem", "nvtx", "process"):
        old, new = getattr(then, what), getattr(now, what)
        if old != new:
            yield f"{what} {_text_kind(str(new))}"
    for what in ("kind", "grid", "block", "compute_capability", "device", "collected"):
        if getattr(then, what) != getattr(now, what):
            yield f"{what} {getattr(now, what)}"
    for name in now.counters.keys() | then.counters.keys():
        old, new = then.counters.get(name), now.counters.get(name)
        if old == new:
            continue
        said = name if name in _used() else "a counter that only --raw shows"
        if new is None:
            yield f"{said} gone"
        elif old is None:
            yield f"{_text_kind(name)} is new"
        else:
            kinds = {_value_kind(new.value), *(_value_kind(value) for _, value in new.instances)}
            kinds -= {_value_kind(old.value), *(_value_kind(value) for _, value in old.instances)}
            names = {_text_kind(at) for at, _ in new.instances if isinstance(at, str)}
            unit = "" if old.unit == new.unit else _text_kind(new.unit)
            count = len(new.instances) - len(old.instances)
            # An ordinary value in place of another is what `nothing to see` means.
            if kinds or names - {"text"} or unit or count:
                yield f"{said} {sorted(kinds)} {sorted(names)} {unit} {count > 0} {count < 0}"


@cache
def _used() -> frozenset[str]:
    """The counters that any command asks for by name."""
    from perfkit.analysis.facts import COUNTERS
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.analysis.peak_model import counters
    from perfkit.analysis.reader import DURATIONS, IDENTITY

    sets = load_metric_sets()
    return frozenset((*sets.reading(), *COUNTERS, *counters(sets), *IDENTITY, *DURATIONS))


def _value_kind(value: object) -> str:
    if isinstance(value, str):
        return _text_kind(value)
    if not isinstance(value, (int, float)):
        return "none"
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == 0:
        return "zero"
    return f"{'negative ' if value < 0 else ''}{'huge' if abs(value) > _EXACT else 'number'}"


def _text_kind(text: str) -> str:
    if not text:
        return "empty"
    if not text.isprintable():
        return "unprintable"
    return "garbled" if "\ufffd" in text else "text" if text.isascii() else "letters"


def _commands_in_child(
    report: Report, folder: Path, what: str, only: Callable[[str], bool], tally: Tally
) -> None:
    found = commands(Path(report.path), folder, len(report.launches))
    asked = [(name, args) for name, args in found if only(name)]
    here, there = os.pipe()
    sys.stdout.flush()
    gc.freeze()  # the child's collector would touch, and so copy, every page
    child = os.fork()
    if child == 0:
        os.close(here)
        code = 1
        try:
            vars(reading)["read_reports"] = lambda *_, **options: _given(report, **options)
            lines = [_run_one(name, args, report) for name, args in asked]
            os.write(there, "\n".join(lines).encode("utf-8", "replace"))
            code = 0
        finally:
            os._exit(code)
    os.close(there)
    status, usage, said = _wait(child, here)
    tally.command_mb = max(tally.command_mb, usage)
    for line in said.splitlines():
        name, _, fault = line.partition("\t")
        tally.commands[name] += 1
        if fault:
            tally.faults.append(f"{what}: {name}: {fault}")
    if status:
        tally.faults.append(f"{what}: {status}")


def _really(
    report: Report, folder: Path, what: str, only: Callable[[str], bool], tally: Tally, turn: int
) -> None:
    """Three of the commands on a mutant as a user starts them; the others have their turn on others."""
    from perfkit.analysis.metrics import load_metric_sets

    # The library can fail at a counter that most commands do not ask for.
    file = Path(report.path)
    (few,) = reading.read_reports([file], load_metric_sets().reading(), keep_going=True)
    found = [one for one in commands(file, folder, len(report.launches)) if only(one[0])]
    for place in range(3 if found else 0):
        name, args = found[(3 * turn + place) % len(found)]
        status, usage, out, err = _started([sys.executable, "-m", "perfkit", *args], folder)
        tally.real[name] += 1
        tally.real_mb = max(tally.real_mb, usage)
        fault = (
            status
            if isinstance(status, str)
            else _fault(status, out, err, report) and _fault(status, out, err, few)
        )
        if fault:
            tally.faults.append(f"{what}: the real {name}: {fault}")


def _started(command: Sequence[str], folder: Path) -> tuple[int | str, float, str, str]:
    """Exit code (or how it ended otherwise), largest resident memory of a process in MB, stdout, stderr."""
    out, err = folder / "out.txt", folder / "err.txt"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))

    with out.open("wb") as first, err.open("wb") as second:
        limits = limit if sys.platform == "linux" else None
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=first, stderr=second, preexec_fn=limits
        )
        status, usage, _ = _wait(process.pid, None)
        process.returncode = 0  # it has been waited for
    code: int | str = status
    if ended := re.fullmatch(r"the child ended with (\d+)", status):
        code = int(ended[1])
    texts = [file.read_text("utf-8", "replace") for file in (out, err)]
    return code or 0, usage, texts[0], texts[1]


def _given(report: Report, *, keep_going: bool = False, **_: object) -> list[Report]:
    """read_reports of the one report that was read."""
    if report.error and not keep_going:
        raise ReportError(report.error, report.remedy)
    return [report]


def _run_one(name: str, args: list[str], report: Report | None = None) -> str:
    """A line: the command, and after a tab what is wrong with how it ended."""
    from perfkit.cli import main

    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            sys.argv = ["perfkit", *args]
            main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException as error:  # noqa: BLE001 - whatever comes out is what is looked for
        return f"{name}\traised {type(error).__name__}: {str(error)[:200]!r}"
    fault = _fault(code, out.getvalue(), err.getvalue(), report)
    return f"{name}\t{fault}" if fault else name


def _fault(code: object, out: str, err: str, report: Report | None) -> str:
    """What is wrong with how a command ended that was given this report; "" where nothing is."""
    if "internal error" in err or "Traceback" in err or code not in _GOOD_EXITS:
        return f"exit {code}: {err.strip()[-300:]!r}"
    if report is None:
        return ""
    said = _squeezed(err + out)
    if report.error:
        # `explain` of nothing else ends there; a gate has failed.
        if code not in (1, 2):
            return f"exit {code} of a report that cannot be read"
        return "" if _squeezed(report.path) in said else f"the file is not named: {err.strip()[-300:]!r}"
    missing = [one for one in report.problems if _squeezed(one) not in said]
    return f"does not say {missing[0]!r}" if missing else ""


def _squeezed(text: str) -> str:
    """Without blanks, which a narrow table breaks lines at."""
    return "".join(text.split())


def _wait(child: int, pipe: int | None) -> tuple[str, float, str]:
    """How the child ended ("" if well), its largest resident memory in MB, and what it wrote."""

    def end(*_: object) -> None:
        os.kill(child, signal.SIGKILL)

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(TIMEOUT_S)
    said = ""
    try:
        if pipe is not None:
            with os.fdopen(pipe, "rb") as stream:
                said = stream.read().decode("utf-8", "replace")
        _, status, usage = os.wait4(child, 0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if os.WIFSIGNALED(status):
        return f"a command hung or was ended by signal {os.WTERMSIG(status)}", usage.ru_maxrss / 1024, said
    ended = os.waitstatus_to_exitcode(status)
    return (f"the child ended with {ended}" if ended else ""), usage.ru_maxrss / 1024, said


def table(tally: Tally, seconds: float) -> str:
    """The summary as lines of text."""
    lines = [f"{tally.made[False]} bytes changed, {tally.made[True]} cuts ({seconds:.0f} s)", ""]
    lines += [f"{count:6}  {fate}" for fate, count in tally.became.most_common()]
    lines += ["", f"{tally.distinct:6}  distinct readings, whole ones included, each through:"]
    lines += [f"{count:6}  {name}" for name, count in sorted(tally.commands.items())]
    lines += ["", f"{sum(tally.real.values()):6}  runs of the real command line:"]
    lines += [f"{count:6}  {name}" for name, count in sorted(tally.real.items())]
    lines += [
        "",
        f"largest memory: reading process {tally.reader_mb:.0f} MB, commands {tally.command_mb:.0f} MB,"
        f" real command line {tally.real_mb:.0f} MB",
        f"slowest reading: {tally.slowest_s:.1f} s",
        "seconds: " + ", ".join(f"{what} {spent:.0f}" for what, spent in tally.spent.items()),
        f"faults: {len(tally.faults)}",
    ]
    return "\n".join(lines + [f"  {fault}" for fault in tally.faults[:400]])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", default="", help="commands to leave out, with commas")
    parser.add_argument(
        "--real-every", type=int, default=END_TO_END, help="the real command line on one mutant of so many"
    )
    parser.add_argument("--largest", type=int, default=1 << 40, help="bytes of the largest report to take")
    given = parser.parse_args()
    folder = os.environ.get("PERFKIT_REPORTS")
    if not folder:
        sys.exit("set PERFKIT_REPORTS to a folder of reports")
    files = sorted(
        one
        for one in Path(folder).iterdir()
        if one.suffix in REPORT_SUFFIXES and one.stat().st_size <= given.largest
    )
    left_out = set(given.without.split(",")) - {""}
    start = time.monotonic()

    def progress(number: int, tally: Tally) -> None:
        if number % 50 == 0:
            spent = ", ".join(f"{what} {seconds:.0f}" for what, seconds in tally.spent.items())
            said = f"{number}: {tally.distinct} distinct, {len(tally.faults)} faults, {spent}"
            sys.stderr.write(f"{said}, {time.monotonic() - start:.0f} s\n")
            sys.stderr.writelines(f"    {fault}\n" for fault in tally.faults[-3:])

    tally = run(
        files,
        given.flips,
        given.cuts,
        given.seed,
        lambda name: name not in left_out,
        given.real_every,
        progress,
    )
    sys.stdout.write(table(tally, time.monotonic() - start) + "\n")
    return 1 if tally.faults or max(tally.reader_mb, tally.command_mb, tally.real_mb) > MEMORY_MB else 0


if __name__ == "__main__":
    sys.exit(main())
