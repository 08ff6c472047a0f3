"""`perfkit check RUN --rules FILE`: a CI gate on counters, which do not jitter as times do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.commands._console import emit, emit_tables, note, warn
from perfkit.errors import CheckFailedError, ReportError
from perfkit.model import RuleOutcome

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
    allow_lost: Annotated[
        bool,
        typer.Option("--allow-lost", help="Reports that lost launches, or cannot be read, do not fail."),
    ] = False,
    output_format: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, json, latex, html.")
    ] = ("terminal"),
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the table to this file.")
    ] = None,
) -> None:
    """Check counters against rules. Exits 1 when a rule fails, each named with both values.

    A metric that is missing or invalid fails its rule, and so does a rule that matches no launch, unless the
    rule says `allow_missing = true` or `allow_invalid = true`; a report that lost launches fails too: a gate
    that measures nothing must not be green.
    A rule is [[rule]] and, a line each, kernel = "k7", metric = "registers_per_thread", op = "<=", value =
    128. With op = "unchanged" it compares with the file that baseline = "FILE.json" names at the top.
    """
    from perfkit.analysis import gate
    from perfkit.analysis.baseline import load_baseline
    from perfkit.analysis.measured import is_counter
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.analysis.rules import load_rules
    from perfkit.commands._sides import Sources
    from perfkit.reports import check_format

    check_format(output_format)
    known = load_rules(rules, load_metric_sets().metrics)
    counters = tuple(rule.metric for rule in known.rules if is_counter(rule.metric))
    sources = Sources(counters=counters, keep_going=True)
    launches = _launches(sources, runs)
    unreadable = [one for one in sources.reports if one.error]
    if unreadable and len(unreadable) == len(sources.reports):
        raise ReportError(unreadable[0].error, unreadable[0].remedy)
    if update_baseline:
        _update(known, launches, runs, gate.lost(sources.reports, allow=allow_lost))
        return
    baseline = load_baseline(known.baseline) if known.baseline is not None else None
    findings = gate.check(known, launches, baseline, sources.reports, allow_lost=allow_lost)
    for_machines = output_format in ("json", "csv")
    emit_tables([_table(findings, known, where=for_machines)], output_format, output)
    failed = [finding for finding in findings if finding.failed]
    if failed:
        raise CheckFailedError(
            f"{len(failed)} of {len(findings)} checks of {rules} failed:\n"
            + "\n".join(f"  {line}" for line in _sentences(failed)),
            "\n".join(_remedies(failed)),
        )
    note(f"{len(findings)} check{'s' if len(findings) != 1 else ''} of {rules} passed")


def _remedies(failed: Sequence[Finding]) -> list[str]:
    found = []
    if any(finding.rule.metric == "launches_lost" for finding in failed):
        found.append(
            "Copy the damaged report again (compare sizes), or profile again; --allow-lost checks the rest."
        )
    if any(finding.rule.metric != "launches_lost" for finding in failed):
        found.append("If a change is meant, edit the rule or record a new baseline with --update-baseline.")
    return found


def _launches(sources: Sources, runs: Sequence[str]) -> list[Evaluated]:
    found: list[Evaluated] = []
    seen: set[Path] = set()
    for text in runs:
        if Path(text).is_file():
            if Path(text) not in seen:
                found += sources.launches(Path(text))
            seen.add(Path(text))
        else:
            found += [launch for _, launches in sources.of_run(text) for launch in launches]
    return found


def _update(
    known: RuleSet, launches: Sequence[Evaluated], runs: Sequence[str], lost: Sequence[Finding]
) -> None:
    from perfkit import __version__
    from perfkit.analysis import gate

    if failed := [finding for finding in lost if finding.failed]:
        raise CheckFailedError(
            "no baseline is recorded:\n" + "\n".join(f"  {line}" for line in _sentences(failed)),
            "\n".join(_remedies(failed)),
        )
    provenance = {"perfkit_version": __version__, "source": ", ".join(runs)}
    text, without = gate.record_baseline(known, launches, provenance)
    for line in without:
        warn(f"recorded without a value: {line}")
    emit(text, known.baseline)


def _table(findings: Sequence[Finding], known: RuleSet, *, where: bool = False) -> Table:
    """One row a finding; with `where` also the report and the launch's number in it."""
    from perfkit.model import Cell, Column, Table

    columns = (
        Column("rule", "rule"),
        Column("launch", "launch"),
        *([Column("where", "where")] if where else []),
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
                note=finding.reason,
            ),
            Cell(finding.launch),
            *([Cell(finding.where)] if where else []),
            Cell(finding.rule.metric),
            Cell(finding.rule.op),
            _cell(finding.required, finding) if finding.required is not None else Cell(None),
            _cell(finding.measured, finding),
            Cell(finding.outcome.value),
        )
        for finding in findings
    )
    failed = sum(finding.failed for finding in findings)
    title = f"Checks of {known.path.name}: {len(findings) - failed} passed, {failed} failed"
    return Table("check", title, columns, rows)


def _cell(value: float | str | None, finding: Finding) -> Cell:
    from perfkit.model import Cell, Status

    if value is None:
        gone = finding.rule.needs_baseline and not finding.where
        return Cell(None, Status.NOT_COLLECTED, text="no launch" if gone else "")
    status = Status.INVALID if finding.outcome is RuleOutcome.INVALID else Status.OK
    return Cell(value, status, unit=finding.unit, text=_said(value, finding))


def _said(value: float | str | None, finding: Finding) -> str:
    """A value of a finding for people: a metric scaled, what the rule or the report gave a unit in that."""
    from perfkit.analysis.measured import is_counter
    from perfkit.analysis.sentences import number

    if not isinstance(value, (int, float)):
        return "none" if value is None else value
    if finding.rule.unit or is_counter(finding.rule.metric):
        digits = f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.6g}"
        return f"{digits} {finding.unit}".rstrip()
    return number(float(value), finding.unit)


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
    # Of a launch its report, with the folder, and number; a finding about a report is called after it.
    path = "/".join(Path(finding.where).parts[-2:])
    where = f" ({path})" if finding.where and finding.where != finding.launch else ""
    start = f"{name + ': ' if name else ''}{finding.launch}{where}: {rule.metric}"
    if (
        finding.measured is None
        and not finding.where
        and rule.needs_baseline
        and finding.required is not None
    ):
        return f"{start}, in the baseline {_said(finding.required, finding)}: {finding.reason}"
    if finding.measured is None:
        return f"{start} has no value: {finding.reason}"
    start += f" is {_said(finding.measured, finding)}"
    if finding.required is None:
        return f"{start}, to be compared with the baseline: {finding.reason}"
    if finding.outcome is RuleOutcome.INVALID:
        return f"{start}, which is invalid: {finding.reason} (allow_invalid = true compares it all the same)"
    wanted = f"{rule.op} "
    if rule.needs_baseline:
        wanted = rule.op.replace("_", " ") + {"unchanged": " from"}.get(rule.op, "") + " the baseline's "
    reason = f" ({finding.reason})" if finding.reason else ""
    return f"{start}, required {wanted}{_said(finding.required, finding)}{reason}"
