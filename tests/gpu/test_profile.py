"""`perfkit profile` on a real GPU with a real ncu: the ladder's facts, and the launching faults for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perfkit.errors import PerfkitError
from perfkit.profiler.run_store import RunStore, load_run

pytestmark = pytest.mark.gpu

# Launches alpha, beta, alpha, beta, ... `beta` inside the NVTX range "second half of größe"; arguments:
# launches, then one of: ok, fail, child, spin. What follows is kept in the file named by PERFKIT_TEST_OUT.
PROGRAM = r"""
import json, os, subprocess, sys
if os.environ.get("PERFKIT_TEST_OUT"):
    open(os.environ["PERFKIT_TEST_OUT"], "w").write(json.dumps(sys.argv[1:]))
count, mode = int(sys.argv[1]), sys.argv[2]
if mode == "child":
    sys.exit(subprocess.run([sys.executable, __file__, str(count), "ok"]).returncode)
import cupy
from cupy.cuda import nvtx
code = '''
extern "C" __global__ void alpha(float* x) { x[threadIdx.x] += 1.0f; }
extern "C" __global__ void beta_v2(float* x) { x[threadIdx.x] *= 2.0f; }
extern "C" __global__ void spin(volatile float* x) { while (x[0] >= 0.0f) { } }
'''
module = cupy.RawModule(code=code)
x = cupy.empty(256, cupy.float32)
x.data.memset(0, x.nbytes)
if mode == "spin":
    module.get_function("alpha")((1,), (256,), (x,))
    module.get_function("spin")((1,), (1,), (x,))
    cupy.cuda.Device().synchronize()
for index in range(count):
    if index % 2:
        nvtx.RangePush("second half of größe")
        module.get_function("beta_v2")((1,), (256,), (x,))
        nvtx.RangePop()
    else:
        module.get_function("alpha")((2,), (256,), (x,))
cupy.cuda.Device().synchronize()
if mode == "fail":
    print("about to fail on purpose", file=sys.stderr)
    sys.exit(7)
"""


def _cannot() -> str:
    """Why nothing can be profiled here; "" where it can."""
    from perfkit.profiler.doctor import Task, blocked, examine

    return ", ".join(f"{one.name}: {one.detail}" for one in blocked(examine(), Task.PROFILE))


@pytest.fixture(scope="module", autouse=True)
def _gpu_only() -> None:
    try:
        reason = _cannot()
    except PerfkitError as error:
        reason = error.message
    if reason:
        pytest.skip(f"cannot profile here: {reason}")


class Bench:
    """Runs `perfkit profile` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "a program.py"
        self.script.write_text(PROGRAM, encoding="utf-8")
        self.environment = {**os.environ, "PERFKIT_RUNS": str(folder / "runs"), "COLUMNS": "200"}

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "perfkit", "profile", *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**self.environment, **environment},
            timeout=300,
            check=False,
        )
        assert "Traceback (most recent call last)" not in done.stderr or "fail" in arguments, done.stderr
        return done

    def program(self, *options: str, launches: int = 4, mode: str = "ok") -> subprocess.CompletedProcess[str]:
        """Profile the program above with two cheap metrics' worth of passes."""
        return self("--set", "launch", *options, "--", str(self.script), str(launches), mode)

    def last(self) -> Any:
        """The record of the newest run, whatever its status."""
        return load_run(RunStore(self.folder / "runs").list()[-1].path)

    def names(self) -> list[str]:
        """The kernels in the newest run's report."""
        from perfkit.analysis.report import read_report

        record = self.last()
        return [one.kernel for one in read_report(Path(record.path) / record.reports[0], ()).launches]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any, float]:
    """Metrics by kernel, the record, and the wall seconds of one command over the whole ladder but k1, at
    4096.
    """
    bench = Bench(tmp_path_factory.mktemp("ladder"))
    started = time.monotonic()
    keys = ["k2", "k3", "k4", "k5", "k6", "k6b", "k7", "k8", "cublas"]
    done = bench(*keys, "-n", "4096", "--format", "json")
    wall = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    record = bench.last()
    launches = json.loads(done.stdout)["launches"]
    assert len(launches) == sum(kernel.launches for kernel in record.kernels)
    built = [one for one in launches if one["kernel"].startswith("sgemm_k")]
    metrics = {one["kernel"].removeprefix("sgemm_"): one["metrics"] for one in built}
    return metrics, record, wall


