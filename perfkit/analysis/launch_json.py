"""The JSON of `perfkit show --format json`; docs/json-schema.md describes it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from perfkit.model import Contradiction, Counter, Evaluated, MetricValue, Process, Report

SCHEMA_VERSION = 1


def launches_json(
    evaluated: Sequence[Evaluated],
    reports: Sequence[Report],
    version: str,
    counters: re.Pattern[str] | None = None,
) -> str:
    """The document as text. NaN never appears: a missing value is null with a status that says why.

    With `counters` each launch also has the raw counters of such names.
    """
    document = {
        "schema_version": SCHEMA_VERSION,
        "perfkit_version": version,
        "reports": [_report(one) for one in reports],
        "launches": [_launch(one, counters) for one in evaluated],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def _report(report: Report) -> dict[str, Any]:
    return {
        "path": report.path,
        "ncu_version": report.ncu_version,
        "launches_read": len(report.launches),
        "launches_declared": report.expected_launches,
        "launches_lost": report.lost,
        "truncated": report.truncated,
        "problems": list(report.problems),
        "error": report.error or None,
    }


def _launch(one: Evaluated, names: re.Pattern[str] | None) -> dict[str, Any]:
    launch = one.launch
    raw = [launch.counters[name] for name in sorted(launch.counters) if names and names.search(name)]
    more = {"counters": {one.name: _counter(one) for one in raw}} if names else {}
    return {
        "report": launch.id.report,
        "range": launch.id.range,
        "launch": launch.id.launch,
        "kernel": launch.kernel,
        "name": launch.name,
        "key": launch.key,
        "problem": launch.problem or None,
        "gpu": launch.gpu,
        "compute_capability": f"{launch.compute_capability[0]}.{launch.compute_capability[1]}",
        "ncu_version": launch.ncu_version or None,
        "grid": list(launch.grid) if launch.grid else None,
        "block": list(launch.block) if launch.block else None,
        "nvtx": list(launch.nvtx),
        "kind": launch.kind.value,
        "device": {
            "index": launch.device.index,
            "pci": launch.device.pci or None,
            "uuid": launch.device.uuid or None,
        },
        "process": _process(launch.process),
        "collected": launch.collected,
        "metrics": {name: _metric(value) for name, value in one.metrics.items()},
        "contradictions": [_contradiction(found) for found in one.contradictions],
        **more,
    }


def _process(process: Process | None) -> dict[str, Any] | None:
    if process is None:
        return None
    return {"pid": process.pid, "host": process.host or None, "executable": process.executable or None}


def _contradiction(found: Contradiction) -> dict[str, Any]:
    return {
        "what": found.what,
        "readings": [{"by": how, "value": _finite(value)} for how, value in found.readings],
        "unit": found.unit,
        "tolerance": _finite(found.tolerance),
        "metrics": list(found.metrics),
        "likely": found.likely or None,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _counter(counter: Counter) -> dict[str, Any]:
    value = counter.value
    if isinstance(value, float) and not math.isfinite(value):
        value = None
    return {"value": value, "unit": counter.unit, "status": counter.status.value}


def _metric(metric: MetricValue) -> dict[str, Any]:
    value = metric.value
    if isinstance(value, float) and not math.isfinite(value):
        value = None
    result: dict[str, Any] = {"value": value, "unit": metric.unit, "status": metric.status.value}
    if metric.reason:
        result["reason"] = metric.reason
    if metric.formula:
        result["formula"] = metric.formula
        result["counters"] = list(metric.counters)
    return result
