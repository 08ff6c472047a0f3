"""The CI gate: rules checked on launches, against values or a baseline, and the recording of a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from perfkit.analysis.baseline import Baseline, Matches, Recorded, RecordedLaunch, dump, match
from perfkit.analysis.counter_units import convert
from perfkit.analysis.identity import Identity, identities, names
from perfkit.analysis.measured import Measured, measure
from perfkit.analysis.rules import RuleSet
from perfkit.errors import CheckFailedError, ConfigError, UsageError
from perfkit.model import Evaluated, Finding, Report, Rule, RuleOutcome, Status

_AGAIN = "record it with --update-baseline"
_TOLD = 12  # values that could not be recorded and are named one by one


def check(
    rules: RuleSet,
    launches: Sequence[Evaluated],
    baseline: Baseline | None,
    reports: Iterable[Report] = (),
    *,
    allow_lost: bool = False,
) -> list[Finding]:
    """A finding for each report that lost launches, then every rule on every launch it names.

    A rule that names none is a finding too, and fails; so is a launch of the baseline that is not among
    `launches`. Raises ConfigError for a unit that does not fit, and for a baseline of version 1 that cannot
    say which launch it recorded.
    """
    found = [*lost(reports, allow=allow_lost)]
    called = names([one.launch for one in launches])
    comparable = baseline is not None and any(rule.needs_baseline for rule in rules.rules)
    matches = (
        match(baseline, [one.launch for one in launches])
        if comparable and baseline is not None and baseline.gpu in ("", *(one.launch.gpu for one in launches))
        else Matches({}, {}, {}, ())
    )
    for rule in rules.rules:
        named = [index for index, one in enumerate(launches) if _names(rule, one)]
        gone = _gone(rule, baseline, matches) if rule.needs_baseline else []
        if not named and not gone:
            reason = f"no launch is called {rule.kernel}" + (f" at {rule.problem}" if rule.problem else "")
            outcome = RuleOutcome.ALLOWED if rule.allow_missing else RuleOutcome.MISSING
            found.append(Finding(rule, rule.kernel, outcome, rule.value, None, rule.unit, reason))
        for index in named:
            finding = _check(rule, rules, launches[index], index, baseline, matches)
            where = str(launches[index].launch.id)
            found.append(replace(finding, launch=called[index], where=where))
        found += gone
    return found


def lost(reports: Iterable[Report], *, allow: bool = False) -> list[Finding]:
    """A finding for each report of which launches are lost, or of which nothing can be read.

    Of a truncated file the count is the least possible one: what was cut away cannot be counted.
    """
    outcome = RuleOutcome.ALLOWED if allow else RuleOutcome.FAILED
    rule = Rule("every launch read", "*", "launches_lost", "==", 0.0, allow_missing=allow)
    found = []
    for one in reports:
        if not (one.lost or one.truncated or one.error):
            continue
        said = one.error.removeprefix(f"{one.path}: ") if one.error else "; ".join(one.problems)
        least = "at least that many are lost; " if one.truncated else ""
        found.append(
            Finding(
                rule, one.path, outcome, 0.0, float(one.lost), "launch", f"{least}the file {said}", one.path
            )
            if not one.error
            else Finding(rule, one.path, outcome, 0.0, None, "launch", said, one.path)
        )
    return found


def _names(rule: Rule, one: Evaluated) -> bool:
    problem = not rule.problem or rule.problem == one.launch.problem
    return problem and fnmatchcase(one.launch.label, rule.kernel)


def _check(
    rule: Rule, rules: RuleSet, one: Evaluated, index: int, baseline: Baseline | None, matches: Matches
) -> Finding:
    def finding(outcome: RuleOutcome, required: float | str | None, found: Measured, reason: str) -> Finding:
        return Finding(rule, "", outcome, required, found.value, found.unit, reason)

    if rule.gpu and not fnmatchcase(one.launch.gpu, rule.gpu):
        reason = f"it ran on {one.launch.gpu}"
        return finding(RuleOutcome.NOT_APPLICABLE, rule.value, Measured(None), reason)
    found = measure(rule, one, rules.path)
    missing = RuleOutcome.ALLOWED if rule.allow_missing else RuleOutcome.MISSING
    if found.value is None:
        return finding(missing, rule.value, found, found.reason)
    changed = ""
    required = rule.value
    if rule.needs_baseline:
        required, reason = _required(rule, one, index, found, baseline, matches)
        if required is None:
            return finding(missing, None, found, reason)
        changed = matches.changed.get(index, "")
    notes = "; ".join(filter(None, (found.reason, changed)))
    if found.status is Status.INVALID and not rule.allow_invalid:
        return finding(RuleOutcome.INVALID, required, found, notes)
    assert required is not None  # a rule without a value compares with the baseline
    passed, reason = _holds(rule, found.value, required)
    outcome = RuleOutcome.PASSED if passed else RuleOutcome.FAILED
    return finding(outcome, required, found, "; ".join(filter(None, (reason, notes))))


def _required(
    rule: Rule, one: Evaluated, index: int, found: Measured, baseline: Baseline | None, matches: Matches
) -> tuple[float | str | None, str]:
    """The baseline's value in the unit of `found`, or why there is none."""
    if baseline is None:
        return None, f"there is no baseline yet: {_AGAIN}"
    if baseline.gpu and baseline.gpu != one.launch.gpu:
        return None, f"the baseline is of {baseline.gpu}, this is {one.launch.gpu}"
    launch = matches.recorded.get(index)
    if launch is None:
        return None, f"{matches.why_not.get(index, 'the baseline holds no such launch')}: {_AGAIN}"
    held = launch.values.get(rule.metric)
    if held is None:
        return None, f"the baseline does not hold {rule.metric} of this launch: {_AGAIN}"
    if held.value is None:
        words = held.status.value.replace("_", " ")
        return None, f"the baseline recorded no value ({words}): {_AGAIN}"
    return _converted(held, found)


