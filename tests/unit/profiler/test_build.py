"""Building for real: the ladder on five architectures, the cache, strangers' kernels, compile errors."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perfkit.errors import CannotError, CompileError, ToolError, UsageError
from perfkit.kernels.registry import load_registry, resolve
from perfkit.model import BuildResult, KernelSpec, LoopMix
from perfkit.profiler.build import build, build_many, cache_folder, source_hash
from perfkit.profiler.compiling import parse_resources, whole_elf
from perfkit.profiler.toolchain import Compiler, find_compiler

ARCHS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.fixture(scope="session")
def nvcc() -> Compiler:
    try:
        return find_compiler("nvcc")
    except CannotError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def nvrtc() -> Compiler:
    try:
        return find_compiler("nvrtc")
    except CannotError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # One cache for all workers of pytest-xdist, so that none builds what another has built.
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "build-cache"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("arch", ARCHS)
def test_the_ladder(nvcc: Compiler, cache: Path, arch: str) -> None:
    jobs = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
    specs = resolve(["ladder"], load_registry())
    results = build_many(specs, arch, compiler=nvcc, cache=cache, jobs=jobs)
    ladder = {result.key: result for result in results}
    assert list(ladder) == ["k1", "k2", "k3", "k4", "k5", "k6", "k6b", "k7", "k8"]
    check_every_kernel(ladder)
    check_shared_memory(ladder)
    check_registers(ladder)
    check_loops(ladder)


Ladder = dict[str, BuildResult]


def check_every_kernel(ladder: Ladder) -> None:
    for key, result in ladder.items():
        assert (result.spill_store_bytes, result.spill_load_bytes, result.stack_bytes) == (0, 0, 0), key
        assert result.warnings == ""
        assert result.symbol == f"sgemm_{key}"
        assert Path(result.cubin).read_bytes().startswith(b"\x7fELF")


def check_shared_memory(ladder: Ladder) -> None:
    # Two 32 x 32 tiles; 64 x 8 and 8 x 64; 128 x 8 and 8 x 128, twice in k8.
    assert {key: result.static_shared_bytes for key, result in ladder.items()} == {
        **{"k1": 0, "k2": 0, "k3": 8192, "k4": 4096},
        **{"k5": 8192, "k6": 8192, "k6b": 8192, "k7": 8192, "k8": 16384},
    }


def check_registers(ladder: Ladder) -> None:
    """Two blocks of k6b, k7 and k8 fit on an SM; of k6 only one, where the compiler is known to do so."""
    for key in ("k6b", "k7", "k8"):
        assert ladder[key].registers <= 65536 // (2 * 256), key
    k6 = ladder["k6"]
    if k6.compiler.startswith("nvcc 13.0."):
        assert k6.registers == (130 if k6.arch in ("sm_80", "sm_89", "sm_90") else 127)


def check_loops(ladder: Ladder) -> None:
    def loop(key: str) -> LoopMix:
        mix = ladder[key].loop
        assert mix is not None, key
        return mix

    k3, k4, k5, k8 = loop("k3"), loop("k4"), loop("k5"), loop("k8")
    # k3: 1.25 shared loads an FMA; k4: 2.67 FMAs a shared load.
    assert (k3.ffma, k3.lds, k3.barriers) == (32, {32: 32, 128: 8}, 2)
    assert (k4.ffma, k4.lds, k4.barriers) == (64, {32: 8, 128: 16}, 2)
    assert (k5.ffma, k5.lds, k5.ldg, k5.sts, k5.barriers) == (512, {32: 128}, {32: 8}, {32: 8}, 2)
    for key in ("k6", "k6b", "k7"):
        # Two slices an iteration: of each 512 FFMA, 32 LDS.128, STS of A (transposed) and B.
        mix = loop(key)
        assert (mix.ffma, mix.lds, mix.ldg, mix.barriers) == (1024, {128: 64}, {128: 4}, 4), key
        assert mix.sts == {32: 8, 128: 2}, key
    assert (k8.ffma, k8.lds, k8.ldg, k8.sts, k8.barriers) == (512, {128: 32}, {128: 2}, {32: 4, 128: 1}, 1)
    assert k8.total == 512 + 32 + 2 + 5 + 1 + k8.other
    assert k8.other < 30


@pytest.fixture
def saxpy(tmp_path: Path) -> KernelSpec:
    source = tmp_path / "saxpy.cu"
    source.write_text(
        '#include "scale.cuh"\n'
        'extern "C" __global__ void saxpy(int n, float a, const float* x, float* y)\n'
        "{ int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = SCALE * a * x[i] + y[i]; }\n"
    )
    (tmp_path / "scale.cuh").write_text("#define SCALE 1\n")
    return KernelSpec("saxpy", "saxpy", str(source), "saxpy", grid=("1",), block=("256",))


def test_cache_hit(saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path) -> None:
    first = build(saxpy, "90", compiler=nvcc, cache=tmp_path / "c")
    again = build(saxpy, "sm_90", compiler=nvcc, cache=tmp_path / "c")
    assert (first.cached, again.cached) == (False, True)
    assert again == dataclasses.replace(first, cached=True)
    assert first.loop is None
    assert first.opcodes["FFMA"] == 1
    assert (first.arch, first.compiler) == ("sm_90", nvcc.name)
    assert first.flags == ("-O3", "-lineinfo")
    assert json.dumps(dataclasses.asdict(again))  # a run's record holds it


def test_a_loop_survives_the_cache(nvcc: Compiler, tmp_path: Path) -> None:
    k3 = load_registry()["k3"]
    first = build(k3, "sm_90", compiler=nvcc, cache=tmp_path)
    again = build(k3, "sm_90", compiler=nvcc, cache=tmp_path)
    assert again.cached
    assert again.loop == first.loop
    assert again.loop is not None


def test_what_decides_the_cubin_misses_the_cache(saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path) -> None:
    def rebuilt(spec: KernelSpec = saxpy, arch: str = "sm_90", flags: tuple[str, ...] = ()) -> BuildResult:
        return build(spec, arch, compiler=nvcc, cache=tmp_path / "c", extra_flags=flags)

    first = rebuilt()
    assert not rebuilt(arch="sm_80").cached
    assert not rebuilt(flags=("-DSCALE_MORE",)).cached
    assert rebuilt(dataclasses.replace(saxpy, title="another title")).cached
    (tmp_path / "scale.cuh").write_text("#define SCALE 2\n")
    changed = rebuilt()
    assert not changed.cached
    assert changed.source_hash != first.source_hash
    assert Path(changed.cubin).read_bytes() != Path(first.cubin).read_bytes()
    (tmp_path / "scale.cuh").write_text("#define SCALE 1\n")
    assert rebuilt().cached


def test_a_damaged_cache_entry_is_built_again(saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path) -> None:
    first = build(saxpy, "90", compiler=nvcc, cache=tmp_path / "c")
    for name, content in (("build.json", "{"), ("kernel.cubin", None)):
        file = Path(first.cubin).with_name(name)
        if content is None:
            file.unlink()
        else:
            file.write_text(content)
        again = build(saxpy, "90", compiler=nvcc, cache=tmp_path / "c")
        assert again == first
        assert Path(again.cubin).is_file()


def test_parallel_builds_of_one_kernel(saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: build(saxpy, "90", compiler=nvcc, cache=tmp_path / "c"), range(4)))
    same = dataclasses.replace(results[0], cached=False)
    assert [dataclasses.replace(result, cached=False) for result in results] == [same] * 4
    left = [path.name for path in (tmp_path / "c").iterdir()]
    assert len(left) == 1, "temporary folders were left behind"
    assert not left[0].startswith("new-")


def test_an_unwritable_cache(saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotError, match=r"the build cache .* cannot be written") as caught:
        build(saxpy, "90", compiler=nvcc, cache=tmp_path / "file" / "c")
    assert "PERFKIT_CACHE" in caught.value.remedy


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "build"
    monkeypatch.delenv("PERFKIT_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "perfkit" / "build"


def test_a_compile_error_is_the_compilers_own_with_file_and_line(
    saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path
) -> None:
    source = Path(saxpy.source)
    source.write_text(source.read_text().replace("x[i] +", "z[i] +"))
    with pytest.raises(CompileError) as caught:
        build(saxpy, "90", compiler=nvcc, cache=tmp_path / "c")
    message = caught.value.message
    assert message.startswith(f"kernel saxpy ({source}) does not compile for sm_90 with {nvcc.name}:")
    assert f'{source}(3): error: identifier "z" is undefined' in message
    assert caught.value.exit_code == 4
    assert not (tmp_path / "c").exists()


def test_warnings_are_kept_in_the_cache(saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path) -> None:
    source = Path(saxpy.source)
    source.write_text(source.read_text().replace("{ int i", "{ int unused; int i"))
    for _ in range(2):
        result = build(saxpy, "90", compiler=nvcc, cache=tmp_path / "c")
        assert 'variable "unused" was declared but never referenced' in result.warnings
        assert "ptxas info" not in result.warnings
    assert result.cached


TEMPLATES = """\
namespace ns {
template <class T, int N> __global__ void scale(T* x) { for (int k = 0; k < N; ++k) x[k * 32] *= 2; }
template __global__ void scale<double, 2>(double*);
__global__ void scaled(float* x) { *x = 1; }
}
__global__ void plain(float* x) { *x = 2; }
__global__ void plain2(float* x) { *x = 3; }
extern "C" __global__ void c_name(float* x) { *x = 4; }
"""


@pytest.fixture
def templates(tmp_path: Path) -> Callable[..., KernelSpec]:
    source = tmp_path / "templates.cu"
    source.write_text(TEMPLATES)
    return lambda entry, *template: KernelSpec("t", "t", str(source), entry, template=template)


@pytest.mark.parametrize("kind", ["nvcc", "nvrtc"])
@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        (("ns::scale", "float", "4"), "_ZN2ns5scaleIfLi4EEEvPT_"),
        (("ns::scale", "double", "2"), "_ZN2ns5scaleIdLi2EEEvPT_"),
        (("ns::scaled",), "_ZN2ns6scaledEPf"),
        (("plain",), "_Z5plainPf"),
        (("c_name",), "c_name"),
    ],
)
def test_the_mangled_entry_is_found(
    request: pytest.FixtureRequest,
    templates: Callable[..., KernelSpec],
    tmp_path: Path,
    kind: str,
    name: tuple[str, ...],
    symbol: str,
) -> None:
    compiler: Compiler = request.getfixturevalue(kind)
    result = build(templates(*name), "90", compiler=compiler, cache=tmp_path / "c")
    assert result.symbol == symbol


def test_an_entry_that_is_not_there(
    templates: Callable[..., KernelSpec], nvcc: Compiler, tmp_path: Path
) -> None:
    with pytest.raises(CompileError, match=r"holds no kernel gone; its kernels: .*c_name"):
        build(templates("gone"), "90", compiler=nvcc, cache=tmp_path / "c")
    with pytest.raises(CompileError, match=r'no member "gone"|identifier "gone"'):
        build(templates("gone", "int"), "90", compiler=nvcc, cache=tmp_path / "c")


@pytest.mark.parametrize("flags", [("-Iinc",), ("-I", "inc"), ("--include-path=inc",)])
def test_include_folders_are_relative_to_the_source_and_part_of_the_key(
    saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    monkeypatch.chdir("/")
    (tmp_path / "inc").mkdir()
    (tmp_path / "scale.cuh").rename(tmp_path / "inc" / "scale.cuh")
    spec = dataclasses.replace(saxpy, flags=flags)
    assert not build(spec, "90", compiler=nvcc, cache=tmp_path / "c").cached
    (tmp_path / "inc" / "scale.cuh").write_text("#define SCALE 3\n")
    assert not build(spec, "90", compiler=nvcc, cache=tmp_path / "c").cached


def test_source_hash_follows_includes_and_macro_includes(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text('#include "b.cuh"\n#include <cuda_fp16.h>\n  #  include "gone.h"\n')
    (tmp_path / "b.cuh").write_text('#include "a.cu"\n#include HEADER\n')
    (tmp_path / "c.h").write_text("1")
    (tmp_path / "notes.txt").write_text("1")
    first = source_hash(tmp_path / "a.cu")
    (tmp_path / "notes.txt").write_text("2")
    assert source_hash(tmp_path / "a.cu") == first
    (tmp_path / "c.h").write_text("2")
    assert source_hash(tmp_path / "a.cu") != first


def test_a_library_call_is_not_built(nvcc: Compiler) -> None:
    registry = load_registry()
    with pytest.raises(UsageError, match=r"kernel cublas is a call of cublas\.sgemm"):
        build(registry["cublas"], "90", compiler=nvcc)
    assert build_many([registry["cublas"]], "90", compiler=nvcc) == []


def test_build_many_raises_for_the_first_that_fails(
    saxpy: KernelSpec, nvcc: Compiler, tmp_path: Path
) -> None:
    bad = dataclasses.replace(saxpy, key="bad", entry="gone")
    done: list[str] = []
    with pytest.raises(CompileError, match="kernel bad"):
        build_many(
            [saxpy, bad],
            "90",
            compiler=nvcc,
            cache=tmp_path / "c",
            done=lambda result: done.append(result.key),
        )
    assert done == ["saxpy"]


def test_the_example_builds(nvcc: Compiler, tmp_path: Path) -> None:
    from perfkit.commands.kernels import write_example

    write_example(tmp_path / "perfkit.toml", [])
    spec = load_registry(tmp_path / "perfkit.toml")["saxpy"]
    result = build(spec, "sm_80", compiler=nvcc, cache=tmp_path / "c")
    assert result.symbol == "_Z5saxpyIfLi256EEviT_PKS0_PS0_"
    assert result.opcodes["FFMA"] == 1


def test_nvrtc_gives_the_same_loop(nvrtc: Compiler, tmp_path: Path) -> None:
    result = build(load_registry()["k8"], "sm_90", compiler=nvrtc, cache=tmp_path)
    assert result.loop is not None
    assert (result.loop.ffma, result.loop.lds, result.loop.barriers) == (512, {128: 32}, 1)
    assert result.registers <= 128
    assert result.static_shared_bytes == 16384
    assert result.compiler.startswith("nvrtc 1")
    assert result.warnings == ""


def test_nvrtc_compile_error(saxpy: KernelSpec, nvrtc: Compiler, tmp_path: Path) -> None:
    Path(saxpy.source).write_text("\n__global__ void saxpy(float* x) { y = 1; }\n")
    with pytest.raises(CompileError) as caught:
        build(saxpy, "90", compiler=nvrtc, cache=tmp_path / "c")
    assert f'{saxpy.source}(2): error: identifier "y" is undefined' in caught.value.message


LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compiling entry function 'kernel' for 'sm_90'
ptxas info    : Function properties for helper
    96 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads
ptxas info    : Function properties for kernel
    16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 4096 bytes smem
"""