class TestLadder:
    def test_cost(self, ladder: tuple[dict[str, Any], Any, float]) -> None:
        _, record, wall = ladder
        print(f"{wall:.1f} s wall, {record.options['passes']} passes")  # noqa: T201 (asked for: figures)
        assert record.options["passes"] <= 12
        assert wall < 25

    @pytest.mark.parametrize(
        ("key", "metric", "value"),
        [
            ("k2", "sectors_per_load", 2.5),
            ("k3", "sectors_per_load", 4.0),
            ("k6", "sectors_per_load", 16.0),
            ("k6", "wavefronts_per_shared_load", 5.0),
            ("k7", "wavefronts_per_shared_load", 3.0),
        ],
    )
    def test_exact_facts(
        self, ladder: tuple[dict[str, Any], Any, float], key: str, metric: str, value: float
    ) -> None:
        assert ladder[0][key][metric]["value"] == pytest.approx(value, abs=0.005)

    def test_bank_conflicts(self, ladder: tuple[dict[str, Any], Any, float]) -> None:
        metrics = ladder[0]
        assert 0 <= metrics["k6"]["shared_load_conflicts"]["value"] - 268_435_456 < 100_000
        assert metrics["k7"]["shared_load_conflicts"]["value"] < 100_000

    def test_results_are_right(self, ladder: tuple[dict[str, Any], Any, float]) -> None:
        for kernel in ladder[1].kernels:
            found = kernel.verification
            assert found is not None
            assert found.passed, found.message
            assert found.float64_entries == 64
            assert found.float64_max_abs_error < 2e-4

    def test_k1(self, bench: Bench) -> None:
        done = bench("k1", "-n", "1024", "--set", "memory", "--format", "json")
        assert done.returncode == 0, done.stderr
        (launch,) = json.loads(done.stdout)["launches"]
        assert launch["metrics"]["sectors_per_load"]["value"] == pytest.approx(16.5, abs=0.005)


class TestBlocksPerSm:
    def test_held_to_one(self, bench: Bench) -> None:
        done = bench("k6b", "k6b@1", "-n", "2048", "--set", "issue", "--set", "launch", "--format", "json")
        assert done.returncode == 0, done.stderr
        free, held = (one["metrics"] for one in json.loads(done.stdout)["launches"])
        assert free["blocks_per_sm"]["value"] == 2
        assert held["blocks_per_sm"]["value"] == 1
        assert held["active_warps_per_scheduler"]["value"] == pytest.approx(2.0, abs=0.05)
        assert held["duration"]["value"] > 1.2 * free["duration"]["value"]
        kernels = bench.last().kernels
        assert [(k.label, k.blocks_per_sm, k.ballast_bytes > 0) for k in kernels] == [
            ("k6b", None, False),
            ("k6b@1", 1, True),
        ]

    def test_more_than_fit(self, bench: Bench) -> None:
        done = bench("k6b", "-n", "1024", "--blocks-per-sm", "9")
        assert done.returncode == 2
        assert "k6b@9: only 2 block(s) fit on an SM" in done.stderr


def test_demo_runs_live(bench: Bench) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "perfkit", "demo", "-n", "1024"],
        capture_output=True,
        text=True,
        cwd=bench.folder,
        env=bench.environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Live run: " in done.stdout
    assert "The ladder at n=1024" in done.stdout