def _converted(held: Recorded, found: Measured) -> tuple[float | str | None, str]:
    stored = found.stored if held.unit is None else held.unit
    if isinstance(held.value, str) or held.value is None or stored == found.unit:
        return held.value, ""
    value = convert(held.value, stored, found.unit)
    if value is None:
        said = f"the baseline recorded it in {stored or 'no unit'}, now it is in {found.unit or 'no unit'}"
        return None, f"{said}: {_AGAIN}"
    return value, ""


def _gone(rule: Rule, baseline: Baseline | None, matches: Matches) -> list[Finding]:
    """The launches that the baseline holds for a rule and that do not occur any more."""
    found = []
    for one in matches.absent:
        if rule.metric not in one.values or not _named_by(rule, one, baseline):
            continue
        held = one.values[rule.metric]
        outcome = RuleOutcome.ALLOWED if rule.allow_missing else RuleOutcome.MISSING
        reason = (
            "the baseline holds this launch and none of those given is it: profile it too, or, if it is "
            "meant to be gone, record the baseline anew with --update-baseline"
        )
        found.append(Finding(rule, str(one.identity), outcome, held.value, None, held.unit or "", reason))
    return found


def _named_by(rule: Rule, one: RecordedLaunch, baseline: Baseline | None) -> bool:
    if baseline is None or (rule.gpu and baseline.gpu and not fnmatchcase(baseline.gpu, rule.gpu)):
        return False
    kernel, problem = one.identity.kernel, one.identity.problem
    if baseline.version > 1:
        return fnmatchcase(kernel, rule.kernel) and rule.problem in ("", problem)
    # Version 1 holds "label problem" as one text; neither holds blanks where perfkit launched the kernel.
    label, _, problem = kernel.rpartition(" ")
    named = fnmatchcase(kernel, rule.kernel) or bool(label and fnmatchcase(label, rule.kernel))
    return named and rule.problem in ("", problem)


