"""Frozen dataclasses that travel between rooms; no behaviour beyond their own invariants."""

from perfkit.model.kernels import Argument, BuildResult, KernelSpec, LoopMix
from perfkit.model.runs import GpuInfo, KernelRun, RunRecord, Verification
from perfkit.model.table import Cell, Column, Table
from perfkit.model.values import Counter, Dim3, Evaluated, Launch, LaunchId, MetricValue, Status

__all__ = [
    "Argument",
    "BuildResult",
    "Cell",
    "Column",
    "Counter",
    "Dim3",
    "Evaluated",
    "GpuInfo",
    "KernelRun",
    "KernelSpec",
    "Launch",
    "LaunchId",
    "LoopMix",
    "MetricValue",
    "RunRecord",
    "Status",
    "Table",
    "Verification",
]
