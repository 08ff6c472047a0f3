"""Frozen dataclasses that travel between rooms; no behaviour beyond their own invariants."""

from perfkit.model.bench import (
    Batch,
    BenchResult,
    PairComparison,
    PairSamples,
    SelfTest,
    SensorSample,
    SensorSummary,
    Timing,
)
from perfkit.model.explain import (
    Comparison,
    Evidence,
    Factor,
    Intervention,
    PeakLoss,
    Side,
    SourceLine,
    Verdict,
    VerdictKind,
    WallClock,
    Waterfall,
    WaterfallStep,
)
from perfkit.model.kernels import Argument, BuildResult, KernelSpec, LoopMix
from perfkit.model.report import Report
from perfkit.model.rules import Finding, Rule, RuleOutcome
from perfkit.model.runs import GpuInfo, KernelRun, RunRecord, Verification
from perfkit.model.table import Cell, Column, Table
from perfkit.model.values import Counter, Dim3, Evaluated, Launch, LaunchId, MetricValue, Status

__all__ = [
    "Argument",
    "Batch",
    "BenchResult",
    "BuildResult",
    "Cell",
    "Column",
    "Comparison",
    "Counter",
    "Dim3",
    "Evaluated",
    "Evidence",
    "Factor",
    "Finding",
    "GpuInfo",
    "Intervention",
    "KernelRun",
    "KernelSpec",
    "Launch",
    "LaunchId",
    "LoopMix",
    "MetricValue",
    "PairComparison",
    "PairSamples",
    "PeakLoss",
    "Report",
    "Rule",
    "RuleOutcome",
    "RunRecord",
    "SelfTest",
    "SensorSample",
    "SensorSummary",
    "Side",
    "SourceLine",
    "Status",
    "Table",
    "Timing",
    "Verdict",
    "VerdictKind",
    "Verification",
    "WallClock",
    "Waterfall",
    "WaterfallStep",
]
