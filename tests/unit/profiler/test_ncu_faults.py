"""Launching faults 1 to 12, each against a stand-in ncu that prints what the real one prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.errors import CannotError, PerfkitError, ToolError, ToolTimeoutError, UsageError
from perfkit.profiler import ncu_tool, session
from perfkit.profiler.ncu_command import Filters
from perfkit.profiler.run_store import RunStore, load_run
from perfkit.profiler.session import Profiled, Settings

STAND_IN = Path(__file__).parents[2] / "data" / "ncu"
PYTHON = sys.executable
OK = [PYTHON, "-c", "print('hello from the program')"]
CRASH = [PYTHON, "-c", "import sys; print('Traceback (most recent call last)', file=sys.stderr); sys.exit(3)"]

Profile = Callable[..., Profiled]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the stand-in first on PATH and chooses what it plays."""
    monkeypatch.setenv("PATH", f"{STAND_IN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PERFKIT_NCU", raising=False)
    ncu_tool.ask.cache_clear()

    def choose(name: str) -> None:
        monkeypatch.setenv("NCU_SCENE", name)

    choose("good")
    return choose


@pytest.fixture
def profile(scene: Callable[[str], None], tmp_path: Path) -> Profile:
    """Profiles a program into a store of its own."""
    scene("good")

    def run(target: list[str], filters: Filters | None = None, **options: object) -> Profiled:
        settings = Settings(("smsp__inst_executed.sum",), timeout=options.pop("timeout", None))  # type: ignore[arg-type]
        return session.profile_program(
            target,
            settings,
            filters or Filters(),
            store=RunStore(tmp_path / "runs"),
            **options,  # type: ignore[arg-type]
        )

    return run


def problem_of(done: Profiled, kind: type[PerfkitError]) -> str:
    """The message and remedy of the problem, which must be of exactly this kind."""
    assert type(done.problem) is kind
    return f"{done.problem.message}\n{done.problem.remedy}"


def test_a_good_run_is_stored_complete(profile: Profile) -> None:
    done = profile(OK)
    assert done.problem is None
    assert done.passes == 11
    assert done.record.status == "complete"
    assert done.record.options["launches"] == 2
    assert done.record.versions["ncu"] == "2025.3.1.0"
    assert (done.path / "profile.ncu-rep").stat().st_size > 0
    assert "hello from the program" in (done.path / "ncu.log").read_text()
    assert not (done.path / ".scratch").exists()


class TestPermission:
    def test_is_said_first_with_its_remedies(self, scene: Callable[[str], None], profile: Profile) -> None:
        scene("permission")
        done = profile(CRASH)
        text = problem_of(done, CannotError)
        assert done.problem is not None
        assert done.problem.exit_code == 3
        assert text.startswith("ncu may not read the GPU's performance counters (ERR_NVGPUCTRPERM)")
        assert text.index("ERR_NVGPUCTRPERM") < text.index("Traceback (most recent call last)")
        for remedy in ("NVreg_RestrictProfilingToAdminUsers=0", "sudo", "--cap-add=SYS_ADMIN"):
            assert remedy in text

    def test_leaves_a_run_marked_failed(self, scene: Callable[[str], None], profile: Profile) -> None:
        scene("permission")
        record = profile(OK).record
        assert record.status == "failed"
        assert record.reports == ()
        assert "ERR_NVGPUCTRPERM" in record.messages[0]


class TestNothingProfiled:
    def test_is_a_failure_although_ncu_exits_0_and_quotes_the_filters(
        self, scene: Callable[[str], None], profile: Profile
    ) -> None:
        scene("none")
        done = profile(OK, Filters(kernel="ge mm$", exclude="nccl", nvtx=("forward",), skip=2, count=1))
        text = problem_of(done, UsageError)
        assert "filters: --kernel 'ge mm$' --exclude 'nccl' --nvtx 'forward' --skip 2 --count 1" in text
        assert "--list" in text
        assert "push/pop" in text
        assert done.record.status == "failed"

    def test_without_filters_says_so(self, scene: Callable[[str], None], profile: Profile) -> None:
        scene("none")
        text = problem_of(profile(OK), ToolError)
        assert "no filters were used" in text
        assert "launches CUDA kernels" in text

    def test_the_profilers_range_is_a_filter(self, scene: Callable[[str], None], profile: Profile) -> None:
        scene("none")
        filters = Filters(kernel="x", demangled=True)
        assert "(filters: --profiler-range)" in problem_of(profile(OK, from_start=False), UsageError)
        text = problem_of(profile(OK, filters, from_start=False), UsageError)
        assert "(filters: --kernel 'x' --demangled --profiler-range)" in text

    def test_no_report_although_launches_were_named(
        self, scene: Callable[[str], None], profile: Profile
    ) -> None:
        scene("no-report")
        assert "no launch of" in problem_of(profile(OK), ToolError)


