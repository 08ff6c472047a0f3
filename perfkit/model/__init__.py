"""Frozen dataclasses that travel between rooms; no behaviour beyond their own invariants.

Making a dataclass takes Python a millisecond, and there are fifty: each is made when it is first asked for,
because every command and every reading process would otherwise start with all of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        RegisterLimit,
        SelfCheck,
        Side,
        SourceLine,
        Verdict,
        VerdictKind,
        Verified,
        WallClock,
        Waterfall,
        WaterfallStep,
    )
    from perfkit.model.kernels import Argument, BuildResult, KernelSpec, LoopMix
    from perfkit.model.report import REPORT_SUFFIXES, Report
    from perfkit.model.rules import Finding, Rule, RuleOutcome
    from perfkit.model.runs import GpuInfo, KernelRun, RunRecord, Verification
    from perfkit.model.table import Cell, Column, Table
    from perfkit.model.values import (
        Contradiction,
        Counter,
        Device,
        Dim3,
        Evaluated,
        Launch,
        LaunchId,
        MetricValue,
        Process,
        Status,
        WorkloadKind,
    )

__all__ = [
    "REPORT_SUFFIXES",
    "Argument",
    "Batch",
    "BenchResult",
    "BuildResult",
    "Cell",
    "Column",
    "Comparison",
    "Contradiction",
    "Counter",
    "Device",
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
    "Process",
    "RegisterLimit",
    "Report",
    "Rule",
    "RuleOutcome",
    "RunRecord",
    "SelfCheck",
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
    "Verified",
    "WallClock",
    "Waterfall",
    "WaterfallStep",
    "WorkloadKind",
]

_MODULES = {
    "bench": ("Batch BenchResult PairComparison PairSamples SelfTest SensorSample SensorSummary Timing "),
    "explain": (
        "Comparison "
        "Evidence "
        "Factor "
        "Intervention "
        "PeakLoss "
        "RegisterLimit "
        "SelfCheck "
        "Side "
        "SourceLine "
        "Verdict "
        "VerdictKind "
        "Verified "
        "WallClock "
        "Waterfall "
        "WaterfallStep "
    ),
    "kernels": "Argument BuildResult KernelSpec LoopMix",
    "report": "REPORT_SUFFIXES Report",
    "rules": "Finding Rule RuleOutcome",
    "runs": "GpuInfo KernelRun RunRecord Verification",
    "table": "Cell Column Table",
    "values": (
        "Contradiction Counter Device Dim3 Evaluated Launch LaunchId MetricValue Process Status WorkloadKind "
    ),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found
