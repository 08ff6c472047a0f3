"""`perfkit roofline --measure` on a GPU: plausible against the ceilings of the device's own attributes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu


def _no_gpu() -> str:
    """Why there is no GPU to use; "" where there is one."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the reason
        return f"no usable GPU: {error}"
    return ""


def test_measured_ceilings_are_near_those_of_the_attributes(tmp_path: Path) -> None:
    if reason := _no_gpu():
        pytest.skip(reason)
    import cupy

    from perfkit.analysis.peak_model import fp32_lanes_per_sm

    file = tmp_path / "ceilings.json"
    command = [sys.executable, "-m", "perfkit", "roofline", "--measure", "--ceilings", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = {one["name"]: one["value"] for one in json.loads(file.read_text())["ceilings"]}
    device = cupy.cuda.Device()
    attributes = device.attributes
    lanes = fp32_lanes_per_sm((int(device.compute_capability[0:-1]), int(device.compute_capability[-1])))
    assert lanes is not None
    # The attributes are kHz and bits; a copy reaches 80 to 95 % of the bandwidth, the FMA chains nearly all.
    bandwidth = 2e3 * attributes["MemoryClockRate"] * attributes["GlobalMemoryBusWidth"] / 8
    fma = 2e3 * attributes["ClockRate"] * attributes["MultiProcessorCount"] * lanes
    assert 0.7 < found["DRAM"] / bandwidth < 1.0
    assert 0.6 < found["FP32"] / fma < 1.02
    assert "measured" in done.stdout
