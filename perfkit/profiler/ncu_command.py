"""The ncu command line, every option whose default moved between releases given explicitly."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.errors import UsageError
from perfkit.profiler.ncu_tool import NcuTool

CLOCK_CONTROLS = ("none", "base")
CACHE_CONTROLS = ("all", "none")
# Inline flags, named groups, lookbehind, comments, conditions, \A and \Z.
_PYTHON_ONLY = re.compile(r"(?<!\\)(?:\\\\)*(\(\?(?![:=!])[^)]{0,3}|\\[AZ])")


@dataclass(frozen=True, slots=True)
class Filters:
    """Which launches of a program to profile; what is empty or None filters nothing.

    `kernel` and `exclude` are regular expressions searched in the kernel's name, as ncu knows them
    (ECMAScript's; its prefix regex: may stand before them); `nvtx` is a range name, or
    an expression of ncu's where it holds one of @ / [ ] or starts with regex:. `skip` and `count` count
    launches that match the rest.
    """

    kernel: str = ""
    exclude: str = ""
    nvtx: tuple[str, ...] = ()
    skip: int = 0
    count: int | None = None
    demangled: bool = False

    def __post_init__(self) -> None:
        for text, option in ((self.kernel, "--kernel"), (self.exclude, "--exclude")):
            try:
                re.compile(text)
            except re.error as error:
                raise UsageError(f"{option} {text!r} is no regular expression: {error}") from error
            if found := _PYTHON_ONLY.search(text):
                raise UsageError(
                    f"{option} {text!r}: {found[0]} is Python's, and ncu's expressions are ECMAScript's",
                    "Write it without: [Gg]emm instead of (?i)gemm, ^ and $ instead of \\A and \\Z.",
                )
        if not all(self.nvtx):
            raise UsageError("--nvtx '': a range has a name", "Give it: --nvtx RANGE.")
        if self.skip < 0:
            raise UsageError(f"--skip {self.skip}: the number of launches to skip cannot be negative")
        if self.count is not None and self.count < 1:
            raise UsageError(f"--count {self.count}: at least one launch must be profiled")

    def arguments(self) -> list[str]:
        """As ncu takes them."""
        given: list[str] = []
        if self.kernel or self.exclude:
            base = "demangled" if self.demangled else "function"
            given += ["--kernel-name-base", base, "--kernel-name", f"regex:{self._name_expression()}"]
        if self.nvtx:
            for text in self.nvtx:
                for expression in _nvtx_expressions(text):
                    given += ["--nvtx-include", expression]
        if self.skip:
            given += ["--launch-skip", str(self.skip)]
        if self.count is not None:
            given += ["--launch-count", str(self.count)]
        return given

    def _name_expression(self) -> str:
        # ncu has no option that excludes a name in all its releases; its expressions are ECMAScript's, which
        # know negative lookahead. Without an exclusion the user's expression goes through as it is.
        kernel, exclude = (text.removeprefix("regex:") for text in (self.kernel, self.exclude))
        if not exclude:
            return kernel
        wanted = f"(?=.*(?:{kernel}))" if kernel else ""
        return f"^(?!.*(?:{exclude})){wanted}.*$"

    def __str__(self) -> str:
        parts = [f"--kernel {self.kernel!r}"] if self.kernel else []
        parts += [f"--exclude {self.exclude!r}"] if self.exclude else []
        parts += [f"--nvtx {text!r}" for text in self.nvtx]
        parts += [f"--skip {self.skip}"] if self.skip else []
        parts += [f"--count {self.count}"] if self.count is not None else []
        parts += ["--demangled"] if self.demangled and (self.kernel or self.exclude) else []
        return " ".join(parts) or "none"


def _nvtx_expressions(text: str) -> list[str]:
    """A plain name stands for a push/pop range (`name/`) and for a start/end range (`name`)."""
    if text.startswith("regex:") or re.search(r"[@/\[\]]", text):
        return [text]
    quoted = re.sub(r'([,"*+])', r"\\\1", text)
    return [f"{quoted}/", quoted]


@dataclass(frozen=True, slots=True)
class NcuOptions:
    """What to collect and how."""

    counters: tuple[str, ...] = ()
    clock_control: str = "none"
    cache_control: str = "all"
    from_start: bool = True  # False: only between cudaProfilerStart and cudaProfilerStop
    source: bool = False  # keep the SASS and count by instruction: larger reports, some more passes
    filters: Filters = Filters()

    def __post_init__(self) -> None:
        for value, allowed, option in (
            (self.clock_control, CLOCK_CONTROLS, "--clock-control"),
            (self.cache_control, CACHE_CONTROLS, "--cache-control"),
        ):
            if value not in allowed:
                raise UsageError(f"{option} {value!r}", f"It is one of {', '.join(allowed)}.")


def ncu_command(tool: NcuTool, options: NcuOptions, report: Path, target: Sequence[str]) -> list[str]:
    """The whole command line. `report` is the .ncu-rep to write; `target` the program and its arguments."""
    explicit = [
        ("--config-file", "off"),  # a config.ncu-cfg lying about must not change what is measured
        ("--target-processes", "all"),
        ("--replay-mode", "kernel"),
        ("--graph-profiling", "node"),
        ("--clock-control", options.clock_control),
        ("--cache-control", options.cache_control),
        # The SASS of a library's module makes a report of 15 MB; without it the report has 0.2.
        ("--import-sass", "yes" if options.source else "no"),
        ("--import-source", "yes" if options.source else "no"),
        ("--apply-rules", "no"),
        ("--print-summary", "none"),
        ("--check-exit-code", "yes"),
        ("--profile-from-start", "on" if options.from_start else "off"),
    ]
    command = [tool.path]
    for option, value in explicit:
        if tool.knows(option):
            command += [option, value]
    command += ["--nvtx"]
    if options.source:
        command += ["--section", "SourceCounters"]
    if options.counters:
        command += ["--metrics", ",".join(options.counters)]
    # ncu expands %p, %h, %i, %q{...} in the output's name; %% stands for the character.
    command += ["--force-overwrite", "--export", str(report).replace("%", "%%")]
    return [*command, *options.filters.arguments(), *target]


def resolve_target(command: Sequence[str], cwd: Path | None = None) -> list[str]:
    """The program to start: a .py file or a bare `python` runs with the interpreter that runs perfkit.

    Relative paths are looked up here, not in `cwd`, the folder the program will run in. Raises UsageError
    when there is no such program.
    """
    if not command:
        raise UsageError("there is no program after --", "Give it: perfkit profile -- ./program arguments")
    program, *arguments = command
    if cwd is not None and not cwd.is_dir():
        raise UsageError(f"--cwd {cwd} is no folder")
    path = Path(program)
    if program.endswith(".py") and path.is_file():
        return [sys.executable, str(path.absolute()) if cwd else program, *arguments]
    if program in ("python", "python3", f"python3.{sys.version_info.minor}"):
        return [sys.executable, *arguments]
    found = shutil.which(program)
    if found:
        _check_start(found)
        return [str(Path(found).absolute()) if cwd else found, *arguments]
    if path.is_dir():
        raise UsageError(f"{program} is a folder", "Name the program in it.")
    if path.is_file() and os.access(path, os.X_OK):
        raise UsageError(f"there is no program {program!r} on PATH", f"The one in this folder is ./{program}")
    if path.is_file():
        raise UsageError(f"{program} is not executable", f"Make it so: chmod +x {program}")
    raise UsageError(
        f"there is no program {program!r}",
        "Check the path after --; it is looked for on PATH as a shell would.",
    )


def _check_start(program: str) -> None:
    """Raise UsageError for a script that only a shell could start: ncu needs its `#!` line."""
    try:
        with Path(program).open("rb") as stream:
            first = stream.read(512)
    except OSError:
        return  # may be run but not read
    if first.startswith(b"#!"):
        words = first[2:].split(b"\n")[0].split()
        if words and not Path(os.fsdecode(words[0])).exists():
            raise UsageError(
                f"{program}: its first line names {os.fsdecode(words[0])}, which does not exist",
                "Correct the line, or name the interpreter: perfkit profile -- sh script.",
            )
    elif b"\0" not in first and first.isascii():
        raise UsageError(
            f"{program} is a script without a #! line, so only a shell can start it",
            f"Name the interpreter: perfkit profile -- sh {program}",
        )