def test_resources_are_those_of_the_kernel() -> None:
    found = parse_resources(LOG, "kernel")
    assert dataclasses.asdict(found) == {
        "registers": 40,
        "static_shared_bytes": 4096,
        "stack_bytes": 16,
        "spill_store_bytes": 12,
        "spill_load_bytes": 24,
    }
    with pytest.raises(ToolError, match="does not say what kernel gone uses"):
        parse_resources(LOG, "gone")


def test_spills_of_a_real_kernel(nvcc: Compiler, tmp_path: Path) -> None:
    # 128 live floats do not fit into 32 registers.
    result = build(
        load_registry()["k6"], "sm_90", compiler=nvcc, cache=tmp_path, extra_flags=("-maxrregcount=64",)
    )
    assert result.registers <= 64
    assert result.spill_store_bytes > 0
    assert result.spill_load_bytes > 0
    assert result.opcodes["STL"] > 0


def test_the_byte_that_cupy_strips(nvcc: Compiler, cache: Path) -> None:
    cubin = Path(build(load_registry()["k1"], "sm_90", compiler=nvcc, cache=cache).cubin).read_bytes()
    assert whole_elf(cubin) == cubin
    if cubin.endswith(b"\0"):
        assert whole_elf(cubin[:-1]) == cubin


@pytest.fixture(autouse=True)
def _no_real_cache(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("PERFKIT_CACHE", str(cache / "env"))
