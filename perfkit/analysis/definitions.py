"""Metric definitions: the TOML files of metric_sets/ (and of users' folders) read and checked."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from perfkit.analysis.expression import Expression, FormulaError, parse
from perfkit.errors import ConfigError
from perfkit.user_file import read_text

_FOLDER = Path(__file__).parent / "metric_sets"
_CHIPS_FILE = "chips.toml"
_DEVICES_FILE = Path(__file__).parent / "devices.toml"

_METRIC_KEYS = {
    "title", "unit", "doc", "digits", "range", "formula", "collect", "section", "hidden", "detail", "refuse",
    "pick", "among", "except", "sum", "whole", "note_ideal",
}  # fmt: skip
_ALTERNATIVE_KEYS = {"formula", "note", "zero", "differs", "where", "above"}
_ACRONYMS = {"gmma", "imc", "lg", "mio", "tex"}
_SET_KEYS = {"title", "doc", "also", "metrics", "each"}


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to compute a metric.

    Every alternative gives the same value where a report allows several, but for those that say why it can
    differ in `differs`. `zero_undefined`: a result of 0 means that there was nothing to divide by. An
    alternative with `where` only holds for launches whose metric of that name exceeds `above`, a formula.
    """

    expression: Expression
    note: str = ""
    zero_undefined: bool = False
    differs: str = ""
    where: str = ""
    above: Expression | None = None

    @property
    def metrics(self) -> tuple[str, ...]:
        """The other metrics that it reads, those of its condition included."""
        condition = (self.where, *(self.above.metrics if self.above is not None else ()))
        return tuple(dict.fromkeys((*self.expression.metrics, *(name for name in condition if name))))

    @property
    def notes(self) -> str:
        """What a value computed in this way is said to be."""
        return "; ".join(part for part in (self.note, self.differs) if part)


Bound = float | Expression


