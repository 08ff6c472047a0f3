"""A CI gate on counters: rules from a TOML file, checked on launches, against values or a baseline."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from perfkit.analysis.facts import counter
from perfkit.errors import ConfigError
from perfkit.model import Evaluated, Finding, Rule, RuleOutcome, Status

BASELINE_VERSION = 1
_COMPARE = ("<=", "<", ">=", ">", "==", "!=")
_BASELINE = ("unchanged", "not_above", "not_below")
_KEYS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "kernel": (str,),
    "metric": (str,),
    "op": (str,),
    "value": (int, float, str),
    "problem": (str,),
    "gpu": (str,),
    "tolerance": (int, float),
    "margin": (int, float),
    "allow_missing": (bool,),
}
_WORDS = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
_EXAMPLE = 'Such as:\n\n[[rule]]\nkernel = "k7"\nmetric = "registers_per_thread"\nop = "<="\nvalue = 128'


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a file, and the file of the baseline ("" where no rule needs one)."""

    path: Path
    rules: tuple[Rule, ...]
    baseline: Path | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """Recorded values: launch ("k7 n=4096") -> metric -> value, with the GPU that gave them."""

    gpu: str = ""
    source: str = ""
    values: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)


def load_rules(path: Path, metrics: Iterable[str]) -> RuleSet:
    """Read a rules file; `metrics` are the known metric names, counters (with "__") are taken as they are.

    Raises ConfigError naming file, rule and key.
    """
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror or error}", "Give --rules a TOML file."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", f"It holds rules. {_EXAMPLE}") from error
    unknown = sorted(set(raw) - {"rule", "baseline"})
    if unknown:
        raise ConfigError(f"{path}: unknown key {unknown[0]!r}", "Known are [[rule]] and `baseline`.")
    entries = raw.get("rule", [])
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path} holds no rule", f"Write at least one. {_EXAMPLE}")
    lines = [
        number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*rule\s*\]\]", line)
    ]
    known = tuple(metrics)
    rules = tuple(
        _rule(path, entry, index, lines[index] if index < len(lines) else 0, known)
        for index, entry in enumerate(entries)
    )
    baseline = raw.get("baseline")
    if baseline is not None and not isinstance(baseline, str):
        raise ConfigError(
            f"{path}: `baseline` is {baseline!r}, not the name of a file", 'Write baseline = "FILE.json".'
        )
    if baseline is None and any(rule.needs_baseline for rule in rules):
        named = next(rule.name for rule in rules if rule.needs_baseline)
        raise ConfigError(
            f"{path}: rule {named!r} compares with a baseline, and the file names none",
            'Write baseline = "FILE.json" at the top of the file, or give the rule a value.',
        )
    return RuleSet(path, rules, None if baseline is None else path.parent / baseline)


def _rule(path: Path, entry: Any, index: int, line: int, metrics: Sequence[str]) -> Rule:
    def wrong(what: str, remedy: str = "") -> ConfigError:
        called = f" ({entry['name']})" if isinstance(entry, dict) and entry.get("name") else ""
        return ConfigError(f"{path}:{line}: rule {index + 1}{called}: {what}", remedy)

    if not isinstance(entry, dict):
        raise wrong("it is no table", "Write [[rule]].")
    for key, value in entry.items():
        if key not in _KEYS:
            raise wrong(f"unknown key {key!r}", f"Known are {', '.join(_KEYS)}. {_EXAMPLE}")
        kinds = _KEYS[key]
        # In Python, True is an int: a value of true is meant as no number.
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds != (bool,)):
            raise wrong(
                f"{key} is {value!r}, of the wrong type",
                f"It takes {' or '.join(_WORDS[kind] for kind in kinds)}.",
            )
    for key in ("metric", "op"):
        if key not in entry:
            raise wrong(f"it has no {key}", "A rule needs kernel, metric, op and, for a comparison, value.")
    metric, op = entry["metric"], entry["op"]
    if metric not in metrics and "__" not in metric:
        raise wrong(f"unknown metric {metric!r}", _near(metric, metrics))
    if op not in (*_COMPARE, *_BASELINE):
        raise wrong(f"unknown op {op!r}", f"Known are {', '.join((*_COMPARE, *_BASELINE))}.")
    if op in _COMPARE and "value" not in entry:
        raise wrong(
            f"op {op} needs a value", 'Give it value = ..., or compare with the baseline: op = "unchanged".'
        )
    if op in _BASELINE and "value" in entry:
        raise wrong(
            f"op {op} compares with the baseline and takes no value", f"Use one of {', '.join(_COMPARE)}."
        )
    if isinstance(entry.get("value"), str) and op not in ("==", "!="):
        raise wrong(
            f"op {op} cannot order the text {entry['value']!r}",
            "Use == or != with texts; a share is a fraction: 0.9 for 90 %.",
        )
    if entry.get("tolerance", 0) < 0 or entry.get("margin", 0) < 0:
        raise wrong("a tolerance or margin below 0 can never hold", "Give 0 or more.")
    kernel = entry.get("kernel", "*")
    shown = f" {entry['value']}" if "value" in entry else ""
    return Rule(**{"name": f"{metric}({kernel}) {op}{shown}", "kernel": kernel, **entry})


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 3)
    return f"Did you mean {', '.join(close)}?" if close else "`perfkit show` lists the metrics."


