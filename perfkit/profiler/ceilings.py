"""Measures the ceilings of the roofline on this machine's GPU: copy bandwidth and FP32 FMA rate."""

from __future__ import annotations

from statistics import median
from typing import Any

from perfkit.errors import CannotError
from perfkit.kernels.launching import import_cupy
from perfkit.model.traced import Ceiling

_REPETITIONS = 20
_WARM_UPS = 3
_ARRAY_BYTES = 2**30  # far larger than any L2
_ROUNDS = 4096
_CHAINS, _UNROLL = 8, 16  # independent FMA chains a thread: hide the latency of 4 cycles with few warps
_THREADS, _BLOCKS_PER_SM = 256, 8

_FMA_SOURCE = r"""
extern "C" __global__ void fma_rate(float* out, float a, float b, int rounds)
{
    float x[8];
    #pragma unroll
    for (int c = 0; c < 8; ++c) x[c] = threadIdx.x + c;
    for (int r = 0; r < rounds; ++r) {
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            #pragma unroll
            for (int c = 0; c < 8; ++c) x[c] = fmaf(x[c], a, b);
        }
    }
    float sum = 0.0f;
    #pragma unroll
    for (int c = 0; c < 8; ++c) sum += x[c];
    // Never true, but the compiler cannot know: without it the loop would be removed.
    if (sum == 1.2345e30f) out[0] = sum;
}

extern "C" __global__ void copy(float4* __restrict__ to, const float4* __restrict__ from, long long count)
{
    const long long step = (long long)gridDim.x * blockDim.x;
    const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    for (long long i = first; i < count; i += step) to[i] = from[i];
}
"""


def measure_ceilings() -> tuple[Ceiling, ...]:
    """(FP32 FMA rate, DRAM copy bandwidth) of the current GPU, medians of 20 event-timed launches.

    The copy counts the bytes read and the bytes written. Raises CannotError without CuPy or a GPU.
    """
    cupy = import_cupy()
    try:
        device = cupy.cuda.Device()
        attributes = device.attributes
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise CannotError(
            f"no GPU to measure on: {error}", "Run `perfkit doctor` to see what is missing."
        ) from None
    sms = int(attributes["MultiProcessorCount"])
    module = cupy.RawModule(code=_FMA_SOURCE)
    fma = _fma_rate(cupy, module.get_function("fma_rate"), sms)
    bandwidth, size = _copy_bandwidth(cupy, module.get_function("copy"), sms)
    name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
    how = f"median of {_REPETITIONS} launches on {name}"
    return (
        Ceiling("FP32", "compute", fma, "FLOP/s", f"measured: {_CHAINS} FMA chains a thread, {how}"),
        Ceiling("DRAM", "memory", bandwidth, "byte/s", f"measured: copy of {size / 2**20:.0f} MiB, {how}"),
    )


def _fma_rate(cupy: Any, kernel: Any, sms: int) -> float:
    out = cupy.zeros(1, dtype=cupy.float32)
    blocks = sms * _BLOCKS_PER_SM
    # a = 1 - tiny, b tiny: the values stay normal numbers however long it runs.
    arguments = (out, cupy.float32(0.999), cupy.float32(0.001), cupy.int32(_ROUNDS))
    seconds = _time(cupy, lambda: kernel((blocks,), (_THREADS,), arguments))
    return 2.0 * blocks * _THREADS * _ROUNDS * _CHAINS * _UNROLL / seconds


def _copy_bandwidth(cupy: Any, kernel: Any, sms: int) -> tuple[float, int]:
    """(bytes read and written a second, bytes of the array)."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    size = min(_ARRAY_BYTES, int(free) // 4) // 16 * 16
    source = cupy.zeros(size // 4, dtype=cupy.float32)
    target = cupy.empty_like(source)
    arguments = (target, source, cupy.int64(size // 16))
    seconds = _time(cupy, lambda: kernel((sms * 16,), (512,), arguments))
    return 2.0 * size / seconds, size


def _time(cupy: Any, launch: Any) -> float:
    """Median seconds of a launch between two events, after warm-ups."""
    for _ in range(_WARM_UPS):
        launch()
    times = []
    for _ in range(_REPETITIONS):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        launch()
        stop.record()
        stop.synchronize()
        times.append(1e-3 * cupy.cuda.get_elapsed_time(start, stop))
    return float(median(times))
