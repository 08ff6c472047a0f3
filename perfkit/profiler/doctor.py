"""What this machine can do, and the remedy for each thing it cannot. Each check is one function in CHECKS."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from perfkit.errors import PerfkitError
from perfkit.kernels import cuda_driver
from perfkit.profiler import ncu_tool, run_store, toolchain
from perfkit.profiler.ncu_failures import OTHER_PROFILER_REMEDY, PERMISSION_REMEDY

PARAMS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")
# Either lets ncu read the counters; numbers of linux/capability.h.
_PRIVILEGES = {"CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38}
_OLDEST_CAPABILITY = (7, 0)  # ncu since 2022 profiles Volta and newer
_FOUND_BY = {"nv-hostengine": "DCGM", "dcgm-exporter": "DCGM", "dcgmi": "DCGM"}


class State(StrEnum):
    """`unknown`: it could not be found out, which is no reason not to try."""

    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Task(StrEnum):
    """What people come for. Every machine can do some of it."""

    READ = "read reports"
    BUILD = "build kernels"
    PROFILE = "profile"
    BENCH = "bench"


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of one check. `needed_for` are the tasks that cannot be done while it is missing."""

    name: str
    state: State
    detail: str
    remedy: str = ""
    needed_for: tuple[Task, ...] = ()


def examine(checks: Sequence[Callable[[], Finding]] | None = None) -> list[Finding]:
    """Run every check. One that breaks is a finding of its own: a doctor must not fall ill."""
    found = []
    for check in checks or CHECKS:
        try:
            found.append(check())
        except Exception as error:  # noqa: BLE001  (see above)
            name = check.__name__.removeprefix("check_").replace("_", " ")
            found.append(Finding(name, State.UNKNOWN, f"the check failed: {type(error).__name__}: {error}"))
    return found


def blocked(findings: Sequence[Finding], task: Task) -> list[Finding]:
    """What is missing for a task; empty when it can be done."""
    return [one for one in findings if one.state is State.MISSING and task in one.needed_for]


def check_python() -> Finding:
    """The interpreter and perfkit itself."""
    import perfkit

    return Finding("python", State.OK, f"Python {platform.python_version()}, perfkit {perfkit.__version__}")


def check_packages() -> Finding:
    """What pip should have brought along."""
    names = ("pandas", "typer", "rich", "tabulate", "matplotlib", "jinja2", "zstandard")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        remedy = f"pip install {' '.join(missing)}"
        return Finding(
            "packages", State.MISSING, f"not installed: {', '.join(missing)}", remedy, (Task.READ,)
        )
    return Finding("packages", State.OK, ", ".join(f"{name} {_version(name)}" for name in names[:3]))


def check_report_reader() -> Finding:
    """ncu_report, which reads .ncu-rep files: from PyPI, or from the Nsight Compute installation."""
    needed = (Task.READ, Task.PROFILE)
    if importlib.util.find_spec("ncu_report") is not None:
        return Finding("ncu_report", State.OK, f"{_version('ncu-report')} (Python package)", "", needed)
    for path in ncu_tool.candidates():
        folder = ncu_tool.python_folder(ncu_tool.NcuTool(path, "", frozenset()))
        if folder:
            return Finding("ncu_report", State.OK, f"of the installation: {folder}", "", needed)
    return Finding("ncu_report", State.MISSING, "not installed", "pip install ncu-report", needed)


def check_driver() -> Finding:
    """The CUDA driver and the GPUs it shows."""
    needed = (Task.PROFILE, Task.BENCH)
    try:
        state = cuda_driver.query_driver()
    except PerfkitError as error:
        return Finding("GPU", State.MISSING, error.message, error.remedy, needed)
    if not state.gpus:
        remedy = f"CUDA_VISIBLE_DEVICES is {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')!r}: check it."
        return Finding("GPU", State.MISSING, "the driver sees no GPU", remedy, needed)
    version = state.gpus[0].driver or "of unknown version"
    names = "; ".join(f"{gpu.name}, {gpu.uuid}" for gpu in state.gpus)
    return Finding("GPU", State.OK, f"{names}; driver {version}, CUDA up to {state.cuda}", "", needed)


def check_compute_capability() -> Finding:
    """Whether ncu can profile the GPU that programs use."""
    needed = (Task.PROFILE,)
    name = "compute capability"
    try:
        gpu = cuda_driver.first_gpu()
    except PerfkitError:
        return Finding(name, State.UNKNOWN, "no GPU to ask", "", needed)
    major, minor = gpu.compute_capability
    if gpu.compute_capability < _OLDEST_CAPABILITY:
        remedy = "Profile it with an ncu of 2021 or older (set PERFKIT_NCU); perfkit reads its reports."
        return Finding(name, State.MISSING, f"{major}.{minor}: today's ncu starts at 7.0", remedy, needed)
    return Finding(name, State.OK, f"{major}.{minor} (sm_{major}{minor}), {gpu.sm_count} SMs", "", needed)


def check_compiler() -> Finding:
    """nvcc, else NVRTC through CuPy."""
    needed = (Task.BUILD, Task.PROFILE, Task.BENCH)
    try:
        found = toolchain.find_compiler()
    except PerfkitError as error:
        return Finding("compiler", State.MISSING, error.message, error.remedy, needed)
    where = f" ({found.path})" if found.path else ""
    return Finding("compiler", State.OK, f"{found.kind} {found.version}{where}", "", needed)


