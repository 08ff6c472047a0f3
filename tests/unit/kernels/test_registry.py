"""The registry: the ladder, strangers' files, and every way such a file can be wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfkit.errors import ConfigError, UsageError
from perfkit.kernels.registry import load_registry, resolve
from perfkit.kernels.sizes import check_size, evaluate

LADDER = ["k1", "k2", "k3", "k4", "k5", "k6", "k6b", "k7", "k8", "cublas"]

GOOD = """\
[kernels.mine]
title = "my kernel"
source = "mine.cu"
entry = "ns::mine"
template = ["float", 4, true]
flags = ["-DX=1"]
grid = ["ceil(rows / 4)", 2]
block = [32, 4]
shared = "cols * 4"
size = { rows = 100, cols = 64 }
multiple_of = { cols = 32 }
flops = "2 * rows * cols"
least_bytes = 800
reference = "ref.py:mine"
rtol = 1e-5
arguments = [
    { name = "x", dtype = "float16", shape = ["rows", "cols"], fill = "uniform(-2, 2.5)" },
    { name = "y", dtype = "int64", shape = "rows * cols", direction = "inout", fill = "constant(3)" },
    { name = "s", dtype = "float64", value = 0.5 },
    { name = "r", dtype = "int32", value = "rows" },
]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.cu").write_text("__global__ void mine() {}\n")
    (tmp_path / "ref.py").write_text("def mine(): ...\n")
    return tmp_path


def test_the_ladder_in_order() -> None:
    registry = load_registry()
    assert list(registry) == LADDER
    assert all(spec.origin == "built-in" and spec.title and spec.change for spec in registry.values())


@pytest.mark.parametrize(
    ("key", "grid", "block"),
    [
        *((key, [128, 128], [32, 32]) for key in ("k1", "k2", "k3")),
        ("k4", [64, 64], [512]),
        *((key, [32, 32], [256]) for key in ("k5", "k6", "k6b", "k7", "k8")),
    ],
)
def test_the_ladder_at_4096(key: str, grid: list[int], block: list[int]) -> None:
    spec = load_registry()[key]
    size = check_size(spec, {"n": 4096})
    assert [evaluate(side, size) for side in spec.grid] == grid
    assert [evaluate(side, size) for side in spec.block] == block
    assert evaluate(spec.flops, size) == 137438953472
    assert evaluate(spec.least_bytes, size) == 201326592
    assert Path(spec.source).is_file()
    assert [(a.name, a.dtype, a.direction) for a in spec.arguments] == [
        ("A", "float32", "in"),
        ("B", "float32", "in"),
        ("C", "float32", "out"),
        ("n", "int32", "in"),
    ]
    with pytest.raises(UsageError, match="n = 1000 is not a multiple of 128"):
        check_size(spec, {"n": 1000})


def test_cublas_is_a_library_call() -> None:
    spec = load_registry()["cublas"]
    assert (spec.library, spec.source, spec.entry, spec.grid) == ("cublas.sgemm", "", "", ())


def test_k6b_is_k6_but_for_its_launch_bounds() -> None:
    registry = load_registry()
    code = [
        line
        for line in Path(registry["k6b"].source).read_text().splitlines()
        if line and not line.startswith("//")
    ]
    assert code == [
        "#define SGEMM_ENTRY sgemm_k6b",
        "#define SGEMM_BOUNDS __launch_bounds__(256, 2)",
        f'#include "{Path(registry["k6"].source).name}"',
    ]


def test_a_strangers_kernel(folder: Path) -> None:
    (folder / "perfkit.toml").write_text(GOOD)
    registry = load_registry()
    assert list(registry) == [*LADDER, "mine"]
    spec = registry["mine"]
    assert spec.source == str(folder / "mine.cu")
    assert spec.origin == str(folder / "perfkit.toml")
    assert spec.template == ("float", "4", "true")
    assert spec.flags == ("-DX=1",)
    assert (spec.grid, spec.block, spec.shared) == (("ceil(rows / 4)", "2"), ("32", "4"), "cols * 4")
    assert dict(spec.size) == {"rows": 100, "cols": 64}
    assert spec.reference == "ref.py:mine"
    assert (spec.rtol, spec.atol) == (1e-5, 0.0)
    x, y, s, r = spec.arguments
    assert (x.shape, x.fill, x.direction) == (("rows", "cols"), "uniform(-2, 2.5)", "in")
    assert (y.shape, y.fill, y.direction) == (("rows * cols",), "constant(3)", "inout")
    assert (s.is_array, s.value, r.value) == (False, "0.5", "rows")


