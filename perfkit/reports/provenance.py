"""provenance.json: for every cell of every table its report and hash, launch, counters and formula."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from perfkit import __version__
from perfkit.model import RunRecord
from perfkit.model.measurements import Measurements, Traced
from perfkit.model.traced import TracedTable
from perfkit.reports.article import inputs_of
from perfkit.units import format_value, stored_unit

SCHEMA_VERSION = 1


def provenance(measurements: Measurements, tables: Sequence[TracedTable]) -> str:
    """The JSON text: {"tables": {TABLE: {ROW: {COLUMN: {value, unit, status, kind, ...}}}}, ...}.

    A derived cell lists its `inputs`, each of which is a key of `measurements`.
    """
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "perfkit_version": __version__,
        "gpu": measurements.gpu,
        "runs": [_run(record) for record in measurements.runs],
        "tables": {},
        "measurements": {},
    }
    for item in tables:
        rows: dict[str, dict[str, Any]] = {}
        for (row, column), traced in item.sources.items():
            rows.setdefault(row, {})[column] = _entry(traced)
            for name, below in inputs_of(measurements, traced):
                document["measurements"].setdefault(name, _entry(below))
        document["tables"][item.table.name] = rows
    if measurements.warnings:
        document["warnings"] = list(measurements.warnings)  # what the reports lost, among others
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _run(record: RunRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "what": record.what,
        "started": record.started,
        "gpu": record.gpu.name if record.gpu else None,
        "gpu_uuid": record.gpu.uuid if record.gpu else None,
        "versions": dict(record.versions),
        "perfkit_version": record.perfkit_version,
        "options": dict(record.options),
    }


def _entry(traced: Traced) -> dict[str, Any]:
    source = traced.source
    entry: dict[str, Any] = {
        "value": traced.value,
        "unit": stored_unit(traced.unit),
        "status": traced.status.value,
        "kind": source.kind,
        "formula": source.formula,
    }
    if traced.reason:
        entry["reason"] = traced.reason
    for name in ("file", "sha256", "launch", "kernel", "note"):
        if getattr(source, name):
            entry[name] = getattr(source, name)
    if source.counters:
        entry["counters"] = {name: {"value": value, "unit": unit} for name, value, unit in source.counters}
    if source.inputs:
        entry["inputs"] = list(source.inputs)
    return entry


def explain_trace(steps: Sequence[tuple[str, Traced]]) -> str:
    """The chain of a cell for people: what it is, what it was computed from, and where that was read."""
    lines = []
    for depth, (name, traced) in enumerate(steps):
        indent = "  " if depth else ""
        lines.append(f"{indent}{name} = {_shown(traced)}")
        lines += [f"{indent}  {line}" for line in _source_lines(traced)]
    return "\n".join(lines) + "\n"


def _shown(traced: Traced) -> str:
    if traced.value is None:
        return f"{traced.status.value.replace('_', ' ')}" + (f" ({traced.reason})" if traced.reason else "")
    if isinstance(traced.value, str):
        return traced.value
    exact = f"{traced.value!r} {stored_unit(traced.unit)}".rstrip()
    return f"{format_value(traced.value, traced.unit)}  [{exact}]"


def _source_lines(traced: Traced) -> list[str]:
    source = traced.source
    lines = [f"formula: {source.formula}"] if source.formula else []
    for name, value, unit in source.counters:
        lines.append(f"counter: {name} = {value!r} {unit}".rstrip())
    if source.file:
        lines.append(f"file:    {source.file}" + (f"  sha256 {source.sha256}" if source.sha256 else ""))
    if source.launch:
        lines.append(f"launch:  {source.launch}  {source.kernel}")
    if source.note:
        lines.append(f"note:    {source.note}")
    return lines
