"""What perfkit knows of a kernel before it runs: its registry entry and what building it gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument. Arrays have a shape (expressions of the problem size); scalars have a value.

    `direction`: in, out, inout. `fill`: uniform(lo, hi), zeros, ones, arange, constant(x), none (poisoned
    with NaN).
    """

    name: str
    dtype: str  # numpy name: float32, int32, ...
    shape: tuple[str, ...] = ()
    direction: str = "in"
    fill: str = ""
    value: str = ""  # scalars: expression of the problem size

    @property
    def is_array(self) -> bool:
        return bool(self.shape)


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A registry entry, built-in or of a perfkit.toml. Grid, block, shared: expressions of the size."""

    key: str
    title: str
    source: str  # absolute path of the .cu file; "" for a library call
    entry: str
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = "0"  # dynamic shared memory, bytes
    arguments: tuple[Argument, ...] = ()
    flags: tuple[str, ...] = ()
    template: tuple[str, ...] = ()
    change: str = ""  # what changed against the kernel before it
    library: str = ""  # "cublas.sgemm": called through CuPy instead of built
    flops: str = ""  # work model, expressions of the size
    least_bytes: str = ""
    size: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({"n": 4096})
    )  # names and defaults
    multiple_of: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    reference: str = ""  # "cublas.sgemm" or "file.py:function"
    rtol: float = 0.0
    atol: float = 0.0
    origin: str = "built-in"  # or the path of the perfkit.toml


@dataclass(frozen=True, slots=True)
class LoopMix:
    """SASS of the main loop: instructions per iteration by class, from NVIDIA's own disassembler.

    `other` is everything that is none of FFMA, LDS, STS, LDG or BAR; `opcodes` splits it up. A predicated
    instruction counts as one.
    """

    total: int
    ffma: int
    lds: Mapping[int, int]  # access width in bits -> count
    sts: Mapping[int, int]
    ldg: Mapping[int, int]
    barriers: int
    other: int
    opcodes: Mapping[str, int] = field(default_factory=dict)  # base opcode -> count


@dataclass(frozen=True, slots=True)
class BuildResult:
    """One kernel built for one architecture."""

    key: str
    arch: str  # sm_90
    compiler: str  # "nvcc 13.0.88" or "nvrtc 13.0"
    flags: tuple[str, ...]
    source_hash: str  # sha256 of the source with everything it includes from its folder
    cubin: str  # path
    symbol: str  # the (mangled) entry in the cubin
    registers: int
    static_shared_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    loop: LoopMix | None  # None: the kernel has no loop
    cached: bool = False
    opcodes: Mapping[str, int] = field(default_factory=dict)  # whole kernel, static count
    warnings: str = ""  # the compiler's own words