def test_a_file_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (folder / "perfkit.toml").write_text("broken")
    other = tmp_path_factory.mktemp("other")
    (other / "mine.cu").write_text("")
    (other / "kernels.toml").write_text('[kernels.a]\nsource="mine.cu"\nentry="a"\ngrid=[1]\nblock=[1]\n')
    assert load_registry(other / "kernels.toml")["a"].source == str(other / "mine.cu")


def test_defaults_are_shared_and_overridden(folder: Path) -> None:
    (folder / "perfkit.toml").write_text(
        '[defaults]\nsource = "mine.cu"\ngrid = [1]\nblock = [64]\nsize = { m = 8 }\n'
        '[kernels.a]\nentry = "a"\n[kernels.b]\nentry = "b"\nblock = [128]\n'
    )
    registry = load_registry()
    assert registry["a"].block == ("64",)
    assert registry["b"].block == ("128",)
    assert dict(registry["b"].size) == {"m": 8}


# What is replaced in GOOD, the line the error names, and words of message and remedy.
FAULTS = [
    ('title = "my kernel"', "title = 3", 2, "title: must be a string, not 3"),
    ('title = "my kernel"', 'tilte = "x"', 2, "tilte: is not a known key"),
    ('title = "my kernel"', 'tilte = "x"', 2, "Did you mean title?"),
    ('source = "mine.cu"', 'source = "gone.cu"', 3, "source: there is no file"),
    ('source = "mine.cu"', "", 1, "source: is missing"),
    ('entry = "ns::mine"', "", 1, "entry: is missing"),
    ('entry = "ns::mine"', 'entry = "mine<float>"', 4, "entry: 'mine<float>' is not the name of a function"),
    (
        'template = ["float", 4, true]',
        "template = [[1]]",
        5,
        "template: must be a list of strings or numbers",
    ),
    ('grid = ["ceil(rows / 4)", 2]', "", 1, "grid: has 0 dimensions"),
    ('grid = ["ceil(rows / 4)", 2]', "grid = [1, 2, 3, 4]", 7, "grid: has 4 dimensions"),
    ('grid = ["ceil(rows / 4)", 2]', 'grid = ["row"]', 7, "row is no name of the problem size"),
    ('grid = ["ceil(rows / 4)", 2]', 'grid = ["row"]', 7, "Did you mean rows?"),
    (
        'grid = ["ceil(rows / 4)", 2]',
        'grid = ["import os"]',
        7,
        "grid: expression 'import os' is not well formed",
    ),
    ('shared = "cols * 4"', 'shared = ["1", "2"]', 9, "shared: must be one number of bytes"),
    ("size = { rows = 100, cols = 64 }", "size = 4", 10, "size: must be a table"),
    (
        "size = { rows = 100, cols = 64 }",
        "size = { rows = 0 }",
        10,
        "rows must be a whole number of at least 1",
    ),
    ("size = { rows = 100, cols = 64 }", 'size = { "a b" = 1 }', 10, "'a b' cannot be used in an expression"),
    ("multiple_of = { cols = 32 }", "multiple_of = { z = 32 }", 11, "z is no name of the size"),
    ('flops = "2 * rows * cols"', 'flops = ["1", "2"]', 12, "flops: must be one number or one expression"),
    ('reference = "ref.py:mine"', 'reference = "mine"', 14, "'mine' is not understood"),
    ('reference = "ref.py:mine"', 'reference = "gone.py:mine"', 14, "there is no file gone.py"),
    ("rtol = 1e-5", "rtol = -1", 15, "rtol: must be a number of at least 0"),
    ("rtol = 1e-5", "rtol = nan", 15, "rtol: must be a number of at least 0"),
    ('name = "r", dtype', 'name = "x", dtype', 16, "x is there twice"),
    ('name = "r", dtype = "int32"', 'name = "r", dtype = "int"', 16, "r: dtype 'int' is not known"),
    ('name = "r", dtype', 'name = "r r", dtype', 16, "name = 'r r' is no name"),
    ('value = "rows"', 'vaule = "rows"', 16, "r: vaule is not a known key"),
    ('value = "rows"', 'value = "rows", shape = [1]', 16, "r: needs either a shape"),
    ('value = "rows"', "value = true", 16, "r: True is neither a number nor an expression"),
    ('value = "rows"', 'value = "rows", direction = "out"', 16, "r: a scalar has no fill, and goes in"),
    ('value = "rows"', "shape = []", 16, "r: shape is empty"),
    ('fill = "constant(3)"', 'fill = "random"', 16, "y: fill 'random' is not understood"),
    ('fill = "uniform(-2, 2.5)"', 'fill = "uniform(3, 2)"', 16, "x: fill 'uniform(3, 2)' is not understood"),
    ('direction = "inout"', 'direction = "both"', 16, "y: direction 'both' is not known"),
    ("[kernels.mine]", "[kernels.k6]", 1, "is the key of a built-in kernel"),
    ("[kernels.mine]", '[kernels."a@2"]', 1, "a kernel's key is letters, digits"),
    ("[kernels.mine]", "[kernel.mine]", 1, "kernel: is not a known key"),
    ("[kernels.mine]", '[kernels.mine]\nlibrary = "mkl"', 2, "library: 'mkl' is not known"),
    ("[kernels.mine]", '[kernels.mine]\nlibrary = "cublas.sgemm"', 4, "either a source or a library"),
    ("[kernels.mine]", "[defaults]\nfoo = 1\n[kernels.mine]", 2, "[defaults] foo: is not a known key"),
    ("[kernels.mine]", "[defaults]\natol = -1\n[kernels.mine]", 2, "[defaults] atol: must be a number"),
    ("rtol = 1e-5", "rtol = inf", 15, "rtol: must be a number"),
    ("[kernels.mine]", "[kernels.all]", 1, "stands for several kernels"),
    # What cannot be launched at the default size.
    ("block = [32, 4]", "block = [64, 32]", 8, "block is (64, 32) at rows=100,cols=64: 2048 threads"),
    ("ceil(rows / 4)", "rows / 3", 7, "not a whole number"),
    ("ceil(rows / 4)", "rows - 100", 7, "grid is (0, 2)"),
    ('shared = "cols * 4"', 'shared = "-cols"', 9, "shared = -cols is -64"),
    ("cols = 32 }", "cols = 48 }", 11, "cols = 64 is not a multiple of 48"),
    ('flops = "2 * rows * cols"', 'flops = "0 - rows"', 12, "flops: is negative"),
    ('"rows * cols", direction', '"rows - 100", direction', 16, "shape of y = rows - 100 is 0"),
    ('value = "rows"', 'value = "rows * 2 ** 31"', 16, "r = rows * 2 ** 31 is 214748364800"),
    ('value = "rows"', 'value = "rows / 3"', 16, "not a whole number"),
    ('fill = "constant(3)"', 'fill = "constant(3.5)"', 16, "int64 cannot hold 3.5"),
    ('fill = "constant(3)"', 'fill = "constant(1e300)"', 16, "int64 cannot hold 1e+300"),
    ('fill = "constant(3)"', 'fill = "constant(-9e999)"', 16, "int64 cannot hold -inf"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), FAULTS)