@dataclass(frozen=True, slots=True)
class Refusal:
    """The metric has no meaning for a launch whose metric `when` exceeds `above`, a formula.

    A refusal with `unless` only holds where that metric has no value.
    """

    when: str
    above: Expression
    reason: str
    unless: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: what it is, and its formulas in order of preference.

    `pick` ("largest" or "smallest") makes it the name of one of `among` (label -> metric) instead; `total`
    their sum, of all of them or of as many as make up the metric `whole`. `hidden` metrics only serve
    others; `detail` metrics are left out of tables that have no room.
    """

    name: str
    set: str
    title: str
    unit: str
    doc: str
    file: str
    digits: int | None = None
    range: tuple[Bound, Bound] | None = None
    alternatives: tuple[Alternative, ...] = ()
    collect: tuple[str, ...] | None = None
    section: str = ""
    hidden: bool = False
    detail: bool = False
    refusals: tuple[Refusal, ...] = ()
    pick: str = ""
    total: bool = False
    among: Mapping[str, str] = field(default_factory=dict)
    whole: str = ""
    note_ideal: str = ""

    @property
    def uses(self) -> tuple[str, ...]:
        """The other metrics that its formulas read."""
        names = [name for one in self.alternatives for name in one.metrics]
        names += [name for one in self.bounds for name in one.metrics]
        names += [name for one in self.refusals for name in (one.when, *one.above.metrics)]
        names += [one.unless for one in self.refusals if one.unless]
        names += [*self.among.values(), *(name for name in (self.whole, self.note_ideal) if name)]
        return tuple(dict.fromkeys(names))

    @property
    def bounds(self) -> tuple[Expression, ...]:
        """Those ends of its possible range that are formulas."""
        return tuple(one for one in self.range or () if isinstance(one, Expression))

    @property
    def counters(self) -> tuple[str, ...]:
        """Every counter that any of its own formulas reads."""
        formulas = [one.expression for one in self.alternatives]
        formulas += [one.above for one in self.alternatives if one.above is not None]
        return tuple(dict.fromkeys(name for one in (*formulas, *self.bounds) for name in one.counters))


@dataclass(frozen=True, slots=True)
class MetricSet:
    """A named group of metrics that is collected and shown together."""

    name: str
    title: str
    doc: str
    file: str
    metrics: tuple[str, ...]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChipOverride:
    """What differs on the chips that match: metrics that are absent (pattern -> reason), fields that are
    replaced.
    """

    compute_capability: tuple[str, ...]
    absent: Mapping[str, str]
    metrics: Mapping[str, Metric]

    def applies_to(self, compute_capability: tuple[int, int]) -> bool:
        text = f"{compute_capability[0]}.{compute_capability[1]}"
        return any(fnmatchcase(text, pattern) for pattern in self.compute_capability)


@dataclass(frozen=True, slots=True)
class Definitions:
    """Everything the files say."""

    sets: Mapping[str, MetricSet]
    metrics: Mapping[str, Metric]
    chips: tuple[ChipOverride, ...]
    devices: Mapping[str, Mapping[str, float | str]]


def load_definitions(extra: Iterable[str | Path] = ()) -> Definitions:
    """The built-in sets, then the TOML files (or folders of them) in `extra`.

    A file named chips.toml holds chip overrides, every other one a set, which is called like the file.
    Raises ConfigError naming file, line, metric and the unknown symbol with near matches.
    """
    devices = load_devices()
    sets: dict[str, MetricSet] = {}
    metrics: dict[str, Metric] = {}
    chip_files: list[Path] = []
    for path in [*_files(_FOLDER), *(one for given in extra for one in _files(Path(given)))]:
        if path.name == _CHIPS_FILE:
            chip_files.append(path)
            continue
        reader = _SetReader(path)
        for metric in reader.metrics:
            if metric.name in metrics:
                raise reader.error(
                    f"the metric {metric.name!r} is already defined in {metrics[metric.name].file}",
                    metric.name,
                )
            metrics[metric.name] = metric
        if reader.set.name in sets:
            raise reader.error(
                f"the set {reader.set.name!r} is already defined in {sets[reader.set.name].file}"
            )
        sets[reader.set.name] = reader.set
    _check_names(metrics, devices)
    chips = tuple(chip for path in chip_files for chip in _chips(path, metrics, devices))
    return Definitions(sets, metrics, chips, devices)


@cache
def load_devices() -> dict[str, dict[str, float | str]]:
    """devices.toml: compute capability as text ("9.0") -> figures of the chip."""
    with _DEVICES_FILE.open("rb") as stream:
        return tomllib.load(stream)


def near(name: str, known: Iterable[str]) -> str:
    """` (did you mean a, b?)`, or nothing where no known name is near."""
    found = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f" (did you mean {', '.join(found)}?)" if found else ""


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.glob("*.toml"))
    if not path.is_file():
        raise ConfigError(f"{path}: no such file or folder of metric sets", "Check the path.")
    return [path]


def _load(path: Path) -> tuple[dict[str, Any], str]:
    try:
        text = read_text(path)
        return tomllib.loads(text), text
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or error
        raise ConfigError(f"{path}: cannot be read: {why}", "Check the file.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}", "Correct the line that it names.") from error


class _FileReader:
    """A TOML file of definitions, and how to tell what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.data, self._text = _load(path)

    def error(self, what: str, metric: str = "") -> ConfigError:
        line = _line_of(self._text, metric)
        where = f"{self._path}{f':{line}' if line else ''}{f', metric {metric!r}' if metric else ''}"
        return ConfigError(
            f"{where}: {what}", "Correct the file; docs/metrics.md shows every key and formula."
        )

    def alternatives(self, name: str, formulas: Any) -> tuple[Alternative, ...]:
        result = []
        for one in formulas if isinstance(formulas, list) else [formulas]:
            given = {"formula": one} if isinstance(one, str) else one
            if not isinstance(given, dict) or not isinstance(given.get("formula"), str):
                raise self.error('formula must be a text, { formula = "...", note = "..." }, or a list', name)
            self._check_keys(given, _ALTERNATIVE_KEYS, name)
            if ("where" in given) != ("above" in given):
                raise self.error("where (a metric) and above (a formula) belong together", name)
            result.append(
                Alternative(
                    self._parse(name, given["formula"]),
                    given.get("note", ""),
                    given.get("zero") == "undefined",
                    given.get("differs", ""),
                    given.get("where", ""),
                    self._parse(name, given["above"]) if "above" in given else None,
                )
            )
        return tuple(result)

    def range(self, name: str, limits: Any) -> tuple[Bound, Bound]:
        """Two numbers, or formulas for what depends on the chip."""
        if not (
            isinstance(limits, list)
            and len(limits) == 2
            and all(isinstance(one, (int, float, str)) for one in limits)
        ):
            raise self.error('range must be two numbers or formulas, for example [0, "2 * issue_rate"]', name)
        low, high = (self._parse(name, one) if isinstance(one, str) else float(one) for one in limits)
        return low, high

    def _parse(self, metric: str, formula: str) -> Expression:
        try:
            return parse(formula)
        except FormulaError as problem:
            raise self.error(str(problem), metric) from None

    def _check_keys(self, entry: Mapping[str, Any], known: set[str], metric: str) -> None:
        for key in entry:
            if key not in known:
                raise self.error(f"unknown key {key!r}{near(key, known)}", metric)


