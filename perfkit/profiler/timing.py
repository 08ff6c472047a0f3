"""Event timing behind one small interface: `Timer` is what `perfkit bench` asks, `WorkerTimer` answers
with a process.

The process (kernels/bench_worker.py) owns the GPU. It is asked for one thing at a time, so that
statistics, sensors and progress run here and never delay a launch there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from perfkit import errors
from perfkit.errors import PerfkitError, ToolError, ToolTimeoutError
from perfkit.kernels.plan import KernelPlan
from perfkit.model import Batch, GpuInfo, PairSamples, Verification


class Timer(Protocol):
    """A GPU that times launches. Names stand for kernels that were opened."""

    gpu: GpuInfo
    versions: dict[str, str]

    def open(self, name: str, plan: KernelPlan) -> tuple[Verification | None, dict[str, Any]]:
        """Load a kernel, run it once, verify it; the outcome and the launch facts
        (kernels.launching.LaunchFacts).
        """

    def warm(self, name: str, seconds: float) -> float:
        """Launch back to back for `seconds`; s a launch at the end of it."""

    def batch(
        self, name: str, launches: int, *, inner: int = 1, cold: bool = False, lead_in: bool = False
    ) -> Batch:
        """Time `launches` times `inner` launches; see kernels.measuring.Meter.batch."""

    def pairs(
        self, a: str, b: str, a_first: Sequence[bool], *, inner: int, spin_cycles: int = 0
    ) -> PairSamples:
        """Interleaved windows of A and B; `spin_cycles` delay B inside its window."""

    def clear(self) -> None:
        """Forget what was opened and give its memory back."""

    def close(self) -> None:
        """End the measuring process."""


class WorkerTimer:
    """A measuring process of its own. Use as a context manager: leaving it ends the process."""

    gpu: GpuInfo
    versions: dict[str, str]

    def __init__(self, *, seed: int = 0, timeout: float = 300.0) -> None:
        self._timeout = timeout
        self._doing = "starting CUDA"
        ours, theirs = socket.socketpair()
        self._socket = ours
        ours.settimeout(timeout)
        with theirs:
            # -P: a user's folder with a random.py must not shadow Python's own modules.
            command = [sys.executable, "-P", "-m", "perfkit.kernels.bench_worker", str(theirs.fileno())]
            # Its stdout must not mix with our tables: a kernel may print.
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": _python_path()},
            )
        self._stream = ours.makefile("rw", encoding="utf-8")
        try:
            hello = self._ask("hello", seed=seed)
        except BaseException:
            self.close()
            raise
        gpu = hello["gpu"]
        self.gpu = GpuInfo(**{**gpu, "compute_capability": tuple(gpu["compute_capability"])})
        self.versions = dict(hello["versions"])

    def __enter__(self) -> WorkerTimer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process: it leaves when the connection closes; a hung one is killed."""
        with contextlib.suppress(OSError):
            self._stream.close()
        self._socket.close()
        try:
            self._process.wait(timeout=0.2 if sys.exc_info()[0] else 10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def open(self, name: str, plan: KernelPlan) -> tuple[Verification | None, dict[str, Any]]:
        """See Timer. Raises what the kernel raised, with its label and problem."""
        self._doing = f"{plan.label} at {plan.problem}"
        answer = self._ask("open", name=name, plan=dataclasses.asdict(plan))
        outcome = answer["verification"]
        return (Verification(**outcome) if outcome else None), dict(answer["facts"])

    def warm(self, name: str, seconds: float) -> float:
        """See Timer."""
        self._doing = name
        return float(self._ask("warm", name=name, seconds=seconds)["seconds"])

    def batch(
        self, name: str, launches: int, *, inner: int = 1, cold: bool = False, lead_in: bool = False
    ) -> Batch:
        """See Timer."""
        self._doing = name
        answer = self._ask("batch", name=name, launches=launches, inner=inner, cold=cold, lead_in=lead_in)
        return Batch(**{**answer, "times": tuple(answer["times"])})

    def pairs(
        self, a: str, b: str, a_first: Sequence[bool], *, inner: int, spin_cycles: int = 0
    ) -> PairSamples:
        """See Timer."""
        self._doing = f"{a} against {b}"
        answer = self._ask("pairs", a=a, b=b, a_first=list(a_first), inner=inner, spin_cycles=spin_cycles)
        lists = ("a", "b", "a_cycles", "b_cycles", "a_first")
        return PairSamples(**{**answer, **{name: tuple(answer[name]) for name in lists}})

    def clear(self) -> None:
        """See Timer."""
        self._ask("clear")

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        line = ""
        try:
            self._stream.write(json.dumps({"op": op, **fields}) + "\n")
            self._stream.flush()
            line = self._stream.readline()
        except TimeoutError as error:
            raise ToolTimeoutError(
                f"{self._doing}: no answer within {self._timeout:g} s; the measuring process was ended",
                "The kernel may hang, or the size be too large for it. Try a smaller -n.",
            ) from error
        except OSError:
            line = ""
        if not line:
            raise ToolError(
                f"{self._doing}: the measuring process ended{_exit_words(self._exit_code())}",
                "Its own words are above. Run `perfkit doctor`; a kernel that writes outside its arrays does "
                "this.",
            )
        answer = dict(json.loads(line))
        if not answer.pop("ok"):
            raise _error(answer, self._doing)
        return answer

    def _exit_code(self) -> int | None:
        try:
            return self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return None


def _error(answer: dict[str, Any], doing: str) -> PerfkitError:
    kind: type[PerfkitError] = getattr(errors, answer["error"], ToolError)
    message = answer["message"]
    return kind(message if doing in message else f"{doing}: {message}", answer["remedy"])


def _exit_words(code: int | None) -> str:
    if code is None:
        return ""
    return f" by signal {-code}" if code < 0 else f" with exit code {code}"


def _python_path() -> str:
    """perfkit as it was imported here, then what the user set."""
    package = str(Path(__file__).parents[2])
    return os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True
