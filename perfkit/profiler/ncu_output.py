"""What ncu prints while it profiles, read piece by piece: which kernel, how far, and what went wrong.

ncu and the program write to one stream, so a line of the one can be cut by a line of the other:

    ==PROF== Connected to process 4711 (/usr/bin/python3.12)
    ==PROF== Profiling "sgemm_k6" - 0: 0%....50%....100% - 11 passes
    ==ERROR== ERR_NVGPUCTRPERM - The user does not have permission ...
    ==WARNING== No kernels were profiled.
    ==PROF== Report: /path/profile.ncu-rep
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_TAG = re.compile(r"==(PROF|ERROR|WARNING|PERFKIT)==\s?")
_PROFILING = re.compile(r'Profiling "(?P<name>.*)"(?: - \d+)?(?: \(\d+/\d+\))?: ?(?P<bar>[\d%.]*)')
_PASSES = re.compile(r" - (\d+) pass(?:es)?\s*$")
_REST = re.compile(r"^[.\d%]*%? - (\d+) pass(?:es)?\s*$")
_PERCENT = re.compile(r"(\d+)%(\.*)$")
_KEPT_LINES = 400
_LONGEST_LINE = (
    65536  # bytes; what prints more without a newline is cut, else it would be copied again and again
)
# ncu says so at every start with --clock-control none, which was asked for and stands in the run's record.
_EXPECTED = "Note: Running with unmodified GPU clocks"


@dataclass(slots=True)
class ProfiledLaunch:
    """A launch ncu said it profiled. `label` and `problem` are known where perfkit's own runner launched it.

    `passes` is None while, or when, ncu did not say how many it took.
    """

    kernel: str
    label: str = ""
    problem: str = ""
    passes: int | None = None
    fraction: float = 0.0  # of its passes

    def __str__(self) -> str:
        return f"{self.label} at {self.problem} ({self.kernel})" if self.label else self.kernel


class NcuOutput:
    """Reads the stream. `on_line(kind, text)` gets each whole line, kind: prof, error, warning, program.

    `on_progress(output)` is called whenever the launch in hand or its passes moved on.
    """

    def __init__(
        self,
        on_line: Callable[[str, str], None] | None = None,
        on_progress: Callable[[NcuOutput], None] | None = None,
    ) -> None:
        self.launches: list[ProfiledLaunch] = []
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.program: deque[str] = deque(maxlen=_KEPT_LINES)
        self.stage = ""  # what the runner said last: "verify k6 n=4096"
        self.connected = False
        self.none_profiled = False
        self._on_line = on_line or (lambda _kind, _text: None)
        self._on_progress = on_progress or (lambda _output: None)
        self._pending = b""
        self._open: ProfiledLaunch | None = None  # the launch of the line that is still being written

    @property
    def current(self) -> ProfiledLaunch | None:
        """The launch whose passes are not over; None between launches."""
        last = self.launches[-1] if self.launches else None
        return last if last and last.passes is None else None

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the stream, of any length."""
        *lines, self._pending = (self._pending + piece).split(b"\n")
        for line in lines:
            self._line(line.decode("utf-8", "replace").rstrip("\r"))
        if len(self._pending) > _LONGEST_LINE:
            self.close()
        if b'Profiling "' in self._pending:
            self._partial(self._pending.decode("utf-8", "replace"))

    def close(self) -> None:
        """The stream is over, or goes on without an end of line: what is left is a line."""
        if self._pending:
            self._line(self._pending.decode("utf-8", "replace"))
            self._pending = b""

    def _line(self, line: str) -> None:
        tag = _TAG.search(line)
        if tag is None:
            rest = _REST.match(line)
            if rest and self.current:  # the end of a progress line that the program's output had cut
                self._finish(self.launches[-1], int(rest[1]))
            else:
                self._say_program(line)
            return
        if tag.start():
            self._say_program(line[: tag.start()])
        text = line[tag.end() :]
        if tag[1] == "PROF":
            self._prof(text)
        elif tag[1] == "PERFKIT":
            self._marker(text)
        else:
            self._complaint(tag[1].lower(), text)

    def _say_program(self, text: str) -> None:
        self.program.append(text)
        self._on_line("program", text)

    def _complaint(self, kind: str, text: str) -> None:
        if text.startswith(_EXPECTED):
            self._on_line("prof", text)
            return
        if "No kernels were profiled" in text:
            self.none_profiled = True
        (self.errors if kind == "error" else self.warnings).append(text)
        self._on_line(kind, text)

    def _marker(self, text: str) -> None:
        if text.startswith("error "):
            return  # the whole of it is in RESULT.json
        self.stage = text
        self._on_progress(self)

    def _prof(self, text: str) -> None:
        if text.startswith("Connected to process"):
            self.connected = True
        found = _PROFILING.search(text)
        if not found:
            self._on_line("prof", text)
            return
        launch = self._launch(found["name"])
        self._open = None
        passes = _PASSES.search(text)
        if passes:
            self._finish(launch, int(passes[1]))
        else:
            self._on_progress(self)

    def _partial(self, text: str) -> None:
        found = _PROFILING.search(text)
        if not found or _TAG.search(text) is None:
            return
        launch = self._launch(found["name"])
        percent = _PERCENT.search(found["bar"])
        if percent:
            launch.fraction = min(1.0, (int(percent[1]) + 10 * len(percent[2])) / 100)
        self._on_progress(self)

    def _launch(self, name: str) -> ProfiledLaunch:
        """The launch of the line in hand: the one its beginning opened, else a new one."""
        if self._open is None:
            stage, _, rest = self.stage.partition(" ")
            label, _, problem = rest.partition(" ") if stage == "launch" else ("", "", "")
            self._open = ProfiledLaunch(name, label, problem)
            self.launches.append(self._open)
        return self._open

    def _finish(self, launch: ProfiledLaunch, passes: int) -> None:
        launch.passes, launch.fraction = passes, 1.0
        self._on_progress(self)
