"""Finding what builds and disassembles kernels: nvcc or NVRTC, and nvdisasm.

Looked at in this order: PATH, $CUDA_HOME and $CUDA_PATH, /usr/local/cuda, and the folders of the PyPI wheels
(`site-packages/nvidia/*/bin`).
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.errors import CannotError, ToolError, ToolTimeoutError, UsageError

TIMEOUT_SECONDS = 600.0  # for one compiler or disassembler process

_HOST_COMPILERS = ("g++", "clang++", "c++") if os.name == "posix" else ("cl",)


@dataclass(frozen=True, slots=True)
class Compiler:
    """What turns a .cu file into a cubin. `kind`: nvcc or nvrtc; `path` is "" for NVRTC."""

    kind: str
    version: str  # nvcc 13.0.88, or 13.0 for NVRTC
    path: str = ""
    architectures: tuple[str, ...] = ()  # sm_75, sm_80, ...

    @property
    def name(self) -> str:
        """`nvcc 13.0.88`."""
        return f"{self.kind} {self.version}"


def find_compiler(prefer: str | None = None) -> Compiler:
    """nvcc where it works (it needs a host C++ compiler), else NVRTC through CuPy.

    `prefer`: "nvcc" or "nvrtc" takes that one only. Raises CannotError that says what was looked for and how
    to get it, UsageError for another `prefer`.
    """
    if prefer not in (None, "nvcc", "nvrtc"):
        raise UsageError(f"compiler {prefer!r} is not known", "It is nvcc or nvrtc.")
    reasons = []
    for kind, find in (("nvcc", _find_nvcc), ("nvrtc", _find_nvrtc)):
        if prefer in (None, kind):
            found = find()
            if isinstance(found, Compiler):
                return found
            reasons.append(found)
    raise CannotError(
        f"no CUDA compiler: {'; '.join(reasons)}",
        "Install the CUDA toolkit (nvcc) and a C++ compiler, or CuPy with NVRTC:\n"
        "  pip install 'perfkit[cuda13]' 'nvidia-cuda-nvrtc==13.0.*'\n"
        "An nvcc that is not on PATH is found through CUDA_HOME.",
    )


def _find_nvcc() -> Compiler | str:
    path = find_tool("nvcc")
    if path is None:
        return "no nvcc on PATH, in $CUDA_HOME, in /usr/local/cuda or among the nvidia wheels"
    if not os.environ.get("NVCC_CCBIN") and not any(shutil.which(name) for name in _HOST_COMPILERS):
        return f"{path} needs a host C++ compiler, and none of {', '.join(_HOST_COMPILERS)} is on PATH"
    try:
        return _nvcc(path)
    except ToolError as error:
        return error.message


@functools.cache
def _nvcc(path: str) -> Compiler:
    text = run_tool([path, "--version"])
    match = re.search(r"release [\d.]+, V([\d.]+)", text)
    listed = run_tool([path, "--list-gpu-code"])
    return Compiler("nvcc", match[1] if match else "unknown", path, tuple(re.findall(r"sm_\w+", listed)))


def _find_nvrtc() -> Compiler | str:
    try:
        from cupy_backends.cuda.libs import nvrtc

        major, minor = nvrtc.getVersion()
        architectures = tuple(f"sm_{number}" for number in nvrtc.getSupportedArchs())
    except ImportError:
        return "NVRTC is used through CuPy, which is not installed"
    except (RuntimeError, OSError) as error:
        return f"CuPy cannot load NVRTC ({str(error).splitlines()[0]})"
    return Compiler("nvrtc", f"{major}.{minor}", "", architectures)


def find_tool(name: str) -> str | None:
    """Path of a CUDA toolkit program, or None."""
    if found := shutil.which(name):
        return found
    for folder in _tool_folders():
        if found := shutil.which(name, path=str(folder)):
            return found
    return None


def require_disassembler() -> str:
    """Path of nvdisasm. Raises CannotError with the remedy where there is none."""
    path = find_tool("nvdisasm")
    if path is None:
        raise CannotError(
            "no nvdisasm: the instructions of the main loop cannot be counted",
            "Install it with: pip install nvidia-cuda-nvdisasm",
        )
    return path


def include_folders() -> list[Path]:
    """Folders with the CUDA headers; NVRTC, unlike nvcc, does not bring them along."""
    folders = dict.fromkeys(folder.parent / "include" for folder in _tool_folders())
    return [folder for folder in folders if (folder / "cuda_runtime.h").is_file()]


def _tool_folders() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(variable):
            yield Path(value) / "bin"
    if os.name == "posix":
        yield Path("/usr/local/cuda/bin")
    for entry in sys.path:
        if entry:
            yield from sorted(Path(entry).glob("nvidia/*/bin"))


def normalize_arch(text: str, compiler: Compiler | None = None) -> str:
    """`sm_90`, from `sm_90`, `90`, `9.0` or `compute_90`; a suffix such as the a of `sm_90a` stays.

    Raises UsageError when it is no architecture, or none that `compiler` can build for.
    """
    match = re.fullmatch(r"(?:sm_|compute_)?(\d{1,2})\.?(\d)([af]?)", text.strip().lower())
    if not match:
        raise UsageError(f"architecture {text!r} is not understood", "Write it as sm_90, 90 or 9.0.")
    arch = f"sm_{int(match[1])}{match[2]}{match[3]}"
    if compiler is not None and compiler.architectures:
        plain = arch.rstrip("af")
        if plain not in compiler.architectures:
            raise UsageError(
                f"{compiler.name} cannot build for {arch}",
                f"It supports: {', '.join(compiler.architectures)}.",
            )
    return arch


def detect_arch() -> str:
    """Architecture of the GPU that kernels would run on: the first one that CUDA_VISIBLE_DEVICES leaves.

    Raises CannotError where no GPU can be seen.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    if visible:
        command.append(f"--id={visible.split(',')[0].strip()}")
    remedy = "Name the architecture to build for, for example --arch sm_90."
    if visible == "" or shutil.which("nvidia-smi") is None:
        why = "CUDA_VISIBLE_DEVICES is empty" if visible == "" else "nvidia-smi is not on PATH"
        raise CannotError(f"no GPU to build for: {why}", remedy)
    try:
        text = run_tool(command, timeout=60.0)
    except ToolError as error:
        raise CannotError(f"no GPU to build for: {error.message}", remedy) from error
    match = re.search(r"^\s*(\d+)\.(\d)\s*$", text, re.MULTILINE)
    if not match:
        raise CannotError(f"no GPU to build for: nvidia-smi says {text.strip()!r}", remedy)
    return f"sm_{match[1]}{match[2]}"


def run_tool(command: Sequence[str], timeout: float = TIMEOUT_SECONDS) -> str:
    """Standard output and error of a tool, in that order. It runs without a shell, in its own process group.

    Raises ToolError with the tool's own words when it fails, ToolTimeoutError when it runs past `timeout`
    seconds.
    """
    code, text = run_tool_status(command, timeout)
    if code != 0:
        raise ToolError(f"{Path(command[0]).name} failed with status {code}:\n{text.strip()}", "")
    return text


def run_tool_status(command: Sequence[str], timeout: float = TIMEOUT_SECONDS) -> tuple[int, str]:
    """Exit status and output of a tool. Raises ToolError when it cannot start, or runs too long."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(
            f"{command[0]} cannot be started: {error.strerror}",
            "Check that the file is a program for this machine.",
        ) from error
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise ToolTimeoutError(
            f"{Path(command[0]).name} was ended after {timeout:.0f} s",
            "The command was: " + " ".join(command),
        ) from error
    except BaseException:
        _end(process)  # Ctrl-C: nvcc's own children must not go on
        raise
    return process.returncode, out + err


def _end(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
