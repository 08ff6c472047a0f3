"""Which ncu there is, its version, and which options it knows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from perfkit.errors import CannotError
from perfkit.profiler.run_store import check_writable

_PLACES = (
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda*/bin/ncu",
    "/usr/local/cuda*/nsight-compute*/ncu",
    "/usr/lib/nsight-compute/ncu",
)
_VERSION = re.compile(r"\b(20\d\d\.\d+\.\d+(?:\.\d+)?)\b")


@dataclass(frozen=True, slots=True)
class NcuTool:
    """One installed ncu. `options` are the long options its help lists, empty when it could not be asked."""

    path: str
    version: str
    options: frozenset[str]

    def knows(self, option: str) -> bool:
        """Whether an option may be given. Where the help could not be read, it is assumed to be known."""
        return not self.options or option in self.options


def candidates() -> list[str]:
    """Every ncu that can be found: $PERFKIT_NCU, PATH, then the places installers use, newest version
    first.
    """
    named = os.environ.get("PERFKIT_NCU")
    on_path = shutil.which("ncu")
    found = [named] if named else []
    found += [on_path] if on_path else []
    for place in _PLACES:
        installed = sorted(Path("/").glob(place.lstrip("/")), reverse=True)
        found += [str(path) for path in installed if os.access(path, os.X_OK)]
    return list(dict.fromkeys(found))


def find_ncu() -> NcuTool:
    """The first ncu that answers. Raises CannotError naming where it was looked for, and the remedy."""
    failed = []
    for path in candidates():
        try:
            return ask(path)
        except CannotError as error:
            failed.append(error.message)
    remedy = (
        "Install Nsight Compute: it comes with the CUDA toolkit, or as the package nsight-compute-<version> "
        "of NVIDIA's repository.\nIf it is installed elsewhere, put its folder on PATH or set PERFKIT_NCU."
    )
    if failed:
        raise CannotError("no ncu that works: " + "; ".join(failed), remedy)
    places = ", ".join(_PLACES)
    raise CannotError(f"ncu (Nsight Compute's command line) was not found on PATH or in {places}", remedy)


@lru_cache(maxsize=8)
def ask(path: str) -> NcuTool:
    """Ask an ncu for its version and options. Raises CannotError when it does not start."""
    try:
        answer = _output(path, "--version")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotError(f"{path} does not start: {error}", "Check the file, or set PERFKIT_NCU.") from error
    found = _VERSION.search(answer)
    if not found:
        first = answer.strip().splitlines()[0] if answer.strip() else "nothing"
        raise CannotError(f"{path} is no ncu: --version says {first!r}", "Set PERFKIT_NCU to the right one.")
    try:
        options = frozenset(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", _output(path, "--help")))
    except (OSError, subprocess.TimeoutExpired):
        options = frozenset()
    return NcuTool(path, found[1], options)


def _output(path: str, argument: str) -> str:
    done = subprocess.run(
        [path, argument], capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def check_temporary_folder() -> Path:
    """The folder where ncu keeps its lock and its unfinished report.

    Raises CannotError when ncu could not write there, which it would find out only after the program has
    started.
    """
    folder = Path(tempfile.gettempdir())
    remedy = "Set TMPDIR to a folder of your own on a disk with space."
    try:
        check_writable(folder)
    except CannotError as error:
        raise CannotError(f"ncu's temporary folder: {error.message}", remedy) from error
    lock = folder / "nsight-compute-lock"
    if lock.exists() and not os.access(lock, os.W_OK):
        raise CannotError(f"{lock} belongs to another user, and ncu needs it", remedy)
    return folder


def python_folder(tool: NcuTool) -> Path | None:
    """`extras/python` of this installation, which holds its own ncu_report; None where it is not there."""
    folder = Path(tool.path).resolve().parent / "extras" / "python"
    return folder if folder.is_dir() else None
