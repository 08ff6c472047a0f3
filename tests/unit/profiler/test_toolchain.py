"""Finding compilers and tools, with stand-in programs at the outer edge."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from perfkit.errors import CannotError, ToolError, ToolTimeoutError, UsageError
from perfkit.profiler import toolchain
from perfkit.profiler.toolchain import (
    Compiler,
    detect_arch,
    find_compiler,
    find_tool,
    normalize_arch,
    run_tool,
)

COMPILER = Compiler("nvcc", "13.0.88", "/nvcc", ("sm_80", "sm_90", "sm_100"))


def program(folder: Path, name: str, body: str) -> Path:
    """A stand-in for a tool: a Python program called `name`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any CUDA tool; its folder of programs, on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in ("CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain, "_tool_folders", lambda: iter(()))
    monkeypatch.setattr(toolchain, "_find_nvrtc", lambda: "CuPy is not installed")
    toolchain._nvcc.cache_clear()
    return folder


@pytest.mark.parametrize("text", ["sm_90", "90", "9.0", "compute_90", " SM_90 "])
def test_normalize_arch(text: str) -> None:
    assert normalize_arch(text, COMPILER) == "sm_90"


def test_normalize_arch_keeps_a_suffix_and_three_digits() -> None:
    assert normalize_arch("sm_90a", COMPILER) == "sm_90a"
    assert normalize_arch("10.0", COMPILER) == "sm_100"
    assert normalize_arch("120") == "sm_120"


@pytest.mark.parametrize("text", ["", "hopper", "9", "sm_", "sm_9000", "9.0.1", "90 80"])
def test_normalize_arch_refuses(text: str) -> None:
    with pytest.raises(UsageError, match="is not understood"):
        normalize_arch(text)


def test_an_architecture_the_compiler_cannot_build_for() -> None:
    with pytest.raises(UsageError, match=r"nvcc 13\.0\.88 cannot build for sm_61") as caught:
        normalize_arch("6.1", COMPILER)
    assert caught.value.remedy == "It supports: sm_80, sm_90, sm_100."


@pytest.mark.usefixtures("bare")
def test_no_compiler_at_all() -> None:
    with pytest.raises(CannotError) as caught:
        find_compiler()
    assert caught.value.exit_code == 3
    assert "no nvcc on PATH" in caught.value.message
    assert "CuPy is not installed" in caught.value.message
    assert "pip install" in caught.value.remedy


def test_nvcc_without_a_host_compiler_is_named_as_such(bare: Path) -> None:
    nvcc = program(bare, "nvcc", "")
    with pytest.raises(CannotError, match="needs a host C\\+\\+ compiler") as caught:
        find_compiler()
    assert str(nvcc) in caught.value.message


def test_nvcc_falls_back_to_nvrtc(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare, "nvcc", "")
    nvrtc = Compiler("nvrtc", "13.0")
    monkeypatch.setattr(toolchain, "_find_nvrtc", lambda: nvrtc)
    assert find_compiler() is nvrtc
    with pytest.raises(CannotError, match="host C\\+\\+ compiler"):
        find_compiler("nvcc")


def test_nvcc_version_and_architectures(bare: Path) -> None:
    nvcc = program(
        bare,
        "nvcc",
        "import sys\n"
        "print('sm_75\\nsm_90' if sys.argv[1] == '--list-gpu-code' else 'release 12.8, V12.8.93')",
    )
    program(bare, "g++", "")
    assert find_compiler() == Compiler("nvcc", "12.8.93", str(nvcc), ("sm_75", "sm_90"))
    assert find_compiler("nvcc").name == "nvcc 12.8.93"


def test_a_broken_nvcc_is_quoted(bare: Path) -> None:
    program(bare, "nvcc", "import sys\nsys.exit('cannot load libfoo.so')")
    program(bare, "g++", "")
    with pytest.raises(CannotError, match=r"nvcc failed with status 1:\ncannot load libfoo\.so"):
        find_compiler()


def test_an_unknown_preference() -> None:
    with pytest.raises(UsageError, match="compiler 'clang' is not known"):
        find_compiler("clang")


def test_tools_are_found_in_cuda_home_and_among_wheels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    wheel = program(tmp_path / "site" / "nvidia" / "cu13" / "bin", "perfkit-probe", "")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    assert find_tool("perfkit-probe") == str(wheel)
    home = program(tmp_path / "home" / "bin", "perfkit-probe", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert find_tool("perfkit-probe") == str(home)
    on_path = program(tmp_path / "first", "perfkit-probe", "")
    monkeypatch.setenv("PATH", str(tmp_path / "first"))
    assert find_tool("perfkit-probe") == str(on_path)
    assert find_tool("perfkit-no-such-tool") is None


@pytest.mark.usefixtures("bare")
def test_no_disassembler() -> None:
    with pytest.raises(CannotError) as caught:
        toolchain.require_disassembler()
    assert caught.value.remedy == "Install it with: pip install nvidia-cuda-nvdisasm"


def test_detect_arch_asks_the_driver_for_the_first_visible_gpu(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bare, "nvidia-smi", "import sys\nprint('12.0' if '--id=GPU-abc' in sys.argv else '9.0\\n8.9')")
    assert detect_arch() == "sm_90"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-abc,0")
    assert detect_arch() == "sm_120"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "nvidia-smi is not on PATH"),
        ("import sys\nsys.exit('NVIDIA-SMI has failed')", "NVIDIA-SMI has failed"),
        ("print('No devices were found')", "No devices were found"),
    ],
)
def test_detect_arch_without_a_gpu(bare: Path, body: str | None, words: str) -> None:
    if body is not None:
        program(bare, "nvidia-smi", body)
    with pytest.raises(CannotError, match=words) as caught:
        detect_arch()
    assert "--arch sm_90" in caught.value.remedy


def test_detect_arch_when_every_gpu_is_hidden(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare, "nvidia-smi", "print('9.0')")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(CannotError, match="CUDA_VISIBLE_DEVICES is empty"):
        detect_arch()


def test_arguments_reach_a_tool_unchanged(tmp_path: Path) -> None:
    tool = program(tmp_path, "echo-args", "import sys\nprint(sys.argv[1:])")
    arguments = ["a b", "$HOME", "it's", '"q"', "x;y", "ü*"]
    assert run_tool([str(tool), *arguments]).strip() == str(arguments)


def test_a_tool_past_its_limit_ends_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child.pid"
    tool = program(
        tmp_path,
        "slow",
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(child)!r}, 'w').write(str(p.pid))\n"
        "time.sleep(60)",
    )
    with pytest.raises(ToolTimeoutError, match=r"slow was ended after 2 s"):
        run_tool([str(tool)], timeout=2.0)
    pid = int(child.read_text())
    for _ in range(50):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.1)
    else:
        os.kill(pid, 9)
        pytest.fail("the tool's child outlived it")


def test_a_tool_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no program")
    path.chmod(0o755)
    with pytest.raises(ToolError, match="cannot be started: Exec format error"):
        run_tool([str(path)])