def test_a_fault_names_file_key_and_line(folder: Path, old: str, new: str, line: int, words: str) -> None:
    assert GOOD.count(old) == 1
    file = folder / "perfkit.toml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_registry()
    assert caught.value.message.startswith(f"{file}:{line}: ")
    assert words in f"{caught.value.message}\n{caught.value.remedy}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[kernels.a\n", "not valid TOML: Expected ']'"),
        (b"[kernels.a]\nx = \n", "line 2"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"kernels = 3\n", "toml:1: kernels: must be a table, not 3"),
        (b"[kernels]\na = 3\n", "perfkit.toml:2: [kernels] a: must be a table, not 3"),
    ],
)
def test_a_file_that_is_no_registry(folder: Path, content: bytes, words: str) -> None:
    (folder / "perfkit.toml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_registry()
    assert str(folder / "perfkit.toml") in caught.value.message
    assert words in caught.value.message


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{tmp_path / 'no.toml'}: cannot be read (No such file")):
        load_registry(tmp_path / "no.toml")


def test_resolve() -> None:
    registry = load_registry()
    assert [spec.key for spec in resolve(["k6b", "k6", "k6b"], registry)] == ["k6b", "k6"]
    assert [spec.key for spec in resolve(["k6*"], registry)] == ["k6", "k6b"]
    assert [spec.key for spec in resolve(["ladder"], registry)] == LADDER
    assert [spec.key for spec in resolve(["cublas", "all"], registry)] == ["cublas", *LADDER[:-1]]


def test_resolve_offers_near_matches() -> None:
    with pytest.raises(UsageError, match="there is no kernel 'cubla'") as caught:
        resolve(["k1", "cubla"], load_registry())
    assert "Did you mean cublas?" in caught.value.remedy
    with pytest.raises(UsageError, match="no kernel 'z\\*'"):
        resolve(["z*"], load_registry())
    with pytest.raises(UsageError, match="no kernel was named"):
        resolve([], load_registry())