class _SetReader(_FileReader):
    """One file of a metric set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        data = self.data
        self._check_keys(data, _SET_KEYS, "")
        name = path.stem
        entries = dict(data.get("metrics", {}))
        entries.update(_expanded(data.get("each", {})))
        self.metrics = [self._whole(name, key, entry) for key, entry in entries.items()]
        self._resolve_among(entries)
        visible = tuple(metric.name for metric in self.metrics if not metric.hidden)
        self.set = MetricSet(
            name,
            data.get("title", name),
            data.get("doc", ""),
            str(path),
            visible,
            tuple(data.get("also", ())),
        )

    def _whole(self, set_name: str, name: str, entry: Any) -> Metric:
        try:
            return self.metric(set_name, name, entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"{type(error).__name__} {error}"
            raise self.error(f"one of its keys is not as it must be ({what})", name) from error

    def metric(self, set_name: str, name: str, entry: Any) -> Metric:
        if not isinstance(entry, dict) or not name.isidentifier():
            raise self.error("a metric is a table with a name of letters, digits and _", name)
        self._check_keys(entry, _METRIC_KEYS, name)
        for key in ("title", "unit", "doc"):
            if not isinstance(entry.get(key), str):
                raise self.error(f"{key} is missing, or is no text", name)
        if not any(key in entry for key in ("formula", "pick", "sum")):
            raise self.error("one of formula, pick and sum must be there", name)
        return Metric(
            name=name,
            set=set_name,
            title=entry["title"],
            unit=entry["unit"],
            doc=entry["doc"],
            file=str(self._path),
            digits=entry.get("digits"),
            range=self.range(name, entry["range"]) if "range" in entry else None,
            alternatives=self.alternatives(name, entry.get("formula", [])),
            collect=None if "collect" not in entry else tuple(entry["collect"]),
            section=entry.get("section", ""),
            hidden=entry.get("hidden", False),
            detail=entry.get("detail", False),
            refusals=tuple(
                Refusal(
                    one["when"],
                    self._parse(name, one.get("above", "0")),
                    one["reason"],
                    one.get("unless", ""),
                )
                for one in entry.get("refuse", ())
            ),
            pick=entry.get("pick", ""),
            total="sum" in entry,
            whole=entry.get("whole", ""),
            note_ideal=entry.get("note_ideal", ""),
        )

    def _resolve_among(self, entries: Mapping[str, Any]) -> None:
        names = [metric.name for metric in self.metrics]
        for index, metric in enumerate(self.metrics):
            among = entries[metric.name].get("among", entries[metric.name].get("sum"))
            if among is None:
                continue
            if isinstance(among, str):
                left_out = entries[metric.name].get("except", ())
                chosen = [name for name in names if fnmatchcase(name, among) and name not in left_out]
                prefix = among.rstrip("*")
                among = {name.removeprefix(prefix): name for name in chosen}
            self.metrics[index] = replace(metric, among=among)


def _expanded(each: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of an [each] table: one per name of its list, `<reason>` replaced in every text."""
    lists = {key: value for key, value in each.items() if key != "metrics"}
    result: dict[str, Any] = {}
    for key, values in lists.items():
        for template, entry in each.get("metrics", {}).items():
            for value in values:
                result[template.replace(f"<{key}>", value)] = _fill(entry, key, value)
    return result