def test_driver_that_does_not_fit_names_both_versions(
    scene: Callable[[str], None], profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene("driver")
    monkeypatch.setattr("perfkit.profiler.ncu.driver_version", lambda: "535.54.03")
    text = problem_of(profile(OK), CannotError)
    assert "Cuda driver is not compatible with Nsight Compute." in text
    assert "2025.3.1.0" in text
    assert "535.54.03" in text


def test_another_profiler_is_named_with_the_command_that_pauses_it(
    scene: Callable[[str], None], profile: Profile
) -> None:
    scene("dcgm")
    text = problem_of(profile(OK), CannotError)
    assert "DCGM" in text
    assert "dcgmi profiling --pause" in text


def test_a_metric_ncu_does_not_know_is_wrong_usage(scene: Callable[[str], None], profile: Profile) -> None:
    scene("metric")
    assert "smsp__no_such_thing.sum" in problem_of(profile(OK), UsageError)


def test_any_other_error_line_reaches_the_user_with_the_programs_own(
    scene: Callable[[str], None], profile: Profile
) -> None:
    scene("error")
    text = problem_of(profile(OK), ToolError)
    assert "ncu: LaunchFailed" in text
    assert "hello from the program" in text


class TestProgramFails:
    def test_its_exit_code_and_last_lines_are_shown_and_the_report_is_kept(self, profile: Profile) -> None:
        done = profile(CRASH)
        text = problem_of(done, ToolError)
        assert "failed with exit code 3" in text
        assert "after profiling kernel_1" in text
        assert "Traceback (most recent call last)" in text
        assert done.record.status == "failed"
        assert done.record.reports == ("profile.ncu-rep",)
        assert (done.path / "profile.ncu-rep").is_file()

    def test_killed_by_a_signal(self, profile: Profile) -> None:
        done = profile([PYTHON, "-c", "import os; os.kill(os.getpid(), 11)"])
        assert "was ended by SIGSEGV" in problem_of(done, ToolError)

    @pytest.mark.parametrize("target", [["./no-such-program"], ["no-such-program-on-path", "x"]])
    def test_not_found_is_said_before_ncu_starts(
        self, profile: Profile, tmp_path: Path, target: list[str]
    ) -> None:
        with pytest.raises(UsageError, match="no-such-program"):
            profile(target)
        assert not (tmp_path / "runs").exists()

    def test_not_executable(self, profile: Profile, tmp_path: Path) -> None:
        (tmp_path / "program").write_text("x")
        with pytest.raises(UsageError, match="not executable"):
            profile([str(tmp_path / "program")])


def alive(marker: str) -> list[str]:
    """Processes whose command line holds the marker."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = entry.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if marker in text and entry.parent.name != str(os.getpid()):
            found.append(text.replace("\0", " "))
    return found


class TestTimeout:
    def test_names_the_kernel_keeps_the_report_and_ends_everything(
        self, scene: Callable[[str], None], profile: Profile
    ) -> None:
        scene("hang")
        marker = f"marker_{time.time_ns()}"
        # The program has a child of its own, in a session of its own, as torchrun's workers are.
        program = (
            "import subprocess, sys, time; "
            f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60) #{marker}'], "
            "start_new_session=True); "
            "time.sleep(60)"
        )
        started = time.monotonic()
        done = profile([PYTHON, "-c", program, marker], timeout=1.5)
        assert time.monotonic() - started < 12
        text = problem_of(done, ToolTimeoutError)
        assert "did not end within 1.5 s while profiling ncclDevKernel_AllReduce" in text
        assert "--exclude" in text
        assert done.record.status == "timeout"
        assert done.record.reports == ("profile.ncu-rep",)
        assert alive(marker) == []

    def test_ends_what_ignores_being_asked(
        self, scene: Callable[[str], None], profile: Profile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("perfkit.profiler.process.TARGET_GRACE", 0.4)
        monkeypatch.setattr("perfkit.profiler.process.GROUP_GRACE", 0.3)
        scene("stubborn")
        marker = f"marker_{time.time_ns()}"
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        done = profile([PYTHON, "-c", stubborn, marker], timeout=1.0)
        assert done.record.status == "timeout"
        assert alive(marker) == []
        assert alive(str(STAND_IN / "ncu")) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("scene")
def test_ctrl_c_marks_the_run_and_leaves_no_child(tmp_path: Path, number: signal.Signals) -> None:
    earlier = RunStore(tmp_path / "runs").create("profile")
    (earlier.path / "kept").write_text("kept")
    marker = f"marker_{time.time_ns()}"
    environment = {**os.environ, "NCU_SCENE": "hang", "PERFKIT_RUNS": str(tmp_path / "runs")}
    command = [PYTHON, "-m", "perfkit", "profile", "--", PYTHON, "-c", "import time; time.sleep(60)", marker]
    # A shell without job control starts background jobs with SIGINT ignored; Python then never sees it.
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    deadline = time.monotonic() + 20
    while not (len(alive(marker)) >= 3) and time.monotonic() < deadline:  # perfkit, ncu, the program
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "is kept, marked as interrupted" in stderr
    assert "Traceback" not in stderr
    assert alive(marker) == []
    runs = RunStore(tmp_path / "runs").list()
    assert [run.status for run in runs] == ["incomplete", "interrupted"]
    assert load_run(runs[1].path).reports == ("profile.ncu-rep",)
    assert (earlier.path / "kept").read_text() == "kept"


HOSTILE = [
    "two words",
    "a,b",
    "$HOME `id` $(id)",
    'quote\'s "double"',
    "größe ☃",
    "*",
    "--export",
    "",
    "%p\\n",
]


def test_arguments_arrive_unchanged_at_the_program_and_at_ncu(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen.json"
    monkeypatch.setenv("NCU_SEEN", str(seen))
    got = tmp_path / "got.json"
    program = f"import json, sys; open({str(got)!r}, 'w').write(json.dumps(sys.argv[1:]))"
    kernel, nvtx = 'ge,mm<float, "$x"> ☃', "step 1, größe"
    done = profile([PYTHON, "-c", program, *HOSTILE], Filters(kernel=kernel, nvtx=(nvtx,)))
    assert done.problem is None
    assert json.loads(got.read_text()) == HOSTILE
    options = json.loads(seen.read_text())["options"]
    assert options["--kernel-name"] == [f"regex:{kernel}"]
    assert options["--nvtx-include"] == ["step 1\\, größe/", "step 1\\, größe"]


def test_python_targets_run_with_this_interpreter(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "bin"
    wrong.mkdir()
    for name in ("python", "python3"):
        (wrong / name).write_text("#!/bin/sh\nexit 9\n")
        (wrong / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrong}{os.pathsep}{os.environ['PATH']}")
    # The stand-in itself is a Python script: start it with this interpreter too.
    launcher = tmp_path / "ncu"
    launcher.write_text(f'#!/bin/sh\nexec {PYTHON} {STAND_IN / "ncu"} "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("PERFKIT_NCU", str(launcher))
    script = tmp_path / "train.py"
    script.write_text(f"import sys; open({str(tmp_path / 'exe')!r}, 'a').write(sys.executable + chr(10))")
    for target in ([str(script)], ["python", str(script)], ["python3", str(script)]):
        assert profile(target).problem is None
    assert (tmp_path / "exe").read_text().split() == [PYTHON] * 3


class TestStoreFoundBefore:
    @pytest.mark.usefixtures("scene")
    def test_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(CannotError, match="cannot be stored") as caught:
            session.profile_program(
                OK, Settings(("a",)), Filters(), store=RunStore(tmp_path / "file" / "runs")
            )
        assert "PERFKIT_RUNS" in caught.value.remedy

    def test_full_disk(self, profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        import shutil

        real = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(
            "perfkit.profiler.run_store.shutil.disk_usage", lambda _: real._replace(free=10 * 2**20)
        )
        with pytest.raises(CannotError, match="only 10 MiB are free"):
            profile(OK)

    def test_lock_of_another_user_in_the_temporary_folder(
        self, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "nsight-compute-lock").write_text("")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setattr("perfkit.profiler.ncu_tool.os.access", lambda path, _: "lock" not in str(path))
        with pytest.raises(CannotError, match="belongs to another user") as caught:
            profile(OK)
        assert "TMPDIR" in caught.value.remedy
        assert not (tmp_path / "runs").exists()


def test_no_ncu_names_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ncu_tool, "_PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PERFKIT_NCU", raising=False)
    with pytest.raises(CannotError, match="was not found on PATH") as caught:
        ncu_tool.find_ncu()
    assert caught.value.exit_code == 3
    assert "Nsight Compute" in caught.value.remedy


def test_an_ncu_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "ncu"
    fake.write_text("#!/bin/sh\necho no such thing\n")
    fake.chmod(0o755)
    monkeypatch.setattr(ncu_tool, "_PLACES", ())
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("PERFKIT_NCU", raising=False)
    with pytest.raises(CannotError, match="--version says 'no such thing'"):
        ncu_tool.find_ncu()
