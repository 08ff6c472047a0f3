"""Profiling the ladder's kernels, with a stand-in ncu that plays the runner too."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.errors import CheckFailedError, ToolError, UsageError
from perfkit.kernels.plan import plan_kernel
from perfkit.model import BuildResult, GpuInfo
from perfkit.profiler import ncu_tool, session
from perfkit.profiler.ncu_output import ProfiledLaunch
from perfkit.profiler.run_store import RunStore
from perfkit.profiler.selection import KernelRequest, count_launches, select
from perfkit.profiler.session import Profiled, Settings

STAND_IN = Path(__file__).parents[2] / "data" / "ncu"
GPU = GpuInfo("Some GPU", "GPU-1", (9, 0), 132, "580.1", "13.0")


def built(key: str) -> BuildResult:
    return BuildResult(
        key,
        "sm_90",
        "nvcc 13.0.88",
        ("-O3",),
        "abc",
        f"/c/{key}.cubin",
        f"sgemm_{key}",
        125,
        8192,
        0,
        0,
        0,
        None,
    )


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Profiled]:
    monkeypatch.setenv("PATH", f"{STAND_IN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PERFKIT_NCU", raising=False)
    monkeypatch.setenv("NCU_SCENE", "ladder")
    monkeypatch.setattr(session, "first_gpu", lambda: GPU)
    monkeypatch.setattr(
        session, "build_all", lambda specs, *_: {s.key: built(s.key) for s in specs if not s.library}
    )
    ncu_tool.ask.cache_clear()

    def run(keys: list[str], sizes: list[int], **options: object) -> Profiled:
        wanted = select(keys, [{"n": n} for n in sizes])
        settings = Settings(("smsp__inst_executed.sum",), ("issue",))
        return session.profile_kernels(
            wanted,
            settings,
            store=RunStore(tmp_path / "runs"),
            **options,  # type: ignore[arg-type]
        )

    return run


def test_one_process_for_all_kernels_and_sizes(
    profile: Callable[..., Profiled], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCU_SEEN", str(tmp_path / "seen"))
    done = profile(["k6", "k6b@1", "cublas"], [1024, 2048], seed=7)
    assert done.problem is None
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["target"][1:3] == ["-m", "perfkit.kernels.runner"]
    assert seen["options"]["--profile-from-start"] == ["off"]
    record = done.record
    assert record.status == "complete"
    assert [(k.label, k.problem, k.launches) for k in record.kernels] == [
        ("k6", "n=1024", 1), ("k6b@1", "n=1024", 1), ("cublas", "n=1024", 1),
        ("k6", "n=2048", 1), ("k6b@1", "n=2048", 1), ("cublas", "n=2048", 1),
    ]  # fmt: skip
    held = record.kernels[1]
    assert (held.blocks_per_sm, held.ballast_bytes, held.flops) == (1, 107648, 2 * 1024**3)
    assert held.build is not None
    assert held.build["source_hash"] == "abc"
    assert held.verification is not None
    assert held.verification.bit_equal
    assert record.gpu is not None
    assert record.gpu.name == "Stand-in GPU"  # the GPU that ran, as the runner saw it
    assert record.versions["cupy"] == "14.2.0"
    assert record.versions["compiler"] == "nvcc 13.0.88"
    assert record.options["seed"] == 7
    assert record.options["passes"] == 11


def test_a_wrong_result_fails_the_check_but_the_run_is_complete(
    profile: Callable[..., Profiled], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCU_WRONG", "k6")
    done = profile(["k6", "k6b"], [1024])
    assert isinstance(done.problem, CheckFailedError)
    assert done.problem.exit_code == 1
    assert "k6 at n=1024: C differs" in done.problem.message
    assert done.record.status == "complete"


def test_without_verification_nothing_is_claimed(profile: Callable[..., Profiled]) -> None:
    assert profile(["k6"], [1024], verify=False).record.kernels[0].verification is None


def test_the_runners_own_error_reaches_the_user(
    profile: Callable[..., Profiled], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without CuPy the real runner ends with CannotError; the scene here really starts it."""
    monkeypatch.setenv("NCU_SCENE", "good")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "cupy.py").write_text("raise ImportError('no CuPy in this test')\n")
    done = profile(["k6"], [1024])
    assert done.problem is not None
    assert done.problem.exit_code == 3
    assert "CuPy cannot be imported: no CuPy in this test" in done.problem.message
    assert "perfkit[cuda13]" in done.problem.remedy
    assert done.record.status == "failed"


