"""The measuring process: every request over a real socket, with the virtual GPU in CuPy's place."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfkit.kernels import bench_worker, launching
from perfkit.kernels.plan import plan_kernel
from perfkit.kernels.registry import load_registry
from perfkit.model import GpuInfo, Verification

_SPEC = importlib.util.spec_from_file_location("fake_gpu", Path(__file__).with_name("fake_gpu.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
fake_gpu = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fake_gpu)


class FakeLauncher:
    """Takes 1 ms a launch on the virtual GPU."""

    gpu: Any = None

    def __init__(self, plan: Any, workspace: Any) -> None:
        self.plan, self.workspace, self.made_ready = plan, workspace, False
        self.facts = launching.LaunchFacts(2, 0, 0, 0, 128, -1)

    def ready(self) -> None:
        self.made_ready = True

    def launch(self) -> None:
        assert self.made_ready, "launched before ready()"
        self.gpu.kernel(1e-3)()

    def read_outputs(self) -> dict[str, Any]:
        return {}


class Client:
    """The other end of the worker's socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rw", encoding="utf-8")

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        self._stream.write(json.dumps({"op": op, **fields}) + "\n")
        self._stream.flush()
        return dict(json.loads(self._stream.readline()))

    def close(self) -> None:
        self._stream.close()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A worker in a thread, past `hello`."""
    gpu = fake_gpu.VirtualGpu()
    module = gpu.cupy()
    module.__version__ = "14.2.0"
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(launching, "gpu_info", lambda: GpuInfo("virtual", "GPU-1", (9, 0), 132))
    monkeypatch.setattr(launching, "Workspace", lambda seed: SimpleNamespace(seed=seed, clear=lambda: None))
    monkeypatch.setattr(FakeLauncher, "gpu", gpu)
    monkeypatch.setattr(launching, "Launcher", FakeLauncher)
    from perfkit.kernels import verify

    monkeypatch.setattr(
        verify.Verifier,
        "check",
        lambda _self, plan, _got: Verification(plan.key != "bad", "cuBLAS", True, 0.0),
    )
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=bench_worker.serve, args=(theirs,), daemon=True)
    thread.start()
    one = Client(ours)
    assert one.ask("hello", seed=3)["gpu"]["uuid"] == "GPU-1"
    yield one
    one.close()
    ours.close()
    thread.join(timeout=5)
    assert not thread.is_alive()


def _plan(key: str = "cublas") -> dict[str, Any]:
    spec = dataclasses.replace(load_registry()["cublas"], key=key)
    return dataclasses.asdict(plan_kernel(spec, None, {"n": 128}))


def test_a_plan_survives_the_socket() -> None:
    plan = plan_kernel(load_registry()["cublas"], None, {"n": 128})
    assert bench_worker._kernel_plan(json.loads(json.dumps(dataclasses.asdict(plan)))) == plan


def test_open_verifies_and_times(client: Client) -> None:
    opened = client.ask("open", name="x", plan=_plan())
    assert opened["ok"], opened
    assert opened["verification"]["passed"]
    assert opened["facts"]["registers"] == 128
    assert client.ask("warm", name="x", seconds=0.001)["launches"] >= 1
    batch = client.ask("batch", name="x", launches=5, inner=2, cold=False, lead_in=False)
    assert batch["times"] == pytest.approx([1e-3] * 5)
    assert batch["sm_clock"] == pytest.approx(1.98e9, rel=1e-3)


def test_pairs(client: Client) -> None:
    client.ask("open", name="x", plan=_plan())
    client.ask("open", name="y", plan=_plan("y"))
    pairs = client.ask("pairs", a="x", b="y", a_first=[True, False], inner=3, spin_cycles=0)
    assert pairs["a"] == pytest.approx([3e-3] * 2)
    assert pairs["a_first"] == [True, False]
    assert len(pairs["b_cycles"]) == 2


def test_a_wrong_result_is_an_answer(client: Client) -> None:
    assert client.ask("open", name="x", plan=_plan("bad"))["verification"]["passed"] is False


def test_errors_are_answers_and_the_worker_goes_on(client: Client) -> None:
    answer = client.ask("batch", name="never opened", launches=1, inner=1, cold=False, lead_in=False)
    assert (answer["ok"], answer["error"]) == (False, "ToolError")
    assert client.ask("clear") == {"ok": True}


def test_one_cubin_at_two_residencies_becomes_two_functions(tmp_path: Path) -> None:
    cubin = tmp_path / "k.cubin"
    cubin.write_bytes(b"code")
    plain = dataclasses.replace(
        plan_kernel(load_registry()["cublas"], None, {"n": 128}), cubin=str(cubin), library="", symbol="k"
    )
    held = dataclasses.replace(plain, blocks_per_sm=1, carveout=100, label="k@1")
    worker = bench_worker.Worker()
    assert worker._own_function(plain) == plain
    worker._launchers["k"] = SimpleNamespace(plan=plain)  # type: ignore[assignment]  # all that is read of it
    assert worker._own_function(plain) == plain
    own = worker._own_function(held)
    assert own.cubin != plain.cubin
    assert Path(own.cubin).read_bytes() == b"code"
    assert dataclasses.replace(own, cubin=plain.cubin) == held
