"""`perfkit kernels` and `perfkit build`, as a user runs them: output, files written, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfkit.commands.build import blocks_by_registers
from perfkit.errors import CannotError
from perfkit.profiler.toolchain import find_compiler


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(name="needs_compiler")
def _needs_compiler() -> None:
    try:
        find_compiler()
    except CannotError as error:
        pytest.skip(error.message)


class Perfkit:
    """Runs perfkit in a folder, without a terminal and without the driver's tools."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PERFKIT_CACHE": str(cache),
            "COLUMNS": "200",
            "CUDA_VISIBLE_DEVICES": "",
        }

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "perfkit", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture
def perfkit(tmp_path: Path, cache: Path) -> Perfkit:
    return Perfkit(tmp_path, cache)


def rows(text: str) -> list[dict[str, Any]]:
    return [
        {name: cell["value"] for name, cell in row.items()} for row in json.loads(text)["tables"][0]["rows"]
    ]


def test_kernels_lists_the_ladder(perfkit: Perfkit) -> None:
    found = rows(perfkit("kernels", "--format", "json").stdout)
    assert [row["kernel"] for row in found] == [
        "k1",
        "k2",
        "k3",
        "k4",
        "k5",
        "k6",
        "k6b",
        "k7",
        "k8",
        "cublas",
    ]
    assert found[6] == {
        "kernel": "k6b",
        "title": "two blocks per SM",
        "change": "__launch_bounds__(256, 2) and nothing else",
        "size": "n=4096",
        "origin": "built-in",
    }


@pytest.mark.usefixtures("needs_compiler")
def test_kernels_new_then_kernels_then_build(perfkit: Perfkit) -> None:
    done = perfkit("kernels", "--new")
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "wrote perfkit.toml",
        "wrote saxpy.cu",
        "wrote saxpy_reference.py",
        "try: perfkit build saxpy --arch sm_90",
    ]
    found = rows(perfkit("kernels", "saxpy", "--format", "json").stdout)
    assert [(row["kernel"], row["origin"]) for row in found] == [
        ("saxpy", str(perfkit.folder / "perfkit.toml"))
    ]
    built = perfkit("build", "saxpy", "--arch", "sm_80", "--arch", "9.0", "--format", "json", "-o", "cubins")
    assert [(row["kernel"], row["arch"], row["loop_total"]) for row in rows(built.stdout)] == [
        ("saxpy", "sm_80", None),
        ("saxpy", "sm_90", None),
    ]
    assert sorted(path.name for path in (perfkit.folder / "cubins").iterdir()) == [
        "saxpy.sm_80.cubin",
        "saxpy.sm_90.cubin",
    ]


def test_kernels_new_overwrites_nothing(perfkit: Perfkit) -> None:
    (perfkit.folder / "saxpy.cu").write_text("mine")
    done = perfkit("kernels", "--new", code=2)
    assert "saxpy.cu is there already; nothing was written" in done.stderr
    assert [path.name for path in perfkit.folder.iterdir()] == ["saxpy.cu"]
    assert (perfkit.folder / "saxpy.cu").read_text() == "mine"


def test_kernels_new_elsewhere(perfkit: Perfkit) -> None:
    done = perfkit("kernels", "--new", "sub/my.toml")
    assert "--config sub/my.toml" in done.stderr
    found = rows(perfkit("kernels", "saxpy", "--config", "sub/my.toml", "--format", "json").stdout)
    assert found[0]["origin"] == str(perfkit.folder / "sub" / "my.toml")
    assert "does not end in .toml" in perfkit("kernels", "--new", "my.cu", code=2).stderr
    assert "not also b.toml" in perfkit("kernels", "--new", "a.toml", "b.toml", code=2).stderr


