"""`perfkit bench` on a real GPU: times that make sense, verdicts to trust, wrong results refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.profiler import bench_samples
from perfkit.profiler.run_store import RunStore

pytestmark = pytest.mark.gpu


def _has_gpu() -> str:
    """Why there is no GPU to use; "" where there is one."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # noqa: BLE001 - no CuPy, no driver, no GPU: whatever it is, it is the reason
        return f"no usable GPU: {error}"
    return ""


@pytest.fixture(autouse=True)
def _gpu_only() -> None:
    if reason := _has_gpu():
        pytest.skip(reason)


def _bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perfkit", "bench", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PERFKIT_RUNS": str(folder / "runs"), "COLUMNS": "200"},
        timeout=300,
        check=False,
    )


def test_quick_times_a_kernel_and_reads_the_clock(tmp_path: Path) -> None:
    done = _bench(tmp_path, "k6", "cublas", "-n", "1024")
    assert done.returncode == 0, done.stderr
    (stored,) = RunStore(tmp_path / "runs").list()
    assert stored.record is not None
    assert stored.status == "complete"
    for result in stored.record.results:
        assert 1e-6 < result["time"] < 0.1
        assert 0.0 < result["share_of_peak"] < 1.0
        assert result["sm_clock_device"] is not None, "the cycle counter gave no clock"
        if result["sm_clock_nvml"] is not None:
            assert result["sm_clock_device"] == pytest.approx(result["sm_clock_nvml"], rel=0.03)
        assert result["verification"]["passed"]
        assert bench_samples.read_rows(stored.path / result["samples"])


def test_cold_is_not_faster_than_hot(tmp_path: Path) -> None:
    for options in ((), ("--cold",)):
        done = _bench(tmp_path, "k6", "-n", "1024", *options)
        assert done.returncode == 0, done.stderr
    hot, cold = (run.record.results[0]["time"] for run in RunStore(tmp_path / "runs").list() if run.record)
    assert cold > 0.98 * hot


def test_a_wrong_kernel_is_not_timed(tmp_path: Path) -> None:
    (tmp_path / "wrong.cu").write_text(
        'extern "C" __global__ void wrong(const float *A, const float *B, float *C, int n)\n'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n * n) C[i] = A[i] + B[i]; }\n",
        encoding="utf-8",
    )
    (tmp_path / "perfkit.toml").write_text(
        "[kernels.wrong]\n"
        'title = "wrong on purpose"\nsource = "wrong.cu"\nentry = "wrong"\n'
        'grid = ["n * n / 256"]\nblock = [256]\nsize = { n = 256 }\nreference = "cublas.sgemm"\natol = 2e-4\n'
        "arguments = [\n"
        '  { name = "A", dtype = "float32", shape = ["n", "n"], fill = "uniform(-1, 1)" },\n'
        '  { name = "B", dtype = "float32", shape = ["n", "n"], fill = "uniform(-1, 1)" },\n'
        '  { name = "C", dtype = "float32", shape = ["n", "n"], direction = "out" },\n'
        '  { name = "n", dtype = "int32", value = "n" },\n]\n',
        encoding="utf-8",
    )
    done = _bench(tmp_path, "wrong", "-n", "256")
    assert done.returncode == 1, done.stderr
    assert "wrong at n=256" in done.stderr
    assert "WRONG" in done.stdout
    (stored,) = RunStore(tmp_path / "runs").list()
    assert stored.status == "failed"
    assert stored.record is not None
    assert stored.record.results[0]["time"] is None


def test_a_kernel_is_the_same_as_itself_and_one_percent_is_found(tmp_path: Path) -> None:
    done = _bench(tmp_path, "k6", "-n", "1024", "--aa", "20")
    assert done.returncode == 0, done.stderr
    done = _bench(tmp_path, "k6", "-n", "1024", "--aa", "10", "--handicap", "1%")
    assert done.returncode == 0, done.stderr
    plain, slowed = (run.record.results[0] for run in RunStore(tmp_path / "runs").list() if run.record)
    assert plain["wrong"] == 0
    assert slowed["verdicts"]["slower"] >= 9
    assert slowed["largest_ratio"] == pytest.approx(1.01, abs=0.004)


def test_pairs_tell_k6_from_k7(tmp_path: Path) -> None:
    done = _bench(tmp_path, "k6", "k7", "-n", "2048", "--pairs", "60")
    assert done.returncode == 0, done.stderr
    (stored,) = RunStore(tmp_path / "runs").list()
    assert stored.record is not None
    assert stored.record.results[0]["verdict"] in ("faster", "slower", "same")
    assert stored.record.results[0]["cycle_ratio"] == pytest.approx(
        stored.record.results[0]["ratio"], rel=0.03
    )
