"""The sensors: the right GPU by UUID, missing sensors, a thread that stops; NVML itself is faked."""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import Any

import pytest

from perfkit.model import SensorSample
from perfkit.profiler.nvml import NoSensors, SensorLog, open_sensors, throttle_names


class FakeError(Exception):
    pass


def _nvml(uuids: list[str], *, broken: tuple[str, ...] = (), bytes_uuid: bool = False) -> Any:
    """A pynvml with these GPUs; GPU i runs at 1000 + i MHz. `broken` calls are not supported."""
    module: Any = ModuleType("pynvml")
    answers = {
        "nvmlDeviceGetClockInfo": lambda handle, _kind: 1000 + handle,
        "nvmlDeviceGetPowerUsage": lambda handle: 650_000 + handle,
        "nvmlDeviceGetTemperature": lambda _handle, _kind: 61,
        "nvmlDeviceGetTotalEnergyConsumption": lambda _handle: 5_000_000,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _handle: 0x5,
    }

    def unsupported(*_arguments: Any) -> int:
        raise FakeError("Not Supported")

    for name, answer in answers.items():
        setattr(module, name, unsupported if name in broken else answer)
    module.NVMLError = FakeError
    module.NVML_CLOCK_SM, module.NVML_TEMPERATURE_GPU = 1, 0
    module.nvmlInit = unsupported if "nvmlInit" in broken else lambda: None
    module.nvmlDeviceGetCount = lambda: len(uuids)
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetUUID = lambda handle: uuids[handle].encode() if bytes_uuid else uuids[handle]
    return module


@pytest.mark.parametrize("bytes_uuid", [False, True])
def test_the_gpu_is_found_by_uuid_not_by_index(monkeypatch: pytest.MonkeyPatch, bytes_uuid: bool) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(["GPU-a", "GPU-b", "GPU-C"], bytes_uuid=bytes_uuid))
    sample = open_sensors("GPU-c").read()
    assert sample.sm_clock == 1002e6
    assert sample.power == pytest.approx(650.002)
    assert sample.temperature == 61
    assert sample.energy == 5000
    assert sample.throttle == ("SW power cap",)


def test_sensors_that_a_gpu_lacks_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption")
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(["GPU-a"], broken=broken))
    sample = open_sensors("GPU-a").read()
    assert (sample.power, sample.energy, sample.sm_clock) == (None, None, 1000e6)


def test_every_way_of_having_no_sensors_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(["GPU-a"]))
    assert "knows no GPU GPU-x" in open_sensors("GPU-x").missing
    monkeypatch.setitem(sys.modules, "pynvml", _nvml([], broken=("nvmlInit",)))
    assert "Not Supported" in open_sensors("GPU-a").missing
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py" in open_sensors("GPU-a").missing


def test_throttle_names() -> None:
    assert throttle_names(0x0) == ()
    assert throttle_names(0x1 | 0x2) == ()
    assert throttle_names(0x4 | 0x40) == ("SW power cap", "HW thermal slowdown")


class CountingSensors:
    """Counts its readings; from `fails_at` on it raises."""

    missing = ""

    def __init__(self, fails_at: int = 10**9) -> None:
        self.count, self.fails_at = 0, fails_at

    def read(self) -> SensorSample:
        self.count += 1
        if self.count >= self.fails_at:
            raise RuntimeError("GPU is lost")
        return SensorSample(time.monotonic(), 1e9, 100.0, 50.0, (), float(self.count))


def test_the_log_reads_until_it_is_left() -> None:
    sensors = CountingSensors()
    with SensorLog(sensors, 0.005) as log:
        start = time.monotonic()
        time.sleep(0.1)
        end = time.monotonic()
    taken = sensors.count
    assert taken >= 5
    time.sleep(0.03)
    assert sensors.count == taken, "the thread went on"
    assert log.problem == ""
    assert len(log.samples) >= taken
    assert any(start <= sample.time <= end for sample in log.samples)


def test_a_lost_gpu_ends_the_log_and_not_the_measurement() -> None:
    with SensorLog(CountingSensors(fails_at=3), 0.001) as log:
        time.sleep(0.05)
    assert len(log.samples) == 2
    assert "GPU is lost" in log.problem


def test_no_sensors_log_nothing() -> None:
    with SensorLog(NoSensors("no NVML here"), 0.001) as log:
        pass
    assert log.samples == []
    assert log.problem == "no NVML here"