@pytest.mark.usefixtures("needs_compiler")
def test_build_table(perfkit: Perfkit) -> None:
    done = perfkit("build", "k8", "cublas", "--arch", "90", "--format", "json")
    assert "cublas: a call of cublas.sgemm, nothing to build" in done.stderr
    (row,) = rows(done.stdout)
    assert (row["kernel"], row["arch"], row["static_shared_bytes"]) == ("k8", "sm_90", 16384)
    assert (row["loop_ffma"], row["loop_lds_32"], row["loop_lds_128"], row["loop_bar"]) == (512, 0, 32, 1)
    assert row["loop_ffma_share"] == 512 / row["loop_total"]
    assert row["spill_store_bytes"] == 0
    assert (
        perfkit("build", "k8", "--arch", "90", "--format", "csv")
        .stdout.splitlines()[1]
        .startswith("k8,sm_90,")
    )


@pytest.mark.usefixtures("needs_compiler")
def test_build_shows_the_register_cliff(perfkit: Perfkit) -> None:
    found = rows(perfkit("build", "k1", "k6", "k6b", "--arch", "89", "--format", "json").stdout)
    by_kernel = {row["kernel"]: row for row in found}
    for row in found:
        threads = 1024 if row["kernel"] == "k1" else 256
        assert row["blocks_by_registers"] == blocks_by_registers(row["registers"], threads)
    assert by_kernel["k6b"]["blocks_by_registers"] == 2


@pytest.mark.parametrize(
    ("registers", "threads", "blocks"),
    [
        (128, 256, 2),
        (129, 256, 1),
        (130, 256, 1),
        (120, 256, 2),
        (32, 1024, 2),
        (40, 1024, 1),
        (255, 32, 8),
        (24, 100, 21),
        (176, 64, 4),
    ],
)
def test_blocks_by_registers(registers: int, threads: int, blocks: int) -> None:
    assert blocks_by_registers(registers, threads) == blocks


@pytest.mark.usefixtures("needs_compiler")
def test_build_prints_the_loop(perfkit: Perfkit) -> None:
    out = perfkit("build", "k7", "--arch", "90", "--sass").stdout
    loop = out.partition("k7 sm_90: main loop\n")[2].splitlines()
    assert sum("FFMA" in line for line in loop) == 1024
    assert sum("LDS.128" in line for line in loop) == 64
    assert "BRA" in loop[-1]


@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("k9", "--arch", "90"), 2, "there is no kernel 'k9'"),
        (("k8", "--arch", "hopper"), 2, "architecture 'hopper' is not understood"),
        (("k8", "--arch", "3.5"), 2, "cannot build for sm_35"),
        (("cublas", "--arch", "90"), 2, "there is nothing to build"),
        (("k8",), 3, "--arch sm_90"),
        (("k1", "--arch", "90", "--flag=-DSGEMM("), 4, "kernel k1"),
        (("k1", "--arch", "90", "--compiler", "gcc"), 2, "compiler 'gcc' is not known"),
        (("k1", "--arch", "90", "--config", "gone.toml"), 2, "gone.toml: cannot be read"),
        (("k1", "--arch", "90", "--format", "yaml"), 2, "unknown format 'yaml'"),
    ],
)
def test_what_build_refuses(perfkit: Perfkit, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = perfkit("build", *arguments, code=code)
    assert words in done.stderr
    assert done.stdout == ""


def test_build_on_a_machine_without_tools(perfkit: Perfkit, tmp_path: Path) -> None:
    # No PATH, no toolkit, and an isolated interpreter path: what is missing is named, with the remedy.
    script = (
        "import sys; from perfkit.profiler import toolchain; toolchain._tool_folders = lambda: iter(());"
        "toolchain._find_nvrtc = lambda: 'NVRTC is used through CuPy, which is not installed';"
        "from perfkit.cli import main; sys.argv = ['perfkit', 'build', 'k1', '--arch', '90']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**perfkit.environment, "PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("perfkit: error: no CUDA compiler: no nvcc on PATH")
    assert "pip install" in done.stderr
