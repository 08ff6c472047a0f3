"""`perfkit.check`: the CI gate on counters as a function."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from perfkit.errors import ReportError
from perfkit.model import Finding


def check(
    paths: str | Path | Iterable[str | Path], rules: str | Path, *, allow_lost: bool = False
) -> list[Finding]:
    """Check the launches of reports or runs against a rules file, as `perfkit check` does: one finding a
    rule and launch, and one for each report that lost launches (which fails unless `allow_lost`).

    `finding.failed` says whether it fails the gate. The baseline is the one the rules file names. Raises
    ConfigError for a wrong rules file or baseline, ReportError where no report can be read, UsageError for a
    path that is nothing.
    """
    from perfkit.analysis.baseline import load_baseline
    from perfkit.analysis.gate import check as check_launches
    from perfkit.analysis.measured import is_counter
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.analysis.rules import load_rules
    from perfkit.api import load

    sets = load_metric_sets()
    known = load_rules(Path(rules), sets.metrics)
    raw = any(is_counter(rule.metric) for rule in known.rules)
    profile = load(paths, metric_sets=sets, every_counter=raw, keep_going=True)
    unreadable = [one for one in profile.reports if one.error]
    if unreadable and len(unreadable) == len(profile.reports):
        raise ReportError(unreadable[0].error, unreadable[0].remedy)
    baseline = load_baseline(known.baseline) if known.baseline is not None else None
    return check_launches(known, profile.evaluated, baseline, profile.reports, allow_lost=allow_lost)
