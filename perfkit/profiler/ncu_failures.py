"""What a failed profile means and what to do about it: ncu's lines become one of perfkit's errors.

The order matters. A missing permission or another profiler makes the program fail too, and the program's
traceback must not bury the cause; so causes are looked for in ncu's lines first.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfkit.errors import CannotError, PerfkitError, ToolError, ToolTimeoutError, UsageError
from perfkit.profiler.ncu_output import NcuOutput

PERMISSION_REMEDY = (
    'Either as root: ncu needs CAP_SYS_ADMIN (sudo -E env PATH="$PATH" perfkit ...; in a container: '
    "docker run --cap-add=SYS_ADMIN).\n"
    "Or for all users, on the host: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | "
    "sudo tee /etc/modprobe.d/nvidia-profiling.conf, then reload the nvidia module or reboot.\n"
    "Under WSL2, on Windows: NVIDIA Control Panel, Developer, Manage GPU Performance Counters, allow all.\n"
    "`perfkit doctor` shows what is in force."
)
OTHER_PROFILER_REMEDY = (
    "Most often it is DCGM's monitoring: its administrator can stop it for the time with "
    "`dcgmi profiling --pause` and go on with `dcgmi profiling --resume`. perfkit does not do that for you.\n"
    "Else look for another ncu, nsys --gpu-metrics-device, or a program that uses CUPTI on this GPU."
)
_APPLICATION_CODE = re.compile(r"application returned an error code \((-?\d+)\)")
_SHOWN_LINES = 15
_SHOWN_CHARACTERS = 300  # of each


@dataclass(frozen=True, slots=True)
class Failure:
    """All there is to know about a profile that went wrong."""

    output: NcuOutput
    exit_code: int
    timed_out: bool
    timeout: float | None
    report_written: bool
    filters: str  # as the user gave them; "none"
    program: str
    ncu_version: str
    driver_version: str

    def where(self) -> str:
        """The kernel in hand, for a message."""
        current = self.output.current
        if current:
            return f" while profiling {current}"
        last = self.output.launches[-1] if self.output.launches else None
        return f" after profiling {last}" if last else ""

    def quoted(self, *patterns: str) -> str:
        """ncu's own errors and warnings that match one of the patterns, else all its errors; without
        repeats.
        """
        lines = [*self.output.errors, *self.output.warnings]
        chosen = [line for line in lines if any(re.search(p, line, re.IGNORECASE) for p in patterns)]
        return "\n".join(f"  ncu: {line}" for line in dict.fromkeys(chosen or self.output.errors))

    def program_tail(self) -> str:
        """The last lines the program printed, behind ncu's."""
        lines = [line[:_SHOWN_CHARACTERS] for line in self.output.program if line.strip()][-_SHOWN_LINES:]
        if not lines:
            return ""
        return "\nthe program's last lines:\n" + "\n".join(f"  {line}" for line in lines)


@dataclass(frozen=True, slots=True)
class _Cause:
    """Lines of ncu that name a cause, and the error they become."""

    patterns: tuple[str, ...]
    error: type[PerfkitError]
    says: str
    remedy: Callable[[Failure], str]


_CAUSES: Sequence[_Cause] = (
    _Cause(
        (r"ERR_NVGPUCTRPERM", r"permission to access NVIDIA GPU Performance Counters"),
        CannotError,
        "ncu may not read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        lambda _: PERMISSION_REMEDY,
    ),
    _Cause(
        (r"driver resource was unavailable", r"no other tool \(like DCGM\)", r"another (tool|profiler)"),
        CannotError,
        "another profiler holds this GPU's counters",
        lambda _: OTHER_PROFILER_REMEDY,
    ),
    _Cause(
        (
            r"driver is not compatible",
            r"(driver|version).*(too old|mismatch|not supported by this)",
            r"unsupported driver",
        ),
        CannotError,
        "this ncu and the driver do not fit each other",
        lambda failure: (
            f"ncu is {failure.ncu_version}, the driver {failure.driver_version or 'of unknown version'}. Use "
            "the "
            "ncu of the CUDA version the driver supports (nvidia-smi names it), or update the driver.\n"
            "PERFKIT_NCU=/path/to/ncu chooses another ncu."
        ),
    ),
    _Cause(
        (r"nsight-compute-lock", r"lock file"),
        CannotError,
        "ncu cannot use its lock file",
        lambda _: "Another user's ncu made it. Set TMPDIR to a folder of your own, or have the file removed.",
    ),
    _Cause(
        (r"not supported on (this|the|any)", r"unsupported GPU", r"no (supported|compatible) (GPU|device)"),
        CannotError,
        "ncu does not support this GPU",
        lambda failure: (
            f"ncu is {failure.ncu_version}. GPUs older than Volta need ncu 2019 to 2021 or nvprof, newer "
            "ones a "
            "newer ncu; `ncu --list-chips` names those it knows."
        ),
    ),
    _Cause(
        (r"No space left", r"failed to (write|save|create).*report", r"could not (write|open).*report"),
        CannotError,
        "ncu could not write its report",
        lambda _: "Free some space on the disks of the run folder and of TMPDIR, or move them elsewhere.",
    ),
    _Cause(
        (
            r"failed to find metric",
            r"unknown metric",
            r"invalid metric",
            r"metric.* (does not exist|not found)",
        ),
        UsageError,
        "ncu does not know a metric that was asked for",
        lambda _: "`ncu --query-metrics` lists this chip's. Correct --metrics, or leave the metric out.",
    ),
)