class TestPrograms:
    def test_all_launches(self, bench: Bench) -> None:
        done = bench.program()
        assert done.returncode == 0, done.stderr
        assert bench.names() == ["alpha", "beta_v2", "alpha", "beta_v2"]

    def test_kernel_skip_count(self, bench: Bench) -> None:
        assert bench.program("--kernel", "^al.*a$", "--skip", "1", "--count", "1").returncode == 0
        assert bench.names() == ["alpha"]

    def test_exclude(self, bench: Bench) -> None:
        assert bench.program("--exclude", "^al").returncode == 0
        assert bench.names() == ["beta_v2", "beta_v2"]

    def test_nvtx_range_with_spaces_and_umlauts(self, bench: Bench) -> None:
        done = bench.program("--nvtx", "second half of größe")
        assert done.returncode == 0, done.stderr
        assert bench.names() == ["beta_v2", "beta_v2"]

    def test_child_process(self, bench: Bench) -> None:
        assert bench.program(mode="child").returncode == 0
        assert len(bench.names()) == 4

    def test_list(self, bench: Bench) -> None:
        done = bench("--list", "--format", "csv", "--", str(bench.script), "5", "ok")
        assert done.returncode == 0, done.stderr
        rows = [line.split(",")[:3] for line in done.stdout.splitlines()]
        assert ["alpha(float *)", "3", "0"] in rows or ["alpha", "3", "0"] in rows, done.stdout
        assert bench.last().options["passes"] == 1

    def test_source_counts_by_instruction(self, bench: Bench) -> None:
        done = bench("k8", "-n", "1024", "--source")
        assert done.returncode == 0, done.stderr

    def test_quoting(self, bench: Bench) -> None:
        hostile = ["two words", "a,b", "$HOME", "quo'te\"s", "größe ☃", "*", "--", "", "%p"]
        out = bench.folder / "arguments.json"
        program = ("python", str(bench.script), "1", "ok", *hostile)
        done = bench("--set", "launch", "--", *program, PERFKIT_TEST_OUT=str(out))
        assert done.returncode == 0, done.stderr
        assert json.loads(out.read_text())[2:] == hostile


class TestFaults:
    def test_no_match(self, bench: Bench) -> None:
        done = bench.program("--kernel", "no_such_kernel")
        assert done.returncode == 2, done.stderr
        assert "no launch of" in done.stderr
        assert "--kernel 'no_such_kernel'" in done.stderr
        assert bench.last().status == "failed"

    def test_bad_metric(self, bench: Bench) -> None:
        done = bench.program("--metrics", "smsp__no_such_thing.sum,smsp__inst_executed.sum")
        assert done.returncode == 2, done.stderr
        assert "smsp__no_such_thing.sum" in done.stderr
        assert "smsp__inst_executed.sum" in done.stdout
        assert bench.last().status == "complete"
        assert "smsp__no_such_thing.sum" in bench.last().messages[0]

    def test_program_that_fails_keeps_the_report(self, bench: Bench) -> None:
        done = bench.program(mode="fail")
        assert done.returncode == 4, done.stderr
        assert "exit code 7" in done.stderr
        assert "about to fail on purpose" in done.stderr
        assert bench.last().status == "failed"
        assert len(bench.names()) == 4

    def test_program_not_found(self, bench: Bench) -> None:
        done = bench("--", "./no-such-program")
        assert done.returncode == 2
        assert "no program './no-such-program'" in done.stderr
        assert not (bench.folder / "runs").exists()

    def test_timeout_names_the_kernel_and_ends_everything(self, bench: Bench) -> None:
        started = time.monotonic()
        done = bench.program("--timeout", "25", mode="spin")
        assert time.monotonic() - started < 60
        assert done.returncode == 4, done.stderr
        assert "did not end within 25 s while profiling spin" in done.stderr
        assert bench.last().status == "timeout"
        assert _alive(str(bench.script)) == []

    def test_ctrl_c(self, bench: Bench) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "perfkit", "profile", "--", str(bench.script), "1", "spin"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=bench.folder,
            env=bench.environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        time.sleep(20)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 130, stderr
        assert bench.last().status == "interrupted"
        assert _alive(str(bench.script)) == []


def _alive(marker: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = entry.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if marker in text:
            found.append(text.replace("\0", " "))
    return found
