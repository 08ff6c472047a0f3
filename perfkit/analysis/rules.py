"""The rules file of the CI gate: what may stand in it, and every way it can be wrong."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from perfkit.analysis.measured import is_counter
from perfkit.errors import ConfigError
from perfkit.model import Rule
from perfkit.user_file import read_text

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
    "unit": (str,),
    "allow_missing": (bool,),
    "allow_invalid": (bool,),
}
_WORDS = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
_EXAMPLE = 'Such as:\n\n[[rule]]\nkernel = "k7"\nmetric = "registers_per_thread"\nop = "<="\nvalue = 128'


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a file, and the file of the baseline ("" where no rule needs one)."""

    path: Path
    rules: tuple[Rule, ...]
    baseline: Path | None = None


def load_rules(path: Path, metrics: Iterable[str]) -> RuleSet:
    """Read a rules file; `metrics` are the known metric names, counters (with "__") are taken as they are.

    Raises ConfigError naming file, rule and key.
    """
    try:
        text = read_text(path)
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
        raise wrong("it is not a table", "Write [[rule]].")
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
    if metric not in metrics and not is_counter(metric):
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
    for key in ("value", "tolerance", "margin"):
        if isinstance(entry.get(key), float) and not math.isfinite(entry[key]):
            raise wrong(f"{key} is {entry[key]}, which nothing can be compared with", "Give a finite number.")
    if entry.get("unit") and isinstance(entry.get("value"), str):
        raise wrong(
            f"the text {entry['value']!r} has no unit", "Leave `unit` out, or write the value as a number."
        )
    if entry.get("tolerance", 0) < 0 or entry.get("margin", 0) < 0:
        raise wrong("a tolerance or margin below 0 can never hold", "Give 0 or more.")
    kernel = entry.get("kernel", "*")
    shown = f" {entry['value']} {entry.get('unit', '')}".rstrip() if "value" in entry else ""
    return Rule(**{"name": f"{metric}({kernel}) {op}{shown}", "kernel": kernel, **entry})


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 3)
    return f"Did you mean {', '.join(close)}?" if close else "`perfkit show` lists the metrics."