def check(rules: RuleSet, launches: Sequence[Evaluated], baseline: Baseline | None) -> list[Finding]:
    """Every rule on every launch it names; a rule that names none is a finding too, and fails."""
    found: list[Finding] = []
    for rule in rules.rules:
        named = [one for one in launches if _names(rule, one)]
        if not named:
            reason = f"no launch is called {rule.kernel}" + (f" at {rule.problem}" if rule.problem else "")
            outcome = RuleOutcome.ALLOWED if rule.allow_missing else RuleOutcome.MISSING
            found.append(Finding(rule, rule.kernel, outcome, rule.value, None, reason=reason))
        found += [_check(rule, one, baseline) for one in named]
    return found


def _names(rule: Rule, one: Evaluated) -> bool:
    problem = not rule.problem or rule.problem == one.launch.problem
    return problem and fnmatchcase(one.launch.label, rule.kernel)


def launch_name(one: Evaluated) -> str:
    """What a launch is called in findings and baselines."""
    return f"{one.launch.label} {one.launch.problem}".rstrip()


def _check(rule: Rule, one: Evaluated, baseline: Baseline | None) -> Finding:
    called = launch_name(one)
    if rule.gpu and not fnmatchcase(one.launch.gpu, rule.gpu):
        return Finding(
            rule, called, RuleOutcome.NOT_APPLICABLE, rule.value, None, reason=f"it ran on {one.launch.gpu}"
        )
    measured, unit, reason = measure(rule.metric, one)
    missing = RuleOutcome.ALLOWED if rule.allow_missing else RuleOutcome.MISSING
    if measured is None:
        return Finding(rule, called, missing, rule.value, None, unit, reason)
    required = rule.value
    if required is None:
        required, reason = _recorded(rule, one, baseline)
        if required is None:
            return Finding(rule, called, missing, None, measured, unit, reason)
    passed, reason = _holds(rule, measured, required)
    return Finding(
        rule, called, RuleOutcome.PASSED if passed else RuleOutcome.FAILED, required, measured, unit, reason
    )


def measure(metric: str, one: Evaluated) -> tuple[float | str | None, str, str]:
    """(value, unit, why there is none) of a metric, or of a counter where the name is one."""
    if not one.launch.collected:
        return None, "", "the launch was not collected"
    if "__" in metric:
        value = counter(one.launch, metric)
        unit = one.launch.counters[metric].unit if metric in one.launch.counters else ""
        return (None, unit, f"the report does not hold {metric}") if math.isnan(value) else (value, unit, "")
    held = one.metrics.get(metric)
    if held is None or held.value is None or held.status not in (Status.OK, Status.INVALID):
        return None, held.unit if held else "", held.reason if held else "not evaluated"
    reason = "outside its possible range" if held.status is Status.INVALID else ""
    return held.value, held.unit, reason


def _recorded(rule: Rule, one: Evaluated, baseline: Baseline | None) -> tuple[float | str | None, str]:
    again = "record it with --update-baseline"
    if baseline is None:
        return None, f"there is no baseline yet: {again}"
    if baseline.gpu and baseline.gpu != one.launch.gpu:
        return None, f"the baseline is of {baseline.gpu}, this is {one.launch.gpu}"
    value = baseline.values.get(launch_name(one), {}).get(rule.metric)
    return value, "" if value is not None else f"the baseline does not hold it: {again}"


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


def load_baseline(path: Path) -> Baseline | None:
    """The recorded values, None where the file is not there yet. Raises ConfigError for a file that is
    wrong.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"baseline {path} cannot be read: {error}", "Record it anew with --update-baseline."
        ) from error
    if (
        not isinstance(raw, dict)
        or raw.get("schema_version") != BASELINE_VERSION
        or not isinstance(raw.get("values"), dict)
    ):
        raise ConfigError(
            f"{path} is no baseline of schema version {BASELINE_VERSION}",
            "Record it anew with --update-baseline.",
        )
    return Baseline(raw.get("gpu", ""), raw.get("source", ""), raw["values"])


def record_baseline(rules: RuleSet, launches: Sequence[Evaluated], source: str) -> tuple[str, list[str]]:
    """(the baseline file's text, what could not be recorded) for every rule that compares with the baseline.

    Raises ConfigError when the launches ran on several GPUs: a baseline is of one.
    """
    values: dict[str, dict[str, float | str]] = {}
    missing: list[str] = []
    gpus = set()
    for rule in rules.rules:
        if not rule.needs_baseline:
            continue
        named = [
            one
            for one in launches
            if _names(rule, one) and (not rule.gpu or fnmatchcase(one.launch.gpu, rule.gpu))
        ]
        if not named:
            missing.append(f"{rule.name}: no launch is called {rule.kernel}")
        for one in named:
            value, _, reason = measure(rule.metric, one)
            if value is None:
                missing.append(f"{rule.name}: {launch_name(one)}: {reason}")
                continue
            gpus.add(one.launch.gpu)
            values.setdefault(launch_name(one), {})[rule.metric] = value
    if len(gpus) > 1:
        raise ConfigError(
            f"the launches ran on several GPUs ({', '.join(sorted(gpus))})",
            "Record a baseline from a run on one GPU.",
        )
    document = {
        "schema_version": BASELINE_VERSION,
        "gpu": next(iter(gpus), ""),
        "source": source,
        "values": {launch: dict(sorted(held.items())) for launch, held in sorted(values.items())},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n", missing
