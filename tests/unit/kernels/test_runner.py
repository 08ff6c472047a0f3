"""The runner, with a stand-in for CuPy whose kernels are numpy functions: what is launched, where, and what
is told.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.kernels import launching, runner
from perfkit.kernels.plan import ArgumentPlan, KernelPlan, Plan, write_plan
from perfkit.model import GpuInfo

N = 16
A = ArgumentPlan("A", "float32", (N, N), "in", "uniform(-1, 1)")
B = ArgumentPlan("B", "float32", (N, N), "in", "uniform(-1, 1)")
C = ArgumentPlan("C", "float32", (N, N), "out")
SIZE = ArgumentPlan("n", "int32", value=N)


class FakeArray:
    """A device array: host memory that only answers to what the runner uses."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.array = np.zeros(shape, dtype)
        self.nbytes, self.shape, self.ndim, self.dtype = (
            self.array.nbytes, shape, len(shape), self.array.dtype,
        )  # fmt: skip
        self.data = self

    def set(self, host: Any) -> None:
        self.array[...] = host

    def memset(self, value: int, size: int) -> None:
        assert (value, size) == (0xFF, self.nbytes)
        self.array.view(np.uint8)[...] = value


class Device:
    """What happened, in order; and the kernels there are."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.kernels: dict[str, Callable[..., None]] = {
            "right": lambda a, b, c, _n: c.array.__setitem__(..., a.array @ b.array),
            "close": lambda a, b, c, _n: c.array.__setitem__(..., a.array @ b.array + np.float32(1e-5)),
            "wrong": lambda a, b, c, _n: c.array.__setitem__(..., 2 * (a.array @ b.array)),
            "half": lambda a, b, c, _n: c.array.__setitem__(slice(0, 8), (a.array @ b.array)[:8]),
            "scale": lambda x, a: x.array.__imul__(a),
            "crash": self._crash,
        }
        self.dynamic: dict[str, int] = {}

    def _crash(self, *_: Any) -> None:
        raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    def cupy(self) -> Any:
        device = self

        class Kernel:
            def __init__(self, name: str) -> None:
                self.name = name
                self.kernel = types.SimpleNamespace(ptr=name)
                self.shared_size_bytes, self.num_regs = 8192, 125

            def compile(self) -> None:
                device.kernels[self.name]

            def __setattr__(self, name: str, value: Any) -> None:
                object.__setattr__(self, name, value)
                if name == "max_dynamic_shared_size_bytes":
                    device.dynamic[self.name] = value

            def __call__(self, grid: Any, block: Any, parameters: Any, shared_mem: int) -> None:
                assert (grid, block) == ((1, 1, 1), (256, 1, 1))
                assert device.dynamic[self.name] == shared_mem
                device.events.append(f"launch {self.name} {shared_mem}")
                device.kernels[self.name](*parameters)

        def blocks(_pointer: str, threads: int, dynamic: int) -> int:
            assert threads == 256
            return min(2, 233_472 // (8192 + dynamic + 1024))

        attributes = {
            "MaxSharedMemoryPerMultiprocessor": 233_472,
            "MaxSharedMemoryPerBlockOptin": 232_448,
            "ReservedSharedMemoryPerBlock": 1024,
        }
        nvtx = types.SimpleNamespace(
            available=True,
            RangePush=lambda name: device.events.append(f"push {name}"),
            RangePop=lambda: device.events.append("pop"),
        )
        cuda = types.SimpleNamespace(
            nvtx=nvtx,
            runtime=types.SimpleNamespace(
                runtimeGetVersion=lambda: 13000,
                profilerStart=lambda: device.events.append("start"),
                profilerStop=lambda: device.events.append("stop"),
            ),
            driver=types.SimpleNamespace(
                CUDADriverError=KeyError, occupancyMaxActiveBlocksPerMultiprocessor=blocks
            ),
            Device=lambda: types.SimpleNamespace(id=0, attributes=attributes, synchronize=lambda: None),
        )
        module = types.ModuleType("cupy")
        vars(module).update(
            __version__="14.2.0",
            cuda=cuda,
            empty=FakeArray,
            asnumpy=lambda array: array.array.copy(),
            RawModule=lambda path: types.SimpleNamespace(get_function=Kernel),  # noqa: ARG005 - cupy's signature
            get_default_memory_pool=lambda: types.SimpleNamespace(free_all_blocks=lambda: None),
        )
        return module


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    module = device.cupy()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", module.cuda)
    monkeypatch.setattr(runner, "gpu_info", lambda: GpuInfo("Fake", "GPU-0", (9, 0), 132))

    class Sgemm:
        def __init__(self, a: Any, b: Any, c: Any) -> None:
            self.matrices = (a, b, c)

        def __call__(self) -> None:
            a, b, c = self.matrices
            device.events.append("launch cublas")
            c.array[...] = a.array @ b.array

    monkeypatch.setattr(launching, "Sgemm", Sgemm)
    return device


def kernel(symbol: str, **changes: Any) -> KernelPlan:
    fields: dict[str, Any] = {
        "key": symbol, "label": symbol, "problem": "n=16", "size": {"n": N}, "arguments": (A, B, C, SIZE),
        "cubin": "x.cubin", "symbol": symbol, "grid": (1, 1, 1), "block": (256, 1, 1),
        "reference": "cublas.sgemm", "atol": 2e-4,
    }  # fmt: skip
    return KernelPlan(**{**fields, **changes})


def run(tmp_path: Path, *kernels: KernelPlan) -> tuple[int, dict[str, Any]]:
    result = tmp_path / "RESULT.json"
    write_plan(Plan(str(result), kernels), tmp_path / "PLAN.json")
    code = runner.main([str(tmp_path / "PLAN.json")])
    return code, json.loads(result.read_text())


def test_only_the_launch_itself_is_profiled_and_named(device: Device, tmp_path: Path) -> None:
    library = kernel("right", key="cublas", label="cublas", library="cublas.sgemm", cubin="")
    code, result = run(tmp_path, kernel("right"), library)
    assert code == 0
    assert device.events == [
        "launch right 0",  # warm-up, verified
        "launch cublas",  # the reference
        "launch cublas",  # warm-up of the library
        "start", "push perfkit:right:n=16", "launch right 0", "pop", "stop",
        "start", "push perfkit:cublas:n=16", "launch cublas", "pop", "stop",
    ]  # fmt: skip
    assert result["status"] == "ok"
    assert result["gpu"]["name"] == "Fake"
    assert result["versions"]["cuda"] == "13.0"


def test_verification(device: Device, tmp_path: Path) -> None:
    assert device
    _, result = run(tmp_path, kernel("right"), kernel("close"), kernel("wrong"), kernel("half"))
    right, close, wrong, half = (entry["verification"] for entry in result["kernels"])
    assert (right["passed"], right["bit_equal"], right["float64_entries"]) == (True, True, 64)
    assert (close["passed"], close["bit_equal"]) == (True, False)
    assert close["max_abs_difference"] == pytest.approx(1e-5, rel=0.2)
    assert not wrong["passed"]
    assert wrong["message"].startswith("wrong at n=16: C: ")
    # What a kernel leaves out must not look right because another kernel wrote it before.
    assert not half["passed"]
    assert "128 are NaN" in half["message"]


def test_held_to_one_block(device: Device, tmp_path: Path) -> None:
    code, result = run(tmp_path, kernel("right"), kernel("right", label="right@1", blocks_per_sm=1))
    assert code == 0
    free, held = (entry["facts"] for entry in result["kernels"])
    assert (free["blocks_per_sm"], free["ballast_bytes"]) == (2, 0)
    assert (held["blocks_per_sm"], held["ballast_bytes"]) == (1, 107_776)
    # Both share one function, so its attributes are set again before each launch (the stand-in checks).
    profiled = [
        event for event in device.events[device.events.index("start") :] if event.startswith("launch")
    ]
    assert profiled == ["launch right 0", "launch right 107776"]


def test_more_blocks_than_fit(device: Device, tmp_path: Path) -> None:
    assert device
    code, result = run(tmp_path, kernel("right", label="right@3", blocks_per_sm=3))
    assert code == 2
    assert result["error"]["type"] == "UsageError"
    assert "right@3: only 2 block(s) fit" in result["error"]["message"]


def test_more_shared_memory_than_the_gpu_has(device: Device, tmp_path: Path) -> None:
    code, result = run(tmp_path, kernel("right", shared=224_257))  # 8,192 static: one byte too many
    assert code == 2
    assert "224257 bytes of dynamic and 8192 of static shared memory" in result["error"]["message"]
    assert "this GPU allows 232448 together" in result["error"]["message"]
    assert not device.events


def test_two_outputs_as_a_dict_of_other_types(device: Device, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(
        "def both(x, bins, total, n):\n"
        "    return {'bins': bins + n, 'total': total + x.astype('float64').sum()}\n"
    )

    def both(x: Any, bins: Any, total: Any, n: Any) -> None:
        bins.array[...] += n
        total.array[...] += x.array.astype(np.float64).sum()

    device.kernels["both"] = both
    arguments = (
        ArgumentPlan("x", "int32", (N,), "in", "uniform(0, 1000)"),
        ArgumentPlan("bins", "int32", (4,), "inout", "ones"),
        ArgumentPlan("total", "float64", (1,), "inout", "constant(0.5)"),
        SIZE,
    )
    plan = kernel("both", arguments=arguments, reference=f"{tmp_path / 'ref.py'}:both", atol=0.0, shared=256)
    code, result = run(tmp_path, plan)
    assert code == 0, result
    assert result["kernels"][0]["verification"]["bit_equal"]
    assert "launch both 256" in device.events


def test_inout_is_restored_before_the_profiled_launch(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = ArgumentPlan("x", "float32", (4,), "inout", "arange")
    seen: list[list[float]] = []
    scale = device.kernels["scale"]

    def spy(x: Any, a: Any) -> None:
        seen.append(x.array.tolist())
        scale(x, a)

    monkeypatch.setitem(device.kernels, "scale", spy)
    arguments = (x, ArgumentPlan("a", "float32", value=3.0))
    code, _ = run(tmp_path, kernel("scale", arguments=arguments, reference=""))
    assert code == 0
    assert seen == [[0, 1, 2, 3]] * 2


def test_a_crash_names_the_kernel_and_the_stage(
    device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert device
    code, result = run(tmp_path, kernel("right"), kernel("crash"))
    assert code == 4
    assert result["status"] == "failed"
    assert result["error"]["message"] == (
        "kernel crash at n=16 failed at verify: RuntimeError: "
        "cudaErrorIllegalAddress: an illegal memory access was encountered"
    )
    assert len(result["kernels"]) == 1
    assert "==PERFKIT== verify crash n=16" in capsys.readouterr().out


def test_without_nvtx_the_launches_are_made_all_the_same(device: Device, tmp_path: Path) -> None:
    sys.modules["cupy"].cuda.nvtx.available = False
    code, _ = run(tmp_path, kernel("right"))
    assert code == 0
    assert device.events[-3:] == ["start", "launch right 0", "stop"]


def test_sizes_come_one_after_the_other(device: Device, tmp_path: Path) -> None:
    small = kernel("right", problem="n=8", label="right")
    code, result = run(tmp_path, small, kernel("right"))
    assert code == 0
    assert [entry["problem"] for entry in result["kernels"]] == ["n=8", "n=16"]
    assert [event for event in device.events if event.startswith("push")] == [
        "push perfkit:right:n=8",
        "push perfkit:right:n=16",
    ]


def test_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main([]) == 2
    assert "usage" in capsys.readouterr().err
