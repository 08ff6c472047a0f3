"""Inputs, modules and launches through CuPy: the building blocks of the processes that ncu or bench start.

CuPy is imported inside functions: only a process that launches needs it. Inputs are made on the host and
copied, and outputs are poisoned by a memset, so that no helper kernel is compiled or launched.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfkit.errors import CannotError, ToolError, UsageError
from perfkit.kernels.occupancy import SharedLimits, ballast_for
from perfkit.kernels.plan import ArgumentPlan, KernelPlan
from perfkit.model import GpuInfo

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

_ALWAYS_SHARED = 48 * 1024  # bytes that a block may have on every GPU
_FILL = re.compile(r"\s*(\w+)\s*(?:\(\s*([^()]*)\s*\))?\s*")


def import_cupy() -> Any:
    """CuPy, or CannotError with the remedy."""
    try:
        import cupy
    except ImportError as error:
        raise CannotError(
            f"CuPy cannot be imported: {error}",
            "Install it for your CUDA version: pip install 'perfkit[cuda13]' (or cuda12).",
        ) from error
    return cupy


def gpu_info() -> GpuInfo:
    """The GPU this process runs on: CuPy's current device. Raises CannotError when there is none.

    `cuda` is the version of the runtime in use, not the newest that the driver supports.
    """
    from perfkit.kernels.cuda_driver import query_driver

    runtime = import_cupy().cuda.runtime
    gpus = query_driver().gpus
    try:
        device, version = int(runtime.getDevice()), int(runtime.runtimeGetVersion())
    except runtime.CUDARuntimeError as error:
        raise CannotError(f"no usable GPU: {error}", "Run `perfkit doctor` to see why.") from error
    return replace(gpus[device], cuda=f"{version // 1000}.{version % 1000 // 10}")


def make_input(argument: ArgumentPlan, seed: int) -> Array:
    """The array `fill` describes, in C order. The same seed and name give the same array in every process.

    Raises UsageError when `fill` is not one of uniform(lo, hi), zeros, ones, arange, constant(x), none.
    """
    import numpy as np

    usual = f"uniform({'0' if argument.dtype.startswith('uint') else '-1'}, 1)"
    match = _FILL.fullmatch(argument.fill or ("none" if argument.direction == "out" else usual))
    kind = match[1] if match else argument.fill
    try:
        numbers = [float(part) for part in (match[2] or "").split(",") if part.strip()] if match else []
        dtype = np.dtype(argument.dtype)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"argument {argument.name}: fill {argument.fill!r} or dtype {argument.dtype!r}: {error}",
            "fill is uniform(lo, hi), zeros, ones, arange, constant(x) or none; dtype is a numpy name.",
        ) from error
    count = int(np.prod(argument.shape))
    if kind == "uniform" and len(numbers) in (0, 2):
        low, high = numbers or (-1.0, 1.0)
        return _uniform(argument, dtype, low, high, seed).reshape(argument.shape)
    if kind == "constant" and len(numbers) == 1:
        return np.full(argument.shape, numbers[0], dtype)
    if kind == "none" and not numbers:
        return np.frombuffer(b"\xff" * (count * dtype.itemsize), dtype).reshape(argument.shape).copy()
    makers = {"zeros": np.zeros, "ones": np.ones}
    if kind in makers and not numbers:
        return makers[kind](argument.shape, dtype)
    if kind == "arange" and not numbers:
        return np.arange(count).astype(dtype).reshape(argument.shape)
    raise UsageError(
        f"argument {argument.name}: fill {argument.fill!r} is not known",
        "fill is uniform(lo, hi), zeros, ones, arange, constant(x) or none.",
    )


def _uniform(argument: ArgumentPlan, dtype: np.dtype[Any], low: float, high: float, seed: int) -> Array:
    import numpy as np

    # The name is part of the seed: A and B must differ, and must not depend on the order of the arguments.
    generator = np.random.default_rng([seed, zlib.crc32(argument.name.encode())])
    count = int(np.prod(argument.shape))
    if dtype.kind in "iu":
        return generator.integers(int(low), int(high), count, endpoint=True).astype(dtype)
    draw = generator.random(count, np.float64 if dtype.itemsize > 4 else np.float32)
    draw *= high - low
    draw += low
    return draw.astype(dtype, copy=False)


class Workspace:
    """Host and device arrays, shared by the kernels of a plan that take the same arguments.

    Large arrays cost seconds to make, so they are kept until `clear`; outputs are shared too, and poisoned
    before each use.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._host: dict[ArgumentPlan, Array] = {}
        self._device: dict[ArgumentPlan, Any] = {}

    def host(self, argument: ArgumentPlan) -> Array:
        """The array as it is before a launch."""
        if argument not in self._host:
            self._host[argument] = make_input(argument, self.seed)
        return self._host[argument]

    def device(self, argument: ArgumentPlan) -> Any:
        """The device array; made, and filled, at the first use."""
        if argument not in self._device:
            cupy = import_cupy()
            self._device[argument] = cupy.empty(argument.shape, argument.dtype)
            self.reset(argument)
        return self._device[argument]

    def reset(self, argument: ArgumentPlan) -> None:
        """Bring a device array to what it must be before a launch: its fill, or NaN in every element."""
        array = self._device[argument]
        if argument.fill in ("", "none") and argument.direction == "out":
            array.data.memset(0xFF, array.nbytes)
        else:
            array.set(self.host(argument))

    def reset_outputs(self, plan: KernelPlan) -> None:
        """Poison (out) or restore (inout) everything a launch writes."""
        for argument in arrays(plan):
            if argument.direction != "in":
                self.device(argument)
                self.reset(argument)

    def parameters(self, plan: KernelPlan) -> tuple[Any, ...]:
        """What the kernel is called with: device arrays and numpy scalars."""
        import numpy as np

        return tuple(
            self.device(argument) if argument.shape else np.dtype(argument.dtype).type(argument.value)
            for argument in plan.arguments
        )

    def clear(self) -> None:
        """Give everything back, for example before the next problem size."""
        self._host.clear()
        self._device.clear()
        import_cupy().get_default_memory_pool().free_all_blocks()


