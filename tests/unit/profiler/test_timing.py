"""The measuring process as its starter sees it: errors, an early end, a hang."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest

from perfkit.errors import CannotError, ToolError, ToolTimeoutError
from perfkit.profiler.timing import WorkerTimer

_STAND_IN = """
import json, socket, sys, time
stream = socket.socket(fileno=int(sys.argv[1])).makefile("rw")
gpu = dict(name="stand-in", uuid="GPU-1", compute_capability=[9, 0], sm_count=132)
for line in stream:
    request = json.loads(line)
    if request["op"] == "hello":
        answer = dict(ok=True, gpu=gpu, versions={})
    elif request["op"] == "clear":
        sys.exit(7)
    elif request["name"] == "hang":
        time.sleep(60)
    else:
        answer = dict(ok=False, error="CompileError", message="no kernel image", remedy="build again")
    stream.write(json.dumps(answer) + "\\n")
    stream.flush()
"""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Start a scripted process in the worker's place; the list collects what was started."""
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = real([sys.executable, "-c", _STAND_IN, command[-1]], **options)
        started.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    return started


def test_an_error_keeps_its_class_and_names_the_kernel(stand_in: list[Any]) -> None:
    with WorkerTimer() as timer, pytest.raises(ToolError) as caught:
        timer.warm("k6 n=4096", 1.0)
    assert type(caught.value).__name__ == "CompileError"
    assert caught.value.message == "k6 n=4096: no kernel image"
    assert caught.value.remedy == "build again"
    assert stand_in[0].poll() is not None, "the process was left running"


def test_an_early_end_is_told_with_its_exit_code(stand_in: list[Any]) -> None:
    with WorkerTimer() as timer, pytest.raises(ToolError, match="ended with exit code 7"):
        timer.clear()
    assert len(stand_in) == 1


def test_a_hang_is_ended(stand_in: list[Any]) -> None:
    with pytest.raises(ToolTimeoutError, match="hang: no answer within"), WorkerTimer(timeout=1.5) as timer:
        timer.warm("hang", 1.0)
    assert stand_in[0].poll() is not None, "the process was left running"


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed here")
def test_without_cupy_the_environment_is_to_blame() -> None:
    with pytest.raises(CannotError, match="CuPy") as caught:
        WorkerTimer()
    assert "pip install" in caught.value.remedy
