"""The doctor: every check on machines that have and have not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.errors import CannotError
from perfkit.kernels import cuda_driver
from perfkit.kernels.cuda_driver import DriverState
from perfkit.model import GpuInfo
from perfkit.profiler import doctor
from perfkit.profiler.doctor import CHECKS, Finding, State, Task, blocked, examine

H200 = GpuInfo("NVIDIA H200", "GPU-1", (9, 0), 132, "580.159.04", "13.0")
PASCAL = GpuInfo("GTX 1070", "GPU-2", (6, 1), 15, "470.1", "11.4")


def test_every_finding_that_is_not_ok_has_a_remedy_or_a_reason() -> None:
    findings = examine()
    assert len(findings) == len(CHECKS)
    for finding in findings:
        assert finding.name
        assert finding.detail
        if finding.state is State.MISSING:
            assert finding.remedy, finding


def test_a_check_that_breaks_is_a_finding() -> None:
    def check_the_weather() -> Finding:
        raise RuntimeError("clouds")

    (finding,) = examine([check_the_weather])
    assert finding.name == "the weather"
    assert finding.state is State.UNKNOWN
    assert "RuntimeError: clouds" in finding.detail


class TestGpu:
    def test_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cuda_driver, "query_driver", lambda: DriverState((H200,), "13.0"))
        assert doctor.check_driver().detail == "NVIDIA H200, GPU-1; driver 580.159.04, CUDA up to 13.0"
        assert doctor.check_compute_capability().detail == "9.0 (sm_90), 132 SMs"

    def test_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cuda_driver, "query_driver", lambda: DriverState((), "13.0"))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        found = doctor.check_driver()
        assert found.state is State.MISSING
        assert "CUDA_VISIBLE_DEVICES is ''" in found.remedy
        assert doctor.check_compute_capability().state is State.UNKNOWN

    def test_too_old_for_ncu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cuda_driver, "query_driver", lambda: DriverState((PASCAL,), "11.4"))
        found = doctor.check_compute_capability()
        assert found.state is State.MISSING
        assert blocked([found], Task.PROFILE) == [found]
        assert blocked([found], Task.READ) == []

    def test_no_driver_is_an_error_with_the_remedy(self) -> None:
        with pytest.raises(CannotError, match=r"no CUDA driver: libnot-there.so.1") as caught:
            cuda_driver.query_driver("libnot-there.so.1")
        assert "--gpus all" in caught.value.remedy

    @pytest.mark.parametrize(
        ("text", "version"),
        [
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs)\n"
                "GCC version:  gcc version 12.2.0",
                "580.159.04",
            ),
            ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  Tue Jun 6", "535.54"),
            ("nothing", ""),
        ],
    )
    def test_driver_version(self, tmp_path: Path, text: str, version: str) -> None:
        (tmp_path / "version").write_text(text)
        assert cuda_driver.driver_version(tmp_path / "version") == version
        assert cuda_driver.driver_version(tmp_path / "absent") == ""

    def test_uuid(self) -> None:
        assert cuda_driver.format_uuid(bytes(range(16))) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


class TestPermission:
    @pytest.mark.parametrize(
        ("params", "capabilities", "state"),
        [
            ("RmProfilingAdminOnly: 0", "0000000000000000", State.OK),
            ("RmProfilingAdminOnly: 1", "000001ffffffffff", State.OK),
            ("RmProfilingAdminOnly: 1", "00000000a80425fb", State.MISSING),  # docker's default
            ("Other: 1", "0000000000000000", State.UNKNOWN),
            (None, "0000000000000000", State.UNKNOWN),
            (None, "0000000000200000", State.OK),  # CAP_SYS_ADMIN alone
        ],
    )
    def test_driver_setting_and_capability(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        params: str | None,
        capabilities: str,
        state: State,
    ) -> None:
        if params:
            (tmp_path / "params").write_text(f"ResmanDebugLevel: 4294967295\n{params}\n")
        (tmp_path / "status").write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
        monkeypatch.setattr(doctor, "PARAMS", tmp_path / "params")
        monkeypatch.setattr(doctor, "STATUS", tmp_path / "status")
        found = doctor.check_counter_permission()
        assert found.state is state
        if state is not State.OK:
            assert "NVreg_RestrictProfilingToAdminUsers=0" in found.remedy
            assert "--cap-add=SYS_ADMIN" in found.remedy

    @pytest.mark.parametrize(
        ("capabilities", "detail"),
        [
            ("0000000000200000", "this process has CAP_SYS_ADMIN"),  # bit 21
            ("0000004000000000", "this process has CAP_PERFMON"),  # bit 38
            ("0000004000200000", "this process has CAP_SYS_ADMIN and CAP_PERFMON"),
            ("0000000000100000", ""),  # the neighbours of the two: CAP_SYS_PACCT,
            ("0000000000400000", ""),  # CAP_SYS_BOOT,
            ("0000002000000000", ""),  # CAP_AUDIT_READ,
            ("0000008000000000", ""),  # CAP_BPF
            ("000001bfffdfffff", ""),  # every one but the two
        ],
    )
    @pytest.mark.parametrize("params", ["RmProfilingAdminOnly: 1\n", None])
    def test_either_capability_will_do_and_no_other(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capabilities: str,
        detail: str,
        params: str | None,
    ) -> None:
        if params:
            (tmp_path / "params").write_text(params)
        # Only what is in effect counts; what the process may still acquire does not.
        (tmp_path / "status").write_text(
            f"CapInh:\t000001ffffffffff\nCapPrm:\t000001ffffffffff\nCapEff:\t{capabilities}\n"
            "CapBnd:\t000001ffffffffff\n"
        )
        monkeypatch.setattr(doctor, "PARAMS", tmp_path / "params")
        monkeypatch.setattr(doctor, "STATUS", tmp_path / "status")
        found = doctor.check_counter_permission()
        if detail:
            assert (found.state, found.detail) == (State.OK, detail)
        else:
            assert found.state is (State.MISSING if params else State.UNKNOWN)
        assert found.needed_for == (Task.PROFILE,)

    def test_where_capabilities_cannot_be_read_there_are_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "params").write_text("RmProfilingAdminOnly: 1\n")
        monkeypatch.setattr(doctor, "PARAMS", tmp_path / "params")
        monkeypatch.setattr(doctor, "STATUS", tmp_path / "absent")
        assert doctor.check_counter_permission().state is State.MISSING


def test_dcgm_is_named_and_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_process_names", lambda: {"bash", "nv-hostengine"})
    found = doctor.check_other_profilers()
    assert found.state is State.UNKNOWN
    assert "DCGM" in found.detail
    assert "dcgmi profiling --pause" in found.remedy


class TestStore:
    def test_leaves_no_folder_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PERFKIT_RUNS", str(tmp_path / "runs"))
        assert doctor.check_store().state is State.OK
        assert list(tmp_path.iterdir()) == []

    def test_not_writable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("PERFKIT_RUNS", str(tmp_path / "file"))
        found = doctor.check_store()
        assert found.state is State.MISSING
        assert "PERFKIT_RUNS" in found.remedy


def test_command_without_gpu_and_ncu_exits_3_and_says_what_is_missing(tmp_path: Path) -> None:
    environment = {**os.environ, "PERFKIT_RUNS": str(tmp_path / "runs"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", "perfkit", "doctor", "--json"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 3
    assert "this machine cannot profile: GPU" in done.stderr
    told = json.loads(done.stdout)
    assert [check["name"] for check in told["checks"]][:3] == ["python", "packages", "ncu_report"]
    assert {check["state"] for check in told["checks"]} <= {"ok", "missing", "unknown"}
    assert told["can"]["profile"] is False
    assert told["can"]["read reports"] is True