def arrays(plan: KernelPlan) -> tuple[ArgumentPlan, ...]:
    """The array arguments of a kernel, in order."""
    return tuple(argument for argument in plan.arguments if argument.shape)


def outputs(plan: KernelPlan) -> tuple[ArgumentPlan, ...]:
    """The arrays a kernel writes, in order."""
    return tuple(argument for argument in arrays(plan) if argument.direction != "in")


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """What was asked of the device for one kernel. Bytes; -1 where a library decides."""

    blocks_per_sm: int  # resident blocks per SM by the occupancy API
    dynamic_shared_bytes: int
    ballast_bytes: int
    static_shared_bytes: int
    registers: int
    carveout: int


class Launcher:
    """One kernel of a plan, ready to be launched any number of times.

    Raises UsageError when it cannot be held to the blocks per SM asked for, ToolError when the driver refuses
    it.
    """

    def __init__(self, plan: KernelPlan, workspace: Workspace) -> None:
        self.plan = plan
        self.workspace = workspace
        self._parameters = workspace.parameters(plan)
        self._kernel: Any = None
        if plan.library:
            self._call = _library(plan, self._parameters)
            self.facts = LaunchFacts(-1, -1, 0, -1, -1, plan.carveout)
        else:
            self._kernel = self._load()
            self.facts = self._fit()

    def _load(self) -> Any:
        cupy = import_cupy()
        try:
            kernel = cupy.RawModule(path=self.plan.cubin).get_function(self.plan.symbol)
            kernel.compile()
        except cupy.cuda.driver.CUDADriverError as error:
            raise ToolError(
                f"kernel {self.plan.label}: {self.plan.cubin} cannot be loaded: {error}",
                "The cubin may be of another architecture than this GPU: build without --arch.",
            ) from error
        return kernel

    def _fit(self) -> LaunchFacts:
        plan, kernel = self.plan, self._kernel
        static, ballast = kernel.shared_size_bytes, 0
        asked = static + plan.shared
        if asked > _ALWAYS_SHARED and asked > (most := _shared_limits().per_block_optin):
            raise UsageError(
                f"kernel {plan.label} at {plan.problem}: {plan.shared} bytes of dynamic and {static} of "
                f"static shared memory a block; this GPU allows {most} together",
                "Choose a smaller problem, or correct shared in the registry entry.",
            )
        if plan.blocks_per_sm is not None:
            natural = self._resident(plan.shared)
            ballast = ballast_for(
                plan.label, plan.blocks_per_sm, natural, static, plan.shared, _shared_limits()
            )
        dynamic = plan.shared + ballast
        resident = self._resident(dynamic)
        if plan.blocks_per_sm is not None and resident != plan.blocks_per_sm:
            raise UsageError(
                f"{plan.label}: {ballast} bytes of ballast leave {resident} blocks per SM, not "
                f"{plan.blocks_per_sm}",
                "Ask for another --blocks-per-sm.",
            )
        return LaunchFacts(resident, dynamic, ballast, static, kernel.num_regs, plan.carveout)

    def _resident(self, dynamic: int) -> int:
        cupy = import_cupy()
        self._set_attributes(dynamic)
        x, y, z = self.plan.block
        return int(
            cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                self._kernel.kernel.ptr, x * y * z, dynamic
            )
        )

    def _set_attributes(self, dynamic: int) -> None:
        # CuPy gives one function per cubin and symbol, so k6b and k6b@1 share it: set before every launch.
        self._kernel.max_dynamic_shared_size_bytes = dynamic
        self._kernel.preferred_shared_memory_carveout = self.plan.carveout

    def ready(self) -> None:
        """Set the function attributes and poison what the kernel writes; not to be timed or profiled."""
        if self._kernel is not None:
            self._set_attributes(self.facts.dynamic_shared_bytes)
        self.workspace.reset_outputs(self.plan)

    def launch(self) -> None:
        """Launch once on the current stream, without waiting. Call `ready` first."""
        if self._kernel is None:
            self._call()
        else:
            self._kernel(
                self.plan.grid, self.plan.block, self._parameters, shared_mem=self.facts.dynamic_shared_bytes
            )

    def read_outputs(self) -> dict[str, Array]:
        """Copies of the arrays the kernel writes, by name."""
        cupy = import_cupy()
        return {a.name: cupy.asnumpy(self.workspace.device(a)) for a in outputs(self.plan)}


