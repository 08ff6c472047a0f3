"""A stand-in for CuPy at its outer edge: a virtual GPU with a clock, on which launches only take time."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

SM_COUNT = 132
L2_BYTES = 50 << 20


class VirtualGpu:
    """Time in s. Every SM's cycle counter has an offset of its own, as on a real GPU."""

    def __init__(self, clock: float = 1.98e9) -> None:
        self.now = 1.0
        self.clock = clock
        self.flushes = 0
        self.l2 = "hot"  # hot: the kernel's data; dirty, clean: something else's
        self.offsets = np.random.default_rng(7).integers(1, 10**12, SM_COUNT)

    def kernel(self, seconds: float) -> Callable[[], None]:
        """A launch that takes `seconds`, and half as much again where something else is in L2 (and the more
        where that must be written back).
        """

        def launch() -> None:
            self.now += seconds * {"hot": 1.0, "clean": 1.5, "dirty": 1.7}[self.l2]
            self.l2 = "hot"

        return launch

    def _read(self, _grid: Any, _block: Any, arguments: tuple[Any, ...]) -> None:
        buffer, words = arguments
        assert 16 * int(words) == buffer.nbytes
        self.now += 50e-6
        self.l2 = "clean"

    def _stamp(self, _grid: Any, _block: Any, arguments: tuple[Any, ...]) -> None:
        table, row, columns = arguments
        cycles = self.offsets + int(self.now * self.clock)
        table[row, :SM_COUNT, 0] = cycles
        table[row, :SM_COUNT, 1] = int(self.now * 1e9)
        assert columns >= SM_COUNT
        self.now += 2e-6

    def _spin(self, _grid: Any, _block: Any, arguments: tuple[Any, ...]) -> None:
        self.now += 1.5e-6 + int(arguments[0]) / self.clock

    def cupy(self) -> Any:
        """The module."""
        gpu = self

        class Array(np.ndarray[Any, Any]):
            def get(self) -> Any:
                return np.asarray(self).copy()

        class Event:
            time = 0.0

            def record(self) -> None:
                self.time = gpu.now

        class Buffer:
            def __init__(self, size: int) -> None:
                self.nbytes = size
                self.data = self

            def memset_async(self, _value: int, size: int) -> None:
                assert size == self.nbytes
                gpu.flushes += 1
                gpu.now += 50e-6
                gpu.l2 = "dirty" if size >= 2 * L2_BYTES else gpu.l2

        class Module:
            def __init__(self, code: str, options: tuple[str, ...]) -> None:
                assert "perfkit_stamp" in code
                assert options

            def get_function(self, name: str) -> Any:
                kernels = {"stamp": gpu._stamp, "spin": gpu._spin, "read": gpu._read}
                return kernels[name.removeprefix("perfkit_")]

        runtime = types.SimpleNamespace(
            getDeviceProperties=lambda _id: {"multiProcessorCount": SM_COUNT, "l2CacheSize": L2_BYTES}
        )
        stream = types.SimpleNamespace(synchronize=lambda: None)
        cuda = types.SimpleNamespace(
            runtime=runtime,
            Device=lambda: types.SimpleNamespace(id=0),
            Event=Event,
            get_elapsed_time=lambda start, end: (end.time - start.time) * 1e3,
            get_current_stream=lambda: stream,
        )
        return types.SimpleNamespace(
            cuda=cuda,
            RawModule=Module,
            zeros=lambda shape, dtype: np.zeros(shape, dtype).view(Array),
            empty=lambda size, dtype: Buffer(size),  # noqa: ARG005 - cupy's signature
        )
