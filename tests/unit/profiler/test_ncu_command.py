"""The ncu command line: what is explicit, what filters become, what a target becomes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from perfkit.errors import UsageError
from perfkit.profiler.ncu_command import Filters, NcuOptions, ncu_command, resolve_target
from perfkit.profiler.ncu_tool import NcuTool

TOOL = NcuTool("/opt/ncu", "2025.3.1.0", frozenset())


def value(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_every_default_that_moved_is_explicit() -> None:
    options = NcuOptions(("a.sum", "b.sum"), from_start=False)
    command = ncu_command(TOOL, options, Path("/r/p.ncu-rep"), ["prog", "--metrics", "x y"])
    assert command[0] == "/opt/ncu"
    for option, expected in {
        "--target-processes": "all",
        "--replay-mode": "kernel",
        "--clock-control": "none",
        "--cache-control": "all",
        "--import-sass": "no",
        "--import-source": "no",
        "--profile-from-start": "off",
        "--print-summary": "none",
        "--apply-rules": "no",
        "--check-exit-code": "yes",
        "--config-file": "off",
        "--metrics": "a.sum,b.sum",
        "--export": "/r/p.ncu-rep",
    }.items():
        assert value(command, option) == expected
    assert command[-3:] == ["prog", "--metrics", "x y"]
    assert "--nvtx" in command
    assert "--force-overwrite" in command


def test_options_this_ncu_does_not_know_are_left_out() -> None:
    old = NcuTool("ncu", "2021.1.0.0", frozenset({"--clock-control", "--cache-control", "--metrics"}))
    command = ncu_command(old, NcuOptions(("a",)), Path("p"), ["prog"])
    assert "--import-sass" not in command
    assert "--config-file" not in command
    assert value(command, "--clock-control") == "none"


def test_source_keeps_the_sass() -> None:
    command = ncu_command(TOOL, NcuOptions(("a",), source=True), Path("p"), ["prog"])
    assert value(command, "--import-sass") == "yes"
    assert value(command, "--section") == "SourceCounters"


def test_percent_signs_of_the_folder_are_not_ncus_macros() -> None:
    command = ncu_command(TOOL, NcuOptions(("a",)), Path("/r/50%p/x.ncu-rep"), ["prog"])
    assert value(command, "--export") == "/r/50%%p/x.ncu-rep"


class TestFilters:
    def test_none(self) -> None:
        assert Filters().arguments() == []
        assert str(Filters()) == "none"

    def test_all(self) -> None:
        filters = Filters("gemm", "", ("fwd",), 3, 2, demangled=True)
        assert filters.arguments() == [
            "--kernel-name-base", "demangled", "--kernel-name", "regex:gemm",
            "--nvtx-include", "fwd/", "--nvtx-include", "fwd",
            "--launch-skip", "3", "--launch-count", "2",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("kernel", "exclude", "kept", "dropped"),
        [
            ("", "nccl", ["gemm", "xnc cl"], ["ncclDevKernel", "my_nccl"]),
            ("gemm|axpy", "^bad|tmp$", ["gemm", "saxpy", "a_gemm_bad"], ["bad_gemm", "gemm_tmp", "other"]),
        ],
    )
    def test_exclusion_is_one_expression(
        self, kernel: str, exclude: str, kept: list[str], dropped: list[str]
    ) -> None:
        """ncu's expressions are ECMAScript's; the part used here means the same in Python."""
        text = Filters(kernel, exclude).arguments()[-1]
        assert text.startswith("regex:")
        expression = re.compile(text.removeprefix("regex:"))
        assert [name for name in [*kept, *dropped] if expression.search(name)] == kept
        assert [name for name in [*kept, *dropped] if expression.fullmatch(name)] == kept

    @pytest.mark.parametrize("text", ["dom@range/", "a/b", "regex:x.*", "[top", "bottom]"])
    def test_expressions_of_ncus_own_go_through(self, text: str) -> None:
        assert Filters(nvtx=(text,)).arguments() == ["--nvtx-include", text]

    @pytest.mark.parametrize(
        ("filters", "says"),
        [
            ({"kernel": "(", "exclude": ""}, "--kernel '\\('"),
            ({"exclude": "["}, "--exclude '\\['"),
            ({"skip": -1}, "--skip -1"),
            ({"count": 0}, "--count 0"),
        ],
    )
    def test_nonsense(self, filters: dict[str, object], says: str) -> None:
        with pytest.raises(UsageError, match=says):
            Filters(**filters)  # type: ignore[arg-type]


def test_unknown_controls() -> None:
    with pytest.raises(UsageError, match="--clock-control 'boost'"):
        NcuOptions(clock_control="boost")
    with pytest.raises(UsageError, match="--cache-control"):
        NcuOptions(cache_control="some")


class TestTarget:
    def test_python_is_this_one(self, tmp_path: Path) -> None:
        script = tmp_path / "a b.py"
        script.write_text("")
        assert resolve_target([str(script), "x"]) == [sys.executable, str(script), "x"]
        assert resolve_target(["python", "-m", "x"]) == [sys.executable, "-m", "x"]

    def test_another_version_by_name_is_respected(self) -> None:
        with pytest.raises(UsageError, match="no program 'python9'"):
            resolve_target(["python9", "x.py"])

    def test_on_path(self) -> None:
        assert resolve_target(["sh", "-c", "true"])[0].endswith("/sh")

    def test_cwd_does_not_change_which_program(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "prog"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path)
        assert resolve_target(["./prog"], tmp_path / "sub") == [str(program)]
        with pytest.raises(UsageError, match="is no folder"):
            resolve_target(["./prog"], tmp_path / "absent")

    @pytest.mark.parametrize(
        ("content", "says"),
        [(b"echo hi\n", "without a #! line"), (b"#!/no/such/shell -e\n", "names /no/such/shell")],
    )
    def test_a_script_that_only_a_shell_could_start(self, tmp_path: Path, content: bytes, says: str) -> None:
        script = tmp_path / "script"
        script.write_bytes(content)
        script.chmod(0o755)
        with pytest.raises(UsageError, match=says):
            resolve_target([str(script)])

    def test_a_folder_and_a_program_beside(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(UsageError, match="is a folder"):
            resolve_target([str(tmp_path)])
        monkeypatch.chdir(tmp_path)
        (tmp_path / "my-app").write_bytes(b"\x7fELF")
        (tmp_path / "my-app").chmod(0o755)
        with pytest.raises(UsageError, match="on PATH") as raised:
            resolve_target(["my-app"])
        assert "./my-app" in raised.value.remedy

    def test_nothing(self) -> None:
        with pytest.raises(UsageError, match="no program after --"):
            resolve_target([])


@pytest.mark.parametrize("text", ["(?i)gemm", "a(?<=b)", "(?P<x>a)", r"\Agemm", "(?#x)a"])
def test_expressions_that_only_python_knows_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="ECMAScript"):
        Filters(exclude=text)


def test_ncus_own_prefix_is_not_doubled_and_lookahead_goes_through() -> None:
    assert value(Filters(kernel="regex:gemm").arguments(), "--kernel-name") == "regex:gemm"
    assert value(Filters(kernel=r"a(?!b)\(\?<").arguments(), "--kernel-name") == r"regex:a(?!b)\(\?<"
    with pytest.raises(UsageError, match="a range has a name"):
        Filters(nvtx=("",))