def _shared_limits() -> SharedLimits:
    cupy = import_cupy()
    attributes = cupy.cuda.Device().attributes
    return SharedLimits(
        per_sm=int(attributes["MaxSharedMemoryPerMultiprocessor"]),
        per_block_optin=int(attributes["MaxSharedMemoryPerBlockOptin"]),
        reserved_per_block=int(attributes.get("ReservedSharedMemoryPerBlock", 0)),
    )


def _library(plan: KernelPlan, parameters: Sequence[Any]) -> Any:
    if plan.library != "cublas.sgemm":
        raise UsageError(
            f"kernel {plan.key}: library {plan.library!r} is not known", "The one known is cublas.sgemm."
        )
    matrices = [p for p, a in zip(parameters, plan.arguments, strict=True) if a.shape]
    if len(matrices) != 3 or any(m.ndim != 2 or m.dtype != "float32" for m in matrices):
        raise UsageError(
            f"kernel {plan.key}: cublas.sgemm takes three float32 matrices",
            "Give it the arguments A, B (in) and C (out), each with two sides in its shape.",
        )
    return Sgemm(*matrices)


class Sgemm:
    """C = A x B by cuBLAS in FP32 for row-major matrices on the device: A is m x k, B is k x n, C is m x n.

    cuBLAS is column-major, so it is asked for C^T = B^T A^T, which reads the same memory. The default math
    mode uses no TF32 for sgemm (cuBLAS manual, cublasMath_t).
    """

    def __init__(self, a: Any, b: Any, c: Any) -> None:
        import numpy as np
        from cupy.cuda.device import get_cublas_handle
        from cupy_backends.cuda.libs import cublas

        self._cublas = cublas
        self._matrices = (a, b, c)
        self._handle = get_cublas_handle()
        self._scalars = np.array([1.0, 0.0], np.float32)  # alpha, beta; kept alive for the pointers
        cublas.setMathMode(self._handle, cublas.CUBLAS_DEFAULT_MATH)

    def __call__(self) -> None:
        a, b, c = self._matrices
        (m, k), n = a.shape, b.shape[1]
        alpha = self._scalars.ctypes.data
        beta = alpha + self._scalars.itemsize
        blas = self._cublas
        none = blas.CUBLAS_OP_N
        blas.sgemm(
            self._handle, none, none, n, m, k, alpha, b.data.ptr, n, a.data.ptr, k, beta, c.data.ptr, n
        )
