"""The GPU's own sensors: SM clock, power, temperature, energy and what holds the clock down.

The GPU is matched by UUID, because CUDA_VISIBLE_DEVICES renumbers CUDA's devices and not NVML's. Nothing
here ever sets anything. Limits of what the sensors say (NVML reference, nvmlDeviceGetPowerUsage): on
Ampere (A100 apart) and later the power is an average over the last second, earlier it is instantaneous;
the energy counter of Volta and later counts millijoules and is refreshed some 10 to 50 times a second.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Protocol

from perfkit.model import SensorSample

# Clock event reasons (nvml.h, nvmlClocksEventReason*) that hold the clock below what was asked for. Idle
# (0x1) and an application clock setting (0x2) are left out: neither is throttling of a running kernel.
_REASONS = {
    0x0004: "SW power cap",
    0x0008: "HW slowdown",
    0x0010: "sync boost",
    0x0020: "SW thermal slowdown",
    0x0040: "HW thermal slowdown",
    0x0080: "HW power brake slowdown",
    0x0100: "display clock setting",
}


class Sensors(Protocol):
    """Where readings come from. `missing` says why there are none; "" where there are."""

    missing: str

    def read(self) -> SensorSample:
        """One reading, now."""


class NoSensors:
    """Stands in where NVML cannot be used."""

    def __init__(self, missing: str) -> None:
        self.missing = missing

    def read(self) -> SensorSample:
        """A reading that knows nothing."""
        return SensorSample(time.monotonic(), None, None, None, (), None)


class NvmlSensors:
    """Readings of one GPU through pynvml. `open_sensors` makes it."""

    missing = ""

    def __init__(self, pynvml: Any, handle: Any) -> None:
        self._nvml = pynvml
        self._handle = handle

    def read(self) -> SensorSample:
        """One reading; a sensor that this GPU does not offer is None."""
        nvml, handle = self._nvml, self._handle
        now = time.monotonic()
        clock = self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        power = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        temperature = self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        energy = self._ask(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        # Renamed in driver 535; both names stay in the library.
        bits = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return SensorSample(
            time=now,
            sm_clock=clock * 1e6 if clock is not None else None,
            power=power * 1e-3 if power is not None else None,
            temperature=temperature,
            throttle=throttle_names(int(bits or 0)),
            energy=energy * 1e-3 if energy is not None else None,
        )

    def _ask(self, question: Any) -> float | None:
        try:
            return float(question())
        except self._nvml.NVMLError:
            return None


def throttle_names(bits: int) -> tuple[str, ...]:
    """The names of the clock event reasons in `bits` that throttle."""
    return tuple(name for bit, name in _REASONS.items() if bits & bit)


def open_sensors(uuid: str) -> Sensors:
    """The sensors of the GPU with this UUID ("GPU-..."); NoSensors with the reason where there are none."""
    try:
        import pynvml
    except ImportError:
        return NoSensors("no clock, power or temperature: the package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            if _same(_text(pynvml.nvmlDeviceGetUUID(handle)), uuid):
                return NvmlSensors(pynvml, handle)
    except pynvml.NVMLError as error:
        return NoSensors(f"no clock, power or temperature: NVML says {error}")
    return NoSensors(f"no clock, power or temperature: NVML knows no GPU {uuid}")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _same(left: str, right: str) -> bool:
    return left.lower().removeprefix("gpu-") == right.lower().removeprefix("gpu-")


class SensorLog:
    """Reads the sensors in a thread every `period` seconds, from `with` to its end.

    A broken sensor ends the log, never the measurement; `problem` then says why.
    """

    def __init__(self, sensors: Sensors, period: float) -> None:
        self.samples: list[SensorSample] = []
        self.problem = sensors.missing
        self._sensors = sensors
        self._period = period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="perfkit-sensors", daemon=True)

    def __enter__(self) -> SensorLog:
        if not self.problem:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                self.samples.append(self._sensors.read())
            except Exception as error:  # noqa: BLE001 - a driver that goes away must not end the measurement
                self.problem = f"the sensors stopped answering: {error}"
                return
            due = max(due + self._period, time.monotonic())
            self._stop.wait(max(0.0, due - time.monotonic()))
