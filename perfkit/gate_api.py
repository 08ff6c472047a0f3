"""`perfkit.check`: the CI gate on counters as a function."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from perfkit.model import Finding


def check(paths: str | Path | Iterable[str | Path], rules: str | Path) -> list[Finding]:
    """Check the launches of reports or runs against a rules file, as `perfkit check` does: one finding a
    rule and launch.

    `finding.failed` says whether it fails the gate. The baseline is the one the rules file names. Raises
    ConfigError for a wrong rules file or baseline, ReportError or UsageError for what cannot be read.
    """
    from perfkit.analysis import rules as gate
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.api import load

    sets = load_metric_sets()
    known = gate.load_rules(Path(rules), sets.metrics)
    raw = any("__" in rule.metric for rule in known.rules)
    profile = load(paths, metric_sets=sets, every_counter=raw)
    baseline = gate.load_baseline(known.baseline) if known.baseline is not None else None
    return gate.check(known, profile.evaluated, baseline)
