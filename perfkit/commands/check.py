"""`perfkit check RUN --rules FILE`: a CI gate on counters, which do not jitter as times do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit, emit_tables, note, warn
from perfkit.errors import CheckFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfkit.analysis.rules import RuleSet
    from perfkit.commands._sides import Sources
    from perfkit.model import Cell, Evaluated, Finding, Rule, Table

_MANY = 4  # failures for one missing value that are said in one line


def check(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="A run (folder, id, `latest`) or reports.")
    ],
    rules: Annotated[Path, typer.Option(help="The rules, a TOML file.")],
    update_baseline: Annotated[
        bool,
        typer.Option("--update-baseline", help="Record this run's values as the baseline; checks nothing."),
    ] = False,
    output_format: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, json, latex, html.")
    ] = ("terminal"),
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the table to this file.")
    ] = None,
) -> None:
    """Check counters against rules. Exits 1 when a rule fails, each named with both values.

    A metric that is missing fails its rule, and so does a rule that matches no launch, unless the rule says
    `allow_missing = true`: a gate that measures nothing must not be green.
    A rule is [[rule]] and, a line each, kernel = "k7", metric = "registers_per_thread", op = "<=", value =
    128. With op = "unchanged" it compares with the file that baseline = "FILE.json" names at the top.
    """
    from perfkit.analysis import rules as gate
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.commands._sides import Sources
    from perfkit.reports import check_format

    check_format(output_format)
    known = gate.load_rules(rules, load_metric_sets().metrics)
    counters = tuple(rule.metric for rule in known.rules if "__" in rule.metric)
    launches = _launches(Sources(counters=counters), runs)
    if update_baseline:
        _update(known, launches, runs)
        return
    baseline = gate.load_baseline(known.baseline) if known.baseline is not None else None
    findings = gate.check(known, launches, baseline)
    emit_tables([_table(findings, known)], output_format, output)
    failed = [finding for finding in findings if finding.failed]
    if failed:
        raise CheckFailedError(
            f"{len(failed)} of {len(findings)} checks of {rules} failed:\n"
            + "\n".join(f"  {line}" for line in _sentences(failed)),
            "If a change is meant, edit the rule or record a new baseline with --update-baseline.",
        )
    note(f"{len(findings)} checks of {rules} passed")


def _launches(sources: Sources, runs: Sequence[str]) -> list[Evaluated]:
    found: list[Evaluated] = []
    for text in runs:
        if Path(text).is_file():
            found += sources.launches(Path(text))
        else:
            found += [launch for _, launches in sources.of_run(text) for launch in launches]
    return found


def _update(known: RuleSet, launches: Sequence[Evaluated], runs: Sequence[str]) -> None:
    from perfkit.analysis import rules as gate

    if known.baseline is None:
        raise UsageError(
            f"no rule of {known.path} compares with a baseline", 'Use op = "unchanged" in a rule.'
        )
    text, missing = gate.record_baseline(known, launches, ", ".join(runs))
    for line in missing:
        warn(f"not recorded: {line}")
    emit(text, known.baseline)


def _table(findings: Sequence[Finding], known: RuleSet) -> Table:
    from perfkit.model import Cell, Column, Table

    columns = (
        Column("rule", "rule"),
        Column("launch", "launch"),
        Column("metric", "metric"),
        Column("op", "op"),
        Column("required", "required"),
        Column("measured", "measured"),
        Column("result", "result"),
    )
    rows = tuple(
        (
            # A name made from metric, kernel and op would say again what the other columns say.
            Cell(
                finding.rule.name,
                text=_given_name(finding.rule) or finding.rule.kernel,
                note=finding.reason if finding.failed else "",
            ),
            Cell(finding.launch),
            Cell(finding.rule.metric),
            Cell(finding.rule.op),
            _cell(finding.required, finding.unit) if finding.required is not None else Cell(None),
            _cell(finding.measured, finding.unit),
            Cell(finding.outcome.value),
        )
        for finding in findings
    )
    failed = sum(finding.failed for finding in findings)
    title = f"Checks of {known.path.name}: {len(findings) - failed} passed, {failed} failed"
    return Table("check", title, columns, rows)


def _cell(value: float | str | None, unit: str) -> Cell:
    from perfkit.model import Cell, Status

    if value is None:
        return Cell(None, Status.NOT_COLLECTED)
    return Cell(value, unit=unit, text=_said(value, unit))


def _said(value: float | str | None, unit: str) -> str:
    from perfkit.analysis.sentences import number

    if isinstance(value, (int, float)):
        return number(float(value), unit)
    return "none" if value is None else value


def _given_name(rule: Rule) -> str:
    """The rule's name where its author gave one."""
    return "" if rule.name.startswith(f"{rule.metric}({rule.kernel}) ") else rule.name


def _sentences(failed: Sequence[Finding]) -> list[str]:
    """A line for each failure; those that lack a value for one reason share one."""
    lines: list[str] = []
    lacking: dict[tuple[str, str], list[str]] = {}
    for finding in failed:
        if finding.measured is None or finding.required is None:
            lacking.setdefault((finding.rule.name, finding.reason), []).append(finding.launch)
    for finding in failed:
        launches = lacking.get((finding.rule.name, finding.reason), [finding.launch])
        if len(launches) < _MANY or None not in (finding.measured, finding.required):
            lines.append(_sentence(finding))
        elif finding.launch == launches[0]:
            name = _given_name(finding.rule)
            lines.append(
                f"{name + ': ' if name else ''}{finding.rule.metric} of {len(launches)} launches "
                f"({launches[0]} to {launches[-1]}): {finding.reason}"
            )
    return lines


def _sentence(finding: Finding) -> str:
    rule = finding.rule
    name = _given_name(rule)
    start = f"{name + ': ' if name else ''}{finding.launch}: {rule.metric}"
    if finding.measured is None:
        return f"{start} has no value: {finding.reason}"
    start += f" is {_said(finding.measured, finding.unit)}"
    if finding.required is None:
        return f"{start}, to be compared with the baseline: {finding.reason}"
    wanted = f"{rule.op} "
    if rule.needs_baseline:
        wanted = rule.op.replace("_", " ") + {"unchanged": " from"}.get(rule.op, "") + " the baseline's "
    reason = f" ({finding.reason})" if finding.reason else ""
    return f"{start}, required {wanted}{_said(finding.required, finding.unit)}{reason}"