class TestSelect:
    def test_order_sizes_and_repeats(self) -> None:
        wanted = select(["k6", "k6b", "k6"], [{"n": 1024}, {"n": 2048}], [None, 1])
        assert [(r.spec.key, r.blocks_per_sm, r.size["n"]) for r in wanted] == [
            ("k6", None, 1024), ("k6", 1, 1024), ("k6b", None, 1024), ("k6b", 1, 1024),
            ("k6", None, 2048), ("k6", 1, 2048), ("k6b", None, 2048), ("k6b", 1, 2048),
        ]  # fmt: skip

    def test_the_default_size_is_the_kernels(self) -> None:
        assert select(["k6"], [{}])[0].size == {"n": 4096}

    def test_libraries_are_left_out_of_what_is_held(self) -> None:
        assert [r.spec.key for r in select(["k6", "cublas"], [{"n": 1024}], [1])] == ["k6"]
        assert [r.spec.key for r in select(["k6@1", "cublas"], [{"n": 1024}])] == ["k6", "cublas"]

    @pytest.mark.parametrize(
        ("keys", "size", "says"),
        [(["k99"], 1024, "k99"), (["k6"], 1000, "multiple of 128"), (["k99@1"], 1024, "k99")],
    )
    def test_nonsense(self, keys: list[str], size: int, says: str) -> None:
        with pytest.raises(UsageError, match=says):
            select(keys, [{"n": size}])


def counted(order: list[str], launches: list[tuple[str, str]]) -> list[int]:
    """Counts for kernels in `order` (key at n) from launches of (kernel name, label said by the runner)."""
    wanted: list[KernelRequest] = []
    for entry in order:
        key, n = entry.split()
        wanted += select([key], [{"n": int(n)}])
    plans = [plan_kernel(r.spec, None if r.spec.library else built(r.spec.key), r.size) for r in wanted]
    profiled = []
    for name, said in launches:
        label, _, problem = said.partition(" ")
        profiled.append(ProfiledLaunch(name, label, problem, passes=1))
    return count_launches(wanted, plans, profiled)


class TestCountLaunches:
    def test_a_library_call_of_several_kernels(self) -> None:
        launches = [
            ("sgemm_k6", ""),
            ("splitK", ""),
            ("reduce_kernel_with_a_long_na...", ""),
            ("sgemm_k7", ""),
        ]
        assert counted(["k6 1024", "cublas 1024", "k7 1024"], launches) == [1, 2, 1]

    def test_two_library_calls_in_a_row_by_what_the_runner_said(self) -> None:
        launches = [("splitK", "cublas n=1024"), ("reduce", "cublas n=1024"), ("gemm", "cublas n=2048")]
        assert counted(["cublas 1024", "cublas 2048"], launches) == [2, 1]

    @pytest.mark.parametrize(
        "printed",
        [
            "sgemm_k6(const float *, float *, int)",
            "void ns::sgemm_k6<128>(float *)",
            "(anonymous namespace)::sgemm_k6(int)",
        ],
    )
    def test_a_name_that_ncu_prints_with_its_signature(self, printed: str) -> None:
        launches = [(printed, ""), ("sgemm_k7", "")]
        assert counted(["k6 1024", "k7 1024"], launches) == [1, 1]

    def test_a_kernel_that_is_missing(self) -> None:
        assert counted(["k6 1024", "k7 1024"], [("sgemm_k6", "")]) == [1, 0]
        assert counted(["k6 1024", "k7 1024"], []) == [0, 0]


def test_a_lost_launch_is_an_error(profile: Callable[..., Profiled], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "count_launches", lambda *_: [1, 0])
    done = profile(["k6", "k6b"], [1024])
    assert isinstance(done.problem, ToolError)
    assert "ncu did not profile k6b at n=1024" in done.problem.message
    assert done.record.status == "failed"
