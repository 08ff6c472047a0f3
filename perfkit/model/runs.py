"""A run on disk: what `run.json` of a run folder says. Written by profiler/run_store.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """The GPU that ran, by UUID: CUDA_VISIBLE_DEVICES renumbers the indices."""

    name: str
    uuid: str
    compute_capability: tuple[int, int]
    sm_count: int
    driver: str = ""
    cuda: str = ""  # version of the CUDA runtime used
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of comparing a kernel's output with its reference."""

    passed: bool
    reference: str  # "cuBLAS SGEMM"
    bit_equal: bool
    max_abs_difference: float
    float64_entries: int = 0  # entries compared with a float64 dot product on the CPU
    float64_max_abs_error: float = 0.0
    message: str = ""


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One kernel of a run at one problem size. `label` is the key with `@B` when held to B blocks an SM."""

    key: str
    label: str
    title: str
    problem: str  # "n=4096"
    size: Mapping[str, int]
    flops: float
    least_bytes: float
    launches: int = 0  # profiled launches under this label (a library call may make several)
    blocks_per_sm: int | None = None
    ballast_bytes: int = 0  # unused dynamic shared memory asked for to hold it to blocks_per_sm
    build: Mapping[str, Any] | None = None  # model.kernels.BuildResult as a dict
    verification: Verification | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """`run.json`. `status`: complete, failed, interrupted, timeout. A folder without run.json is
    incomplete.
    """

    id: str
    what: str  # profile, bench
    status: str
    command: tuple[str, ...]
    started: str  # ISO 8601, UTC
    ended: str
    perfkit_version: str
    gpu: GpuInfo | None
    versions: Mapping[str, str]  # ncu, cuda, driver, cupy, python, compiler
    options: Mapping[str, Any]  # clock_control, cache_control, sets, passes, seed, ...
    kernels: tuple[KernelRun, ...]
    reports: tuple[str, ...] = ()  # .ncu-rep files, relative to the folder
    samples: tuple[str, ...] = ()  # raw samples and clock logs, relative to the folder
    results: tuple[Mapping[str, Any], ...] = ()  # bench results (model.bench.BenchResult as dicts)
    messages: tuple[str, ...] = ()
    path: str = ""  # the folder, filled in when read
    schema_version: int = SCHEMA_VERSION
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
