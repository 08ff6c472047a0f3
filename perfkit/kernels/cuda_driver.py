"""What the CUDA driver itself says of this machine, by ctypes: no CuPy, no context, no nvidia-smi.

`libcuda` honours CUDA_VISIBLE_DEVICES, so its device 0 is the one that programs started from here will use;
NVML and nvidia-smi do not, and are matched to it by UUID.
"""

from __future__ import annotations

import ctypes
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from perfkit.errors import CannotError
from perfkit.model import GpuInfo

_VERSION_FILE = Path("/proc/driver/nvidia/version")
# cuda.h: CUdevice_attribute
_MULTIPROCESSOR_COUNT = 16
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76


@dataclass(frozen=True, slots=True)
class DriverState:
    """The visible GPUs in CUDA's order, and the CUDA version the driver supports ("13.0")."""

    gpus: tuple[GpuInfo, ...]
    cuda: str


def driver_version(path: Path = _VERSION_FILE) -> str:
    """Version of the kernel driver, "" where the file that tells it is absent (WSL, no driver)."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else ""


def format_uuid(raw: bytes) -> str:
    """16 bytes as nvidia-smi writes them: GPU-xxxxxxxx-xxxx-..."""
    return f"GPU-{uuid.UUID(bytes=raw[:16])}"


def first_gpu() -> GpuInfo:
    """The GPU a program started here would use. Raises CannotError with the remedy when there is none."""
    state = query_driver()
    if not state.gpus:
        raise CannotError(
            "the CUDA driver sees no GPU",
            "Check CUDA_VISIBLE_DEVICES; in a container, start it with --gpus all (NVIDIA Container "
            "Toolkit).",
        )
    return state.gpus[0]


def query_driver(library: str = "libcuda.so.1") -> DriverState:
    """Ask the driver for its GPUs. Raises CannotError when there is no driver or it does not start."""
    try:
        cuda = ctypes.CDLL(library)
    except OSError as error:
        raise CannotError(
            f"no CUDA driver: {library} cannot be loaded ({error})",
            "Install the NVIDIA driver; in a container, start it with --gpus all (NVIDIA Container Toolkit).",
        ) from error
    call = _Call(cuda)
    call("cuInit", 0)
    version = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    supported = f"{version.value // 1000}.{version.value % 1000 // 10}"
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    driver = driver_version()
    gpus = tuple(_gpu(call, index, driver, supported) for index in range(count.value))
    return DriverState(gpus, supported)


class _Call:
    """Calls a driver function and raises CannotError with the driver's own words when it fails."""

    def __init__(self, cuda: ctypes.CDLL) -> None:
        self._cuda = cuda

    def __call__(self, name: str, *arguments: object) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code == 0:
            return
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorName(code, ctypes.byref(text))
        words = (text.value or b"").decode() or f"error {code}"
        raise CannotError(
            f"the CUDA driver does not answer: {name} says {words}",
            "CUDA_ERROR_NO_DEVICE: check CUDA_VISIBLE_DEVICES and nvidia-smi. A mismatch of driver and "
            "library "
            "versions: reboot, or reload the nvidia module.",
        )


def _gpu(call: _Call, index: int, driver: str, supported: str) -> GpuInfo:
    device = ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(device), index)
    name = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", name, len(name), device)
    raw = ctypes.create_string_buffer(16)
    call("cuDeviceGetUuid", raw, device)
    memory = ctypes.c_size_t()
    call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    return GpuInfo(
        name=name.value.decode("utf-8", "replace"),
        uuid=format_uuid(raw.raw),
        compute_capability=(attribute(_COMPUTE_CAPABILITY_MAJOR), attribute(_COMPUTE_CAPABILITY_MINOR)),
        sm_count=attribute(_MULTIPROCESSOR_COUNT),
        driver=driver,
        cuda=supported,
        memory_bytes=memory.value,
    )