def _fill(entry: Any, key: str, value: str) -> Any:
    if isinstance(entry, str):
        return entry.replace(f"<{key}>", value).replace(f"<{key} words>", _words(value))
    if isinstance(entry, list):
        return [_fill(one, key, value) for one in entry]
    if isinstance(entry, dict):
        return {name: _fill(one, key, value) for name, one in entry.items()}
    return entry


def _words(reason: str) -> str:
    """ncu's name of a stall reason as people write it: "LG throttle"."""
    return " ".join(one.upper() if one in _ACRONYMS else one for one in reason.split("_"))


def _line_of(text: str, metric: str) -> int:
    """The line that starts the metric's table, 0 where it cannot be told."""
    for number, line in enumerate(text.splitlines(), 1):
        if metric and line.strip().endswith((f"metrics.{metric}]", f'metrics."{metric}"]')):
            return number
    return 0


def _check_names(metrics: Mapping[str, Metric], devices: Mapping[str, Mapping[str, float | str]]) -> None:
    """Every name a formula uses must exist, and no metric may need itself."""
    figures = {figure for device in devices.values() for figure in device}
    for metric in metrics.values():
        where = f"{metric.file}, metric {metric.name!r}"
        remedy = "Correct the name, or define it."
        for name in metric.uses:
            if name not in metrics:
                raise ConfigError(f"{where}: unknown name {name!r}{near(name, metrics)}", remedy)
        formulas = [formula for one in metric.alternatives for formula in (one.expression, one.above)]
        for formula in (*formulas, *metric.bounds):
            for figure in formula.device if formula is not None else ():
                if figure not in figures:
                    raise ConfigError(
                        f"{where}: unknown figure device.{figure}{near(figure, figures)}", remedy
                    )
        if cycle := _cycle(metric.name, metrics, ()):
            raise ConfigError(f"{where}: needs itself: {' -> '.join(cycle)}", "Break the circle.")


def _cycle(name: str, metrics: Mapping[str, Metric], path: Sequence[str]) -> tuple[str, ...]:
    if name in path:
        return (*path, name)
    for used in metrics[name].uses if name in metrics else ():
        if found := _cycle(used, metrics, (*path, name)):
            return found
    return ()


def _chips(
    path: Path, metrics: Mapping[str, Metric], devices: Mapping[str, Mapping[str, float | str]]
) -> Iterable[ChipOverride]:
    reader = _FileReader(path)
    for chip in reader.data.get("chip", ()):
        replaced: dict[str, Metric] = {}
        for name, entry in chip.get("metrics", {}).items():
            if name not in metrics:
                raise reader.error(f"unknown metric {name!r}{near(name, metrics)}", name)
            fields: dict[str, Any] = {}
            if "formula" in entry:
                fields["alternatives"] = reader.alternatives(name, entry["formula"])
                fields["collect"] = tuple(entry["collect"]) if "collect" in entry else None
            if "range" in entry:
                fields["range"] = reader.range(name, entry["range"])
            replaced[name] = replace(metrics[name], **fields)
        _check_names({**metrics, **replaced}, devices)
        for pattern in chip.get("absent", {}):
            if not any(fnmatchcase(name, pattern) for name in metrics):
                raise reader.error(f"no metric matches {pattern!r}{near(pattern, metrics)}")
        yield ChipOverride(tuple(chip["compute_capability"]), dict(chip.get("absent", {})), replaced)