def explain_failure(failure: Failure) -> PerfkitError | None:
    """The error to raise, None when nothing is wrong. Causes first, then the timeout, then the program."""
    complaints = [*failure.output.errors, *failure.output.warnings]
    for cause in _CAUSES:
        if any(re.search(p, line, re.IGNORECASE) for line in complaints for p in cause.patterns):
            if failure.report_written and failure.exit_code == 0 and not failure.output.errors:
                continue  # a warning beside results is shown as it came, and is no failure
            text = f"{cause.says}{failure.where()}\n{failure.quoted(*cause.patterns)}{failure.program_tail()}"
            return cause.error(text, cause.remedy(failure))
    if failure.timed_out:
        return _timeout(failure)
    program = _program_failure(failure)
    if program:
        return program
    if failure.output.errors or failure.exit_code != 0:
        return _ncu_failure(failure)
    if failure.output.none_profiled or not failure.report_written or not failure.output.launches:
        return _nothing_profiled(failure)
    return None


def _timeout(failure: Failure) -> PerfkitError:
    stage = f" (the runner was at: {failure.output.stage})" if failure.output.stage else ""
    done = sum(1 for launch in failure.output.launches if launch.passes is not None)
    return ToolTimeoutError(
        f"{failure.program} did not end within {failure.timeout:g} s{failure.where()}{stage}; {done} "
        "launch(es) "
        f"had been profiled; it was ended with all its processes{failure.program_tail()}",
        "Give it more time with --timeout, or fewer launches with --kernel, --skip and --count.\n"
        "A kernel that waits for its peers (NCCL, grid-wide barriers across processes) hangs when ncu "
        "replays "
        "it: leave it out with --exclude REGEX.",
    )


def _program_failure(failure: Failure) -> PerfkitError | None:
    code: int | None = None
    for line in failure.output.errors:
        found = _APPLICATION_CODE.search(line)
        if found:
            code = int(found[1])
    others = [line for line in failure.output.errors if not _APPLICATION_CODE.search(line)]
    if code is None or code == 0:
        return None
    # ncu gives a program that a signal ended as 128 + number, as a shell does.
    name = _signal_name(code - 128) if 128 < code < 160 else ""
    ended = f"was ended by {name}" if name else f"failed with exit code {code}"
    quoted = "\n" + "\n".join(f"  ncu: {line}" for line in others) if others else ""
    kept = "The report of what was profiled before is kept. " if failure.report_written else ""
    return ToolError(
        f"{failure.program} {ended}{failure.where()}{quoted}{failure.program_tail()}",
        f"{kept}Run the program without perfkit: if it fails there too, the reason is its own.",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _ncu_failure(failure: Failure) -> PerfkitError:
    how = f"with {_signal_name(-failure.exit_code)}" if failure.exit_code < 0 else f"code {failure.exit_code}"
    return ToolError(
        f"ncu failed ({how}){failure.where()}\n{failure.quoted()}{failure.program_tail()}".replace(
            "\n\n", "\n"
        ),
        "`perfkit doctor` checks the installation; the whole output is in the run's ncu.log.",
    )


def _nothing_profiled(failure: Failure) -> PerfkitError:
    filtered = failure.filters != "none"
    reasons = [
        "Look at what it launches with `perfkit profile --list -- ...` and correct the filters."
        if filtered
        else "Check that the program launches CUDA kernels on a GPU.",
        "An NVTX name matches push/pop and start/end ranges only of the default domain: name another one as "
        "'domain@range/'.",
        "Kernels in processes that a service or an existing server starts are not seen: profile that "
        "process.",
        f"A GPU newer or older than ncu {failure.ncu_version} supports is not profiled: `perfkit doctor`.",
    ]
    where = f" (filters: {failure.filters})" if filtered else " (no filters were used)"
    kind = UsageError if filtered else ToolError
    seen = "" if failure.output.connected else "; ncu never saw it use CUDA"
    return kind(
        f"no launch of {failure.program} was profiled{where}{seen}{failure.program_tail()}",
        "\n".join(reasons),
    )
