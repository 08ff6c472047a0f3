"""`perfkit profile`, `runs` and `demo` as typed, with a stand-in ncu and a real report where there is one."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from perfkit.errors import UsageError
from perfkit.profiler.run_store import RunStore, load_run, recorded_root

STAND_IN = Path(__file__).parents[2] / "data" / "ncu"
PROGRAM = ["--", sys.executable, "-c", "print('the program speaks')"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The stand-in on PATH, a store of its own, no GPU."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NCU_", "PERFKIT_"))}
    path = f"{STAND_IN}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "PERFKIT_RUNS": str(tmp_path / "runs"), "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    def perfkit(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "perfkit", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**environment, "COLUMNS": "160", **more},
            timeout=120,
            check=False,
        )

    return perfkit


@pytest.fixture
def report() -> Path:
    """A small real report with several launches."""
    folder = os.environ.get("PERFKIT_REPORTS")
    if not folder:
        pytest.skip("PERFKIT_REPORTS does not name a folder of field reports")
    return Path(folder) / "cc89_rtx-4090_850e0f.ncu-rep"


@pytest.fixture
def recorded() -> Path:
    """The report that ships: every counter of the sets but those that ncu derives from SASS."""
    return next(recorded_root().glob("*_profile/profile.ncu-rep"))


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ([], "nothing to profile"),
            (["k6", *PROGRAM], "cannot be profiled in one run"),
            (["--kernel", "x", "k6"], "--kernel can only be used with a program after --"),
            (["--list", "--count", "3", "k6"], "--count, --list can only be used"),
            (["-n", "1024", *PROGRAM], "-n can only be used with a kernel"),
            (["--no-verify", *PROGRAM], "can only be used with a kernel"),
            (["--"], "no program after --"),
            (["--", "no-such-program"], "no program 'no-such-program'"),
            (["--kernel", "(", *PROGRAM], "--kernel '(' is no regular expression"),
            (["--count", "0", *PROGRAM], "--count 0"),
            (["k99"], "k99"),
            (["k6", "-n", "1000"], "not a multiple of 128"),
            (["k6", "--set", "nonsense"], "no metric set or metric 'nonsense'"),
            (["k6", "--format", "xml"], "unknown format 'xml'"),
            (["k6", "--timeout", "0"], "--timeout 0"),
            (["k6", "--timeout", "nan"], "--timeout nan"),
            (
                ["--list", "--source", "--set", "issue", *PROGRAM],
                "--set, --source cannot be used with --list",
            ),
            (["--clock-control", "boost", *PROGRAM], "--clock-control 'boost'"),
            (["cublas@1"], "library call cannot be held"),
            (["k6@0"], "no kernel can be held to 0 blocks per SM"),
            (["k6", "--blocks-per-sm", "-1"], "no kernel can be held to -1 blocks per SM"),
        ],
    )
    def test_wrong_usage_exits_2_and_stores_nothing(
        self, run: Run, tmp_path: Path, arguments: list[str], says: str
    ) -> None:
        done = run("profile", *arguments)
        assert done.returncode == 2, done.stderr
        assert says in done.stderr
        assert done.stdout == ""
        assert not (tmp_path / "runs").exists()

    def test_without_a_gpu_kernels_exit_3_with_the_remedy(self, run: Run, tmp_path: Path) -> None:
        done = run("profile", "k6", "-n", "1024")
        assert done.returncode == 3, done.stderr
        assert "CUDA" in done.stderr
        assert not (tmp_path / "runs").exists()

    def test_without_ncu_exits_3_with_the_remedy(self, run: Run, tmp_path: Path) -> None:
        if shutil.which("ncu"):
            pytest.skip("this machine has an ncu")
        done = run("profile", *PROGRAM, PATH=f"{tmp_path}:/usr/bin:/bin")
        assert done.returncode == 3, done.stderr
        assert "Install Nsight Compute" in done.stderr

    def test_dry_run_prints_the_command_line(self, run: Run, tmp_path: Path) -> None:
        done = run(
            "profile",
            "--dry-run",
            "--kernel",
            "a b",
            "--metrics",
            "x.sum,y.sum",
            "--",
            "sh",
            "-c",
            "echo $HOME",
        )
        assert done.returncode == 0, done.stderr
        assert "--kernel-name 'regex:a b'" in done.stdout
        assert ",x.sum,y.sum " in done.stdout
        assert done.stdout.rstrip().endswith("sh -c 'echo $HOME'")
        assert run("profile", "k6", "--dry-run").stdout.count("perfkit.kernels.runner") == 1
        assert not (tmp_path / "runs").exists()

    def test_a_program_reads_what_perfkit_is_given(self, environment: dict[str, str], tmp_path: Path) -> None:
        code = "import sys; print('GOT', sys.stdin.read().upper())"
        done = subprocess.run(
            [sys.executable, "-m", "perfkit", "profile", "--list", "--", "python", "-c", code],
            input="some words",
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        assert "GOT SOME WORDS" in done.stderr

    def test_the_programs_own_help_is_the_programs(self, run: Run, tmp_path: Path) -> None:
        seen = tmp_path / "seen"
        run("profile", "--", "sh", "-c", "true", "--help", "-n", "3", "--", "x", NCU_SEEN=str(seen))
        assert json.loads(seen.read_text())["target"][1:] == ["-c", "true", "--help", "-n", "3", "--", "x"]


class TestProgram:
    def test_counters_on_stdout_the_rest_on_stderr(self, run: Run, report: Path, tmp_path: Path) -> None:
        done = run("profile", "--set", "launch", *PROGRAM, NCU_REPORT=str(report))
        assert done.returncode == 0, done.stderr
        assert "Registers per thread" in done.stdout
        assert "the program speaks" not in done.stdout
        assert "the program speaks" in done.stderr
        (stored,) = RunStore(tmp_path / "runs").list()
        assert f"run: {stored.path}" in done.stderr
        assert "2 launches, at most 11 replay passes each" in done.stderr

    def test_json_is_only_json(self, run: Run, report: Path) -> None:
        done = run("profile", "--set", "launch", "--format", "json", *PROGRAM, NCU_REPORT=str(report))
        told = json.loads(done.stdout)
        assert told["launches"]
        assert "registers_per_thread" in told["launches"][0]["metrics"]

    def test_list_counts_launches_by_kernel(self, run: Run, report: Path, tmp_path: Path) -> None:
        import ncu_report

        seen = tmp_path / "seen"
        done = run(
            "profile", "--list", "--format", "csv", *PROGRAM, NCU_REPORT=str(report), NCU_SEEN=str(seen)
        )
        assert done.returncode == 0, done.stderr
        context = ncu_report.load_report(str(report))
        names = [action.name() for one in context for action in one]
        counts = [int(line.rsplit(",", 6)[1]) for line in done.stdout.splitlines()[1:]]
        assert sum(counts) == len(names)
        (listed,) = RunStore(tmp_path / "runs").list()
        assert listed.record is not None
        assert listed.record.what == "list"
        with pytest.raises(UsageError, match="no complete run"):
            RunStore(tmp_path / "runs").latest()
        options = json.loads(seen.read_text())["options"]
        assert options["--metrics"] == ["gpu__time_duration.sum,launch__registers_per_thread"]
        assert options["--cache-control"] == ["none"]

    def test_a_failure_still_shows_what_there_is(self, run: Run, report: Path, tmp_path: Path) -> None:
        failing = ["--", sys.executable, "-c", "import sys; sys.exit(3)"]
        done = run("profile", "--set", "launch", *failing, NCU_REPORT=str(report))
        assert done.returncode == 4
        assert "Registers per thread" in done.stdout
        assert "failed with exit code 3" in done.stderr
        assert RunStore(tmp_path / "runs").list()[0].status == "failed"

    def test_a_cut_report_does_not_hide_the_failure(self, run: Run) -> None:
        failing = ["--", sys.executable, "-c", "import sys; sys.exit(3)"]
        done = run("profile", *failing)
        assert done.returncode == 4
        assert "warning: " in done.stderr
        assert "failed with exit code 3" in done.stderr

    def test_many_launches_are_warned_of_once_per_tenfold(self, run: Run) -> None:
        done = run("profile", *PROGRAM, NCU_LAUNCHES="240")
        warnings = [line for line in done.stderr.splitlines() if "launches profiled so far" in line]
        assert len(warnings) == 1
        assert warnings[0].startswith("warning: 100 launches profiled so far")
        assert "--skip N and --count N" in warnings[0]
        counted = run("profile", "--count", "240", *PROGRAM, NCU_LAUNCHES="240")
        assert "launches profiled so far" not in counted.stderr

    def test_old_ncu_gets_only_options_it_knows(self, run: Run, tmp_path: Path) -> None:
        seen = tmp_path / "seen"
        run("profile", *PROGRAM, NCU_OLD="1", NCU_SEEN=str(seen))
        assert "--config-file" not in json.loads(seen.read_text())["options"]


class TestMetricsLeftOut:
    """ncu leaves out a name that it does not know, without a word, where it knows others beside it."""

    # A program's run: the recorded report, as ncu leaves it without the opcodes that the SASS gives.
    METRICS = ("--metrics", "smsp__inst_executed.sum,smsp__inst_executed.summ")

    def test_one_the_user_typed_exits_2_and_the_rest_is_shown_and_kept(
        self, run: Run, recorded: Path, tmp_path: Path
    ) -> None:
        done = run("profile", "--set", "launch", *self.METRICS, *PROGRAM, NCU_REPORT=str(recorded))
        assert done.returncode == 2, done.stderr
        assert "did not collect what --metrics asked for: smsp__inst_executed.summ (near: " in done.stderr
        assert "smsp__inst_executed.sum," in done.stderr
        assert "Theoretical" in done.stdout
        assert "smsp__inst_executed.sum " in done.stdout
        (stored,) = RunStore(tmp_path / "runs").list()
        record = load_run(stored.path)
        assert record.status == "complete"
        assert "smsp__inst_executed.summ" in record.messages[0]

    def test_those_of_the_sets_are_warned_of(self, run: Run, recorded: Path, tmp_path: Path) -> None:
        own = tmp_path / "cut.ncu-rep"
        own.write_bytes(recorded.read_bytes().replace(b"launch__waves_per_multiprocessor", b"x" * 32))
        done = run("profile", "--set", "launch", *PROGRAM, NCU_REPORT=str(own))
        assert done.returncode == 0, done.stderr
        assert (
            "warning: ncu left out 1 of the metric sets' counters: launch__waves_per_multiprocessor;"
            in done.stderr
        )
        (stored,) = RunStore(tmp_path / "runs").list()
        assert "launch__waves_per_multiprocessor" in load_run(stored.path).messages[0]

    def test_what_the_sass_would_give_is_no_news_of_the_sets(self, run: Run, recorded: Path) -> None:
        done = run("profile", "--set", "issue", *PROGRAM, NCU_REPORT=str(recorded))
        assert done.returncode == 0, done.stderr
        assert "left out" not in done.stderr
        typed = run(
            "profile",
            "--set",
            "launch",
            "--metrics",
            "sass__inst_executed",
            *PROGRAM,
            NCU_REPORT=str(recorded),
        )
        assert typed.returncode == 2
        assert "keep that with --source" in typed.stderr

    def test_a_base_name_and_a_pattern_stand_for_what_they_match(self, run: Run, recorded: Path) -> None:
        metrics = ("--metrics", "smsp__cycles_active,regex:smsp__inst_exec")
        done = run(
            "profile", "--set", "launch", *metrics, "--format", "csv", *PROGRAM, NCU_REPORT=str(recorded)
        )
        assert done.returncode == 0, done.stderr
        rows = [row for row in csv.DictReader(io.StringIO(done.stdout)) if row["metric"].startswith("smsp__")]
        first = {row["metric"]: float(row["value"]) for row in rows if row["launch"] == "25"}
        assert first["smsp__inst_executed.sum"] == 2_360_385_536
        assert first["smsp__cycles_active.sum"] > 5e9

    def test_json_holds_the_counters_beside_the_metrics(self, run: Run, recorded: Path) -> None:
        arguments = ("--set", "launch", "--metrics", "smsp__inst_executed.sum", "--format", "json")
        done = run("profile", *arguments, *PROGRAM, NCU_REPORT=str(recorded))
        launch = json.loads(done.stdout)["launches"][25]
        assert launch["counters"] == {
            "smsp__inst_executed.sum": {"value": 2_360_385_536.0, "unit": "inst", "status": "ok"}
        }


def test_python_gives_the_counters_asked_for_and_refuses_unknown_ones(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import perfkit

    monkeypatch.setenv("PATH", f"{STAND_IN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NCU_REPORT", str(recorded))

    def profile(metric: str) -> perfkit.Profile:
        program = [sys.executable, "-c", "pass"]
        return perfkit.profile(program=program, sets=["launch"], metrics=[metric], store=tmp_path / "runs")

    found = profile("smsp__inst_executed.sum")
    assert found.launches[25].counters["smsp__inst_executed.sum"].value == 2_360_385_536
    with pytest.raises(UsageError, match=r"smsp__inst_executed\.smu \(near: smsp__inst_executed\.sum"):
        profile("smsp__inst_executed.smu")


def test_progress_bar_at_a_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    """At a terminal the kernel in hand is named; nothing of the bar is left behind."""
    program = pexpect.spawn(
        sys.executable,
        [
            "-m",
            "perfkit",
            "profile",
            "--timeout",
            "3",
            "--",
            sys.executable,
            "-c",
            "import time; time.sleep(30)",
        ],
        env={**environment, "NCU_SCENE": "hang", "TERM": "xterm"},
        cwd=str(tmp_path),
        dimensions=(24, 120),
        timeout=30,
        encoding="utf-8",
    )
    program.expect("profiling ncclDevKernel_AllReduce")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 4
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", program.before or "")
    assert "did not end within 3 s while profiling ncclDevKernel_AllReduce" in text.replace("\r\n", "")


class TestRuns:
    def test_list_and_show(self, run: Run, tmp_path: Path) -> None:
        run("profile", *PROGRAM)
        RunStore(tmp_path / "runs").create("profile")
        done = run("runs", "--format", "csv")
        assert done.returncode == 0, done.stderr
        mine = [line for line in done.stdout.splitlines() if line.split(",")[-1] != "yes"][1:]
        assert [line.split(",")[1:3] for line in mine] == [["profile", "complete"], ["", "incomplete"]]
        shown = run("runs", "latest")
        assert shown.returncode == 0, shown.stderr
        run_id = load_run(RunStore(tmp_path / "runs").latest()).id
        assert run_id in shown.stdout
        assert "2025.3.1.0" in shown.stdout

    def test_a_recorded_run_in_full(self, run: Run) -> None:
        """Nothing is cut at 80 columns, and what does not apply is a dash or absent."""
        done = run("runs", "recorded", COLUMNS="80")
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80
        for wrong in ("undefined", "None", "…", "carveout", "handicap"):
            assert wrong not in done.stdout
        assert re.search(r"^cublas +n=4096 +cuBLAS SGEMM +1 +137.44 +- +-$", done.stdout, re.MULTILINE)
        assert re.search(r"^samples +60 files, samples_k1_n1024", done.stdout, re.MULTILINE)
        assert re.search(r"^verify +yes$", done.stdout, re.MULTILINE)
        # Every block of columns tells kernel and size.
        assert re.search(
            r"^k6b +n=2048 +[0-9a-f]{12}$|^k6b +n=2048 .* [0-9a-f]{12}$", done.stdout, re.MULTILINE
        )

    def test_a_reader_that_goes_away_and_odd_widths_are_no_error(
        self, environment: dict[str, str], tmp_path: Path
    ) -> None:
        for columns in ("", "wide", "0", "1"):
            line = f"{sys.executable} -m perfkit runs recorded 2>&1 | head -1; echo ${{PIPESTATUS[0]}}"
            done = subprocess.run(
                ["bash", "-c", line],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env={**environment, "COLUMNS": columns},
                check=True,
            )
            assert done.stdout.splitlines()[-1] == "0", done.stdout

    def test_an_error_that_nobody_reads_keeps_its_exit_code(
        self, environment: dict[str, str], tmp_path: Path
    ) -> None:
        line = f"{sys.executable} -m perfkit profile k6 2>&1 | true; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
        )
        assert done.stdout == "3\n"

    def test_unknown_run(self, run: Run) -> None:
        done = run("runs", "nonsense")
        assert done.returncode == 2
        assert "no run 'nonsense'" in done.stderr


def test_demo_shows_the_recorded_run(run: Run, tmp_path: Path) -> None:
    from perfkit.profiler.run_store import recorded_root, runs_under

    if not runs_under(recorded_root()):
        pytest.skip("no recorded run is in this checkout")
    done = run("demo", "--recorded")
    assert done.returncode == 0, done.stderr
    assert "Recorded run: NVIDIA" in done.stdout
    assert "The ladder at n=4096" in done.stdout
    written = run("demo", "--recorded", "-o", "demo.html", "--format", "html")
    assert written.returncode == 0, written.stderr
    assert "Recorded run: NVIDIA" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    for key in ("k1", "k6", "k6b", "k8", "cublas"):
        assert re.search(rf"^{key}\s", done.stdout, re.MULTILINE)
