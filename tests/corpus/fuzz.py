"""Damaged reports through every command: what becomes of them, and of perfkit.

    PERFKIT_REPORTS=FOLDER python tests/corpus/fuzz.py --flips 2000 --cuts 500 --seed 1

A mutant is a field report with one byte changed, or cut short. It is read as every command reads, in a
process of its own; then a forked child runs the commands, which are given what was read (only `explain` of
two launches reads the single instructions as well). Mutants that read alike (every field of every launch,
every counter, every sentence) would print alike, so the commands run on one of them.

What may become of a mutant: it is an error that names the file; or every launch that the whole report holds
is read, or counted as lost, or the report says that more may be lost than can be counted.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.analysis import report as reading
from perfkit.analysis.workers import Workers
from perfkit.errors import ReportError
from perfkit.model import REPORT_SUFFIXES, Report

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
_GOOD_EXITS = (0, 1, 2)


@dataclass
class Tally:
    """What became of the mutants: counts, and the first few of whatever must not happen."""

    became: Counter[str] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    distinct: int = 0
    commanded: int = 0
    reader_mb: float = 0.0
    command_mb: float = 0.0
    slowest_s: float = 0.0


class _Open(Workers):
    """A reading process that outlives one call: starting one takes longer than reading a small report."""

    def __exit__(self, *_: object) -> None:
        return


def mutants(files: Sequence[Path], flips: int, cuts: int, seed: int) -> Iterator[tuple[str, Path, bytes]]:
    """(what was done, original, content): single bytes changed at random, then cuts at random lengths."""
    rnd = random.Random(seed)
    for number in range(flips + cuts):
        original = files[number % len(files)]
        data = bytearray(original.read_bytes())
        place = rnd.randrange(8, len(data))
        if number < flips:
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
        ("show raw", ["show", name, "--raw", "."]),
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
    every: int = 1,
    progress: Callable[[int, Tally], None] = lambda *_: None,
) -> Tally:
    """Make the mutants, read them, and run those commands that `only` takes on every distinct reading, or on
    one of `every` so many.
    """
    from perfkit.analysis.metrics import load_metric_sets

    load_metric_sets()  # once, before the forks
    tally = Tally()
    seen: set[str] = set()
    whole: dict[Path, int] = {}
    process = _Open(1)
    real = vars(reading)["Workers"]
    vars(reading)["Workers"] = lambda _count: process
    try:
        with tempfile.TemporaryDirectory() as name:
            for number, (what, original, data) in enumerate(mutants(files, flips, cuts, seed)):
                if original not in whole:
                    whole[original] = len(reading.read_report(original, ()).launches)
                file = Path(name) / f"mutant{original.suffix}"
                file.write_bytes(data)
                start = time.monotonic()
                (report,) = reading.read_reports([file], None, keep_going=True)
                tally.slowest_s = max(tally.slowest_s, time.monotonic() - start)
                fate = became(report, whole[original])
                tally.became[fate] += 1
                if fate.startswith("FAULT"):
                    tally.faults.append(f"{what}: {fate}")
                key = digest(report, file)
                if key not in seen:
                    seen.add(key)
                    if tally.distinct % every == 0:
                        tally.commanded += 1
                        _commands_in_child(report, Path(name), what, only, tally)
                    tally.distinct += 1
                progress(number + 1, tally)
    finally:
        vars(reading)["Workers"] = real
        Workers.__exit__(process, None, None, None)
    tally.reader_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return tally


def became(report: Report, launches: int) -> str:
    """What became of a report of so many launches, in words; those that must not be start with FAULT."""
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
        return "every launch read, damage named" if report.problems else "every launch read, nothing to see"
    if report.truncated:
        return "some lost, said that they cannot all be counted"
    if any("behind its last whole block" in one for one in report.problems):
        return "some lost, the bytes that are not read named"
    # A cut exactly between two blocks leaves a whole, shorter report.
    return "FAULT: launches are missing without a word"


def digest(report: Report, file: Path) -> str:
    """The same for reports of which every command would print the same."""
    parts = [report.error, *report.problems, str(report.lost), str(report.truncated)]
    for one in report.launches:
        parts.append(
            repr((one.id.launch, one.name, one.gpu, one.grid, one.block, one.kind, one.device, one.nvtx))
        )
        parts += [repr(one.counters[name]) for name in sorted(one.counters)]
    text = "\n".join(parts).replace(str(file), "FILE")
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _commands_in_child(
    report: Report, folder: Path, what: str, only: Callable[[str], bool], tally: Tally
) -> None:
    found = commands(Path(report.path), folder, len(report.launches))
    asked = [(name, args) for name, args in found if only(name)]
    here, there = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(here)
        code = 1
        try:
            vars(reading)["read_reports"] = lambda *_, **options: _given(report, **options)
            lines = [_run_one(name, args) for name, args in asked]
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


def _given(report: Report, *, keep_going: bool = False, **_: object) -> list[Report]:
    """read_reports of the one report that was read."""
    if report.error and not keep_going:
        raise ReportError(report.error, report.remedy)
    return [report]


def _run_one(name: str, args: list[str]) -> str:
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
    said = err.getvalue()
    if "internal error" in said or code not in _GOOD_EXITS:
        return f"{name}\texit {code}: {said.strip()[-300:]!r}"
    return name


def _wait(child: int, pipe: int) -> tuple[str, float, str]:
    """How the child ended ("" if well), its largest resident memory in MB, and what it wrote."""

    def end(*_: object) -> None:
        os.kill(child, signal.SIGKILL)

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(TIMEOUT_S)
    try:
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


def table(tally: Tally, flips: int, cuts: int, seconds: float) -> str:
    """The summary as lines of text."""
    lines = [f"{flips} bytes changed, {cuts} cuts ({seconds:.0f} s)", ""]
    lines += [f"{count:6}  {fate}" for fate, count in tally.became.most_common()]
    lines += ["", f"{tally.distinct:6}  distinct readings, {tally.commanded} of them through:"]
    lines += [f"{count:6}  {name}" for name, count in sorted(tally.commands.items())]
    lines += [
        "",
        f"largest memory: reading process {tally.reader_mb:.0f} MB, command {tally.command_mb:.0f} MB",
        f"slowest reading: {tally.slowest_s:.1f} s",
        f"faults: {len(tally.faults)}",
    ]
    return "\n".join(lines + [f"  {fault}" for fault in tally.faults[:40]])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", default="", help="commands to leave out, with commas")
    parser.add_argument("--every", type=int, default=1, help="run the commands on one of so many readings")
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
            said = f"{number}: {tally.distinct} distinct, {len(tally.faults)} faults"
            sys.stderr.write(f"{said}, {time.monotonic() - start:.0f} s\n")
            sys.stderr.writelines(f"    {fault}\n" for fault in tally.faults[-3:])

    tally = run(
        files, given.flips, given.cuts, given.seed, lambda name: name not in left_out, given.every, progress
    )
    sys.stdout.write(table(tally, given.flips, given.cuts, time.monotonic() - start) + "\n")
    return 1 if tally.faults or max(tally.reader_mb, tally.command_mb) > MEMORY_MB else 0


if __name__ == "__main__":
    sys.exit(main())