def _holds(rule: Rule, measured: float | str, required: float | str) -> tuple[bool, str]:
    if isinstance(measured, str) or isinstance(required, str):
        if type(measured) is not type(required) and rule.op not in ("==", "!="):
            return False, "a text and a number"
        if rule.op not in ("==", "!=", "unchanged"):
            return False, f"op {rule.op} cannot order texts"
        return (measured != required) if rule.op == "!=" else (measured == required), ""
    slack = max(rule.margin, rule.tolerance * abs(required))
    tests = {
        "<=": measured <= required + slack,
        "<": measured < required + slack,
        ">=": measured >= required - slack,
        ">": measured > required - slack,
        "==": abs(measured - required) <= slack,
        "!=": abs(measured - required) > slack,
        "unchanged": abs(measured - required) <= slack,
        "not_above": measured <= required + slack,
        "not_below": measured >= required - slack,
    }
    return tests[rule.op], ""


def record_baseline(
    rules: RuleSet, launches: Sequence[Evaluated], provenance: Mapping[str, Any]
) -> tuple[str, list[str]]:
    """(the baseline file's text, what it holds no value of and the rules allow).

    What is written passes on the launches it was made from: what would fail on them (a missing or invalid
    value that the rule does not allow, a rule that names no launch) raises CheckFailedError with each
    reason. Raises ConfigError when the launches ran on several models of GPU: a baseline is of one.
    """
    needed = tuple(rule for rule in rules.rules if rule.needs_baseline)
    if not needed:
        raise UsageError(
            f"no rule of {rules.path} compares with a baseline", 'Use op = "unchanged" in a rule.'
        )
    known = identities(one.launch for one in launches)
    values: dict[Identity, dict[str, Recorded]] = {}
    for rule in needed:
        for identity, one in zip(known, launches, strict=True):
            if _names(rule, one) and (not rule.gpu or fnmatchcase(one.launch.gpu, rule.gpu)):
                found = measure(rule, one, rules.path)
                status = (
                    Status.NOT_COLLECTED
                    if found.value is None and found.status is Status.OK
                    else found.status
                )
                values.setdefault(identity, {}).setdefault(
                    rule.metric, Recorded(found.as_stored, found.stored, status)
                )
    gpus = sorted({identity.gpu for identity in values})
    if len(gpus) > 1:
        raise ConfigError(
            f"the launches ran on several GPUs ({', '.join(gpus)})",
            'Record a baseline from runs on one GPU, or give its rules gpu = "...".',
        )
    recorded = tuple(RecordedLaunch(identity, held) for identity, held in values.items())
    gpu = next(iter(gpus), "")
    baseline = Baseline(rules.baseline or rules.path, gpu, recorded)
    again = check(replace(rules, rules=needed), launches, baseline)
    failed = [finding for finding in again if finding.failed]
    if failed:
        lines = [f"  {one.rule.name}: {one.launch}: {one.reason}" for one in failed]
        more = [f"  and {len(lines) - _TOLD} more"] if len(lines) > _TOLD else []
        raise CheckFailedError(
            f"no baseline is recorded: {len(failed)} of {len(again)} values cannot be used:\n"
            + "\n".join(lines[:_TOLD] + more),
            "Profile again with these counters, leave such launches out with `kernel` or `problem`, or "
            "allow it in the rule: allow_missing = true, allow_invalid = true.",
        )
    allowed = [one for one in again if one.outcome is RuleOutcome.ALLOWED]
    told = [f"{one.rule.name}: {one.launch}: {one.reason}" for one in allowed]
    return dump(recorded, gpu, {**provenance, **_origin(launches)}), told


def _origin(launches: Sequence[Evaluated]) -> dict[str, Any]:
    """Where the values come from: ncu's versions, and the devices as far as the reports tell them."""
    devices = {(one.launch.device.index, one.launch.device.pci, one.launch.device.uuid) for one in launches}
    named = sorted(devices, key=lambda one: (-1 if one[0] is None else one[0], *one[1:]))
    return {
        "ncu_versions": sorted({one.launch.ncu_version for one in launches if one.launch.ncu_version}),
        "devices": [
            {"index": index, "pci": pci, "uuid": uuid}
            for index, pci, uuid in named
            if index is not None or pci or uuid
        ],
    }