def check_disassembler() -> Finding:
    """nvdisasm, for the instruction mix of main loops."""
    path = toolchain.find_tool("nvdisasm")
    if path:
        return Finding("disassembler", State.OK, path)
    return Finding(
        "disassembler", State.MISSING, "no nvdisasm: builds show no SASS", "pip install nvidia-cuda-nvdisasm"
    )


def check_cupy() -> Finding:
    """CuPy launches the kernels. It is not imported here: that takes a second and a context."""
    needed = (Task.PROFILE, Task.BENCH)
    if importlib.util.find_spec("cupy") is None:
        remedy = "pip install 'perfkit[cuda13]' (or cuda12, as the driver supports)"
        return Finding("CuPy", State.MISSING, "not installed", remedy, needed)
    names = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")
    version = next((_version(name) for name in names if _version(name)), "of unknown version")
    return Finding("CuPy", State.OK, version, "", needed)


def check_nvml() -> Finding:
    """nvidia-ml-py reads clocks, power and temperature."""
    if importlib.util.find_spec("pynvml") is None:
        remedy = "pip install nvidia-ml-py"
        return Finding("NVML", State.MISSING, "not installed: bench shows no clock and power", remedy)
    return Finding("NVML", State.OK, f"nvidia-ml-py {_version('nvidia-ml-py')}")


def check_ncu() -> Finding:
    """Nsight Compute's command line."""
    needed = (Task.PROFILE,)
    try:
        tool = ncu_tool.find_ncu()
    except PerfkitError as error:
        return Finding("ncu", State.MISSING, error.message, error.remedy, needed)
    return Finding("ncu", State.OK, f"{tool.version} ({tool.path})", "", needed)


def check_counter_permission() -> Finding:
    """Whether ncu may read the counters: the driver's RmProfilingAdminOnly, and this process's
    capabilities.
    """
    needed = (Task.PROFILE,)
    name = "counter permission"
    restricted = profiling_restricted()
    held = [capability for capability, number in _PRIVILEGES.items() if has_capability(number)]
    if restricted is False:
        return Finding(name, State.OK, "for all users (RmProfilingAdminOnly: 0)", "", needed)
    if held:
        return Finding(name, State.OK, f"this process has {' and '.join(held)}", "", needed)
    if restricted is None:
        return Finding(
            name,
            State.UNKNOWN,
            f"{PARAMS} cannot be read, and this process has no CAP_SYS_ADMIN",
            "Try it; if ncu says ERR_NVGPUCTRPERM:\n" + PERMISSION_REMEDY,
            needed,
        )
    detail = "only for administrators (RmProfilingAdminOnly: 1), and this process has no CAP_SYS_ADMIN"
    return Finding(name, State.MISSING, detail, PERMISSION_REMEDY, needed)


def profiling_restricted(params: Path | None = None) -> bool | None:
    """The driver's RmProfilingAdminOnly; None where it cannot be read (no driver, WSL)."""
    try:
        text = (params or PARAMS).read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", text, re.MULTILINE)
    return bool(int(found[1])) if found else None


def has_capability(number: int, status: Path | None = None) -> bool:
    """Whether this process has a Linux capability, by its number."""
    try:
        text = (status or STATUS).read_text(errors="replace")
    except OSError:
        return False
    found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", text, re.MULTILINE)
    return bool(found and int(found[1], 16) >> number & 1)


def check_other_profilers() -> Finding:
    """A monitor that may hold the counters. It is only named, never touched."""
    running = sorted({_FOUND_BY[name] for name in _process_names() if name in _FOUND_BY})
    if not running:
        return Finding("other profilers", State.OK, "none seen (those outside of a container are not)")
    detail = f"{', '.join(running)} is running; it may hold the counters"
    return Finding("other profilers", State.UNKNOWN, detail, OTHER_PROFILER_REMEDY)


def _process_names() -> set[str]:
    names = set()
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            names.add(entry.read_text(errors="replace").strip())
        except OSError:
            continue  # it has ended
    return names


def check_store() -> Finding:
    """Whether runs can be kept where they would be."""
    needed = (Task.PROFILE, Task.BENCH)
    root = run_store.default_root()
    existed = root.is_dir()
    try:
        run_store.check_writable(root)
    except PerfkitError as error:
        return Finding("store", State.MISSING, error.message, error.remedy, needed)
    if not existed:
        root.rmdir()  # asking must not leave a folder behind
    return Finding("store", State.OK, f"{root} can be written", "", needed)


def check_temporary_folder() -> Finding:
    """ncu keeps its lock and its unfinished report in the temporary folder."""
    needed = (Task.PROFILE,)
    try:
        folder = ncu_tool.check_temporary_folder()
    except PerfkitError as error:
        return Finding("temporary folder", State.MISSING, error.message, error.remedy, needed)
    return Finding("temporary folder", State.OK, f"{folder} can be written", "", needed)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


CHECKS: tuple[Callable[[], Finding], ...] = (
    check_python,
    check_packages,
    check_report_reader,
    check_driver,
    check_compute_capability,
    check_compiler,
    check_disassembler,
    check_cupy,
    check_nvml,
    check_ncu,
    check_counter_permission,
    check_other_profilers,
    check_store,
    check_temporary_folder,
)
