"""Asking the CUDA driver by ctypes, against a driver library of a few lines of C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from perfkit.errors import CannotError
from perfkit.kernels.cuda_driver import query_driver

DRIVER = r"""
#include <string.h>
#include <stddef.h>
int cuInit(unsigned flags) { return INIT; }
int cuDriverGetVersion(int* v) { *v = 12040; return 0; }
int cuDeviceGetCount(int* n) { *n = COUNT; return 0; }
int cuDeviceGet(int* d, int i) { *d = i + 100; return 0; }
int cuDeviceGetName(char* s, int n, int d) { strncpy(s, d == 100 ? "First GPU" : "Second GPU", n); return 0; }
int cuDeviceGetUuid(unsigned char* u, int d) { memset(u, d - 99, 16); u[3] = 0; return 0; }
int cuDeviceTotalMem_v2(size_t* b, int d) { *b = (size_t)80 << 30; return 0; }
int cuDeviceGetAttribute(int* v, int a, int d) {
    *v = a == 75 ? 8 : a == 76 ? 9 : a == 16 ? 24 : -1;
    return 0;
}
int cuGetErrorName(int code, const char** s) { *s = code == 100 ? "CUDA_ERROR_NO_DEVICE" : 0; return !*s; }
"""


def library(folder: Path, init: int, count: int) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    (folder / "driver.c").write_text(DRIVER)
    target = folder / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", f"-DINIT={init}", f"-DCOUNT={count}", "-o", str(target)]
    subprocess.run([*command, str(folder / "driver.c")], check=True)
    return str(target)


def test_gpus_in_cudas_order(tmp_path: Path) -> None:
    state = query_driver(library(tmp_path, 0, 2))
    assert state.cuda == "12.4"
    first, second = state.gpus
    assert (first.name, first.compute_capability, first.sm_count) == ("First GPU", (8, 9), 24)
    assert first.memory_bytes == 80 * 2**30
    # A byte of 0 in the middle must not cut it.
    assert first.uuid == "GPU-01010100-0101-0101-0101-010101010101"
    assert second.uuid == "GPU-02020200-0202-0202-0202-020202020202"


@pytest.mark.parametrize(("code", "says"), [(100, "CUDA_ERROR_NO_DEVICE"), (804, "error 804")])
def test_a_driver_that_refuses(tmp_path: Path, code: int, says: str) -> None:
    with pytest.raises(CannotError, match=f"cuInit says {says}") as caught:
        query_driver(library(tmp_path, code, 0))
    assert "CUDA_VISIBLE_DEVICES" in caught.value.remedy


def test_no_gpu(tmp_path: Path) -> None:
    assert query_driver(library(tmp_path, 0, 0)).gpus == ()
