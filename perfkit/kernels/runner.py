"""The process that ncu starts: `python -m perfkit.kernels.runner PLAN.json`.

For each problem size: make the inputs, warm every kernel up and verify it, then open the profiled range
(cudaProfilerStart), launch each kernel once inside the NVTX range `perfkit:<label>:<problem>`, and close the
range. With ncu's `--profile-from-start off` only those launches are profiled. The outcome is RESULT.json,
written by rename.

Lines that start with `==PERFKIT==` tell the process that reads ncu's output which kernel is in hand.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perfkit.errors import PerfkitError
from perfkit.kernels.launching import Launcher, Workspace, gpu_info, import_cupy
from perfkit.kernels.plan import KernelPlan, Plan, read_plan
from perfkit.kernels.verify import Verifier

MARKER = "==PERFKIT=="


def nvtx_name(label: str, problem: str) -> str:
    """The name of the NVTX range around a launch; analysis/report.py reads key and problem back from it."""
    return f"perfkit:{label}:{problem}"


def main(arguments: Sequence[str]) -> int:
    """Run a plan; 0 when every kernel was launched. Errors go to RESULT.json, and in short to stderr."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m perfkit.kernels.runner PLAN.json\n")
        return 2
    plan = read_plan(Path(arguments[0]))
    result: dict[str, Any] = {"status": "ok", "kernels": [], "gpu": None, "versions": {}}
    code = 0
    try:
        result["gpu"] = dataclasses.asdict(gpu_info())
        result["versions"] = _versions()
        _run(plan, result["kernels"])
    except Exception as error:  # noqa: BLE001  (whatever it is must reach the user through RESULT.json)
        result["status"] = "failed"
        result["error"] = _describe(error)
        sys.stderr.write(f"{MARKER} error {result['error']['message']}\n")
        code = getattr(error, "exit_code", 4)
    _write(result, Path(plan.result))
    return code


def _run(plan: Plan, results: list[dict[str, Any]]) -> None:
    workspace = Workspace(plan.seed)
    verifier = Verifier(workspace)
    # One size at a time: the arrays of all sizes together may not fit on the GPU.
    for _, group in itertools.groupby(plan.kernels, key=lambda kernel: kernel.problem):
        kernels = tuple(group)
        launchers = []
        for kernel in kernels:
            with _in_hand("verify" if kernel.verify else "warm-up", kernel):
                launchers.append(_prepare(kernel, workspace, verifier, results))
        _profile(launchers)
        workspace.clear()
        verifier.clear()


def _prepare(
    kernel: KernelPlan, workspace: Workspace, verifier: Verifier, results: list[dict[str, Any]]
) -> Launcher:
    """Warm up, verify, and note the facts. The last warm-up launch is the one that is verified."""
    cupy = import_cupy()
    launcher = Launcher(kernel, workspace)
    for _ in range(max(1, kernel.warmups)):
        launcher.ready()
        launcher.launch()
        cupy.cuda.Device().synchronize()
    verification = verifier.check(kernel, launcher.read_outputs()) if kernel.verify else None
    results.append(
        {
            "key": kernel.key,
            "label": kernel.label,
            "problem": kernel.problem,
            "facts": dataclasses.asdict(launcher.facts),
            "verification": dataclasses.asdict(verification) if verification else None,
        }
    )
    return launcher


def _profile(launchers: Sequence[Launcher]) -> None:
    cupy = import_cupy()
    device = cupy.cuda.Device()
    for launcher in launchers:
        kernel = launcher.plan
        with _in_hand("launch", kernel):
            launcher.ready()
            device.synchronize()
            cupy.cuda.runtime.profilerStart()
            with _nvtx_range(nvtx_name(kernel.label, kernel.problem)):
                launcher.launch()
                device.synchronize()
            cupy.cuda.runtime.profilerStop()


@contextmanager
def _in_hand(stage: str, kernel: KernelPlan) -> Iterator[None]:
    """Name the kernel in hand to whoever reads the output, and in any error."""
    sys.stdout.write(f"{MARKER} {stage} {kernel.label} {kernel.problem}\n")
    sys.stdout.flush()
    try:
        yield
    except PerfkitError:
        raise
    except Exception as error:
        raise RuntimeError(
            f"kernel {kernel.label} at {kernel.problem} failed at {stage}: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def _nvtx_range(name: str) -> Iterator[None]:
    """A push/pop range; nothing where CuPy was built without NVTX (ncu then reports launches without a
    key).
    """
    try:
        from cupy.cuda import nvtx

        available = bool(getattr(nvtx, "available", True))
    except ImportError:
        available = False
    if not available:
        yield
        return
    nvtx.RangePush(name)
    try:
        yield
    finally:
        nvtx.RangePop()


def _versions() -> Mapping[str, str]:
    cupy = import_cupy()
    runtime = cupy.cuda.runtime.runtimeGetVersion()
    return {
        "cupy": str(cupy.__version__),
        "cuda": f"{runtime // 1000}.{runtime % 1000 // 10}",
        "python": platform.python_version(),
    }


def _describe(error: Exception) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        "message": getattr(error, "message", str(error)),
        "remedy": getattr(error, "remedy", ""),
        "exit_code": getattr(error, "exit_code", 4),
    }


def _write(result: Mapping[str, Any], path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
