"""Formulas over counters: parsed to a whitelisted tree, compiled to closures, never `eval`ed.

    {smsp__inst_executed.sum}                            a counter, in SI units (percentages as fractions)
    {sass__inst_executed_per_opcode}[FFMA|FADD*]         the sum of a counter's instances with these names
    {sass__inst_executed_per_opcode}[class:fma]          ... of opcodes of a class (opcode_classes.py)
    {sass__inst_executed_per_opcode}[class:fma@fmas]     ... each times a figure of its opcode
    issue_rate * fma_share                               other metrics
    device.fp32_lanes_per_sm                             a figure of the chip from devices.toml
    + - * / ( ) numbers, min(...), max(...), ceil(...)   arithmetic

What a formula has no value for is said, never made up: a missing counter raises Missing with the counter's
name, a division by zero raises Undefined.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Protocol

from perfkit.analysis.counters import to_si
from perfkit.analysis.opcode_classes import CLASSES, FIGURES, figure_of, opcode_class
from perfkit.model import Counter, Status

FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "ceil": math.ceil}
_COUNTER = re.compile(r"\{([^{}]*)\}(?:\[([^\[\]]*)\])?")
_COUNTER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:]*")
_PLACEHOLDER = "_counter{}"
_CLASS = "class:"


class Missing(Exception):  # noqa: N818 - an outcome of evaluation, not an error
    """A counter (or the metric or chip figure `name`) that the launch does not have."""

    def __init__(self, name: str, kind: str = "counter", status: Status = Status.NOT_COLLECTED) -> None:
        super().__init__(name)
        self.name = name
        self.kind = kind
        self.status = status


class Undefined(Exception):  # noqa: N818 - an outcome of evaluation, not an error
    """The formula has no value although everything was collected: a division by zero. str() says of what."""


class FormulaError(ValueError):
    """A formula that does not parse; str() says why."""


class Scope(Protocol):
    """Where a formula's names get their values."""

    def counter(self, name: str) -> Counter:
        """The counter; raises Missing."""

    def metric(self, name: str) -> float:
        """Another metric's value; raises Missing or Undefined."""

    def device(self, name: str) -> float:
        """A figure of the chip; raises Missing."""


_Node = Callable[[Scope], float]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed formula: its text, the names it uses, and how to compute it."""

    text: str
    counters: tuple[str, ...]
    metrics: tuple[str, ...]
    device: tuple[str, ...]
    compute: _Node


def parse(text: str) -> Expression:
    """Parse a formula. Raises FormulaError, which says what is wrong and where."""
    counters: list[tuple[str, str | None]] = []

    def replace(found: re.Match[str]) -> str:
        name, pattern = found[1].strip(), found[2]
        if not _COUNTER_NAME.fullmatch(name):
            raise FormulaError(f"{{{name}}} is no counter name")
        counters.append((name, pattern))
        return f" {_PLACEHOLDER.format(len(counters) - 1)} "

    plain = _COUNTER.sub(replace, text)
    if stray := re.search(r"[{}\[\]]", plain):
        raise FormulaError(f"{stray[0]!r} without its partner in {text!r}")
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
    except SyntaxError as error:
        raise FormulaError(f"{text!r} is no formula: {error.msg}") from None
    builder = _Builder(text, counters)
    compute = builder.build(tree)
    names = tuple(dict.fromkeys(name for name, _ in counters))
    return Expression(text, names, tuple(builder.metrics), tuple(builder.device), compute)


class _Builder:
    """Turns a whitelisted syntax tree into closures, noting the names it meets."""

    def __init__(self, text: str, counters: list[tuple[str, str | None]]) -> None:
        self._text = text
        self._counters = counters
        self.metrics: dict[str, None] = {}
        self.device: dict[str, None] = {}

    def build(self, node: ast.expr) -> _Node:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                number = float(value)
                return lambda _scope: number
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.build(operand)
                return lambda scope: -inner(scope)
            case ast.BinOp(left=left, op=op, right=right):
                return self._arithmetic(op, self.build(left), self.build(right), ast.unparse(right))
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(value=ast.Name(id="device"), attr=figure):
                self.device[figure] = None
                return lambda scope: scope.device(figure)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS and args:
                function, values = FUNCTIONS[name], [self.build(one) for one in args]
                return lambda scope: float(function(*[value(scope) for value in values]))
        raise FormulaError(f"{ast.unparse(node)!r} is not allowed in a formula ({self._text!r})")

    def _arithmetic(self, op: ast.operator, left: _Node, right: _Node, divisor: str) -> _Node:
        match op:
            case ast.Add():
                return lambda scope: left(scope) + right(scope)
            case ast.Sub():
                return lambda scope: left(scope) - right(scope)
            case ast.Mult():
                return lambda scope: left(scope) * right(scope)
            case ast.Div():
                return _division(left, right, self._readable(divisor))
        raise FormulaError(f"the operator {type(op).__name__} is not allowed in a formula ({self._text!r})")

    def _readable(self, plain: str) -> str:
        for index in reversed(range(len(self._counters))):
            name, pattern = self._counters[index]
            shown = name if pattern is None else f"{name}[{pattern}]"
            plain = plain.replace(_PLACEHOLDER.format(index), shown)
        return plain

    def _name(self, name: str) -> _Node:
        if found := re.fullmatch(_PLACEHOLDER.format(r"(\d+)"), name):
            counter, pattern = self._counters[int(found[1])]
            if pattern is None:
                return lambda scope: _scalar(scope.counter(counter))
            instances = self._instances(pattern)
            return lambda scope: instances.total(scope.counter(counter))
        self.metrics[name] = None
        return lambda scope: scope.metric(name)

    def _instances(self, pattern: str) -> _Instances:
        names, at, figure = pattern.partition("@")
        patterns = tuple(one.strip() for one in names.split("|"))
        for one in patterns:
            if one.startswith(_CLASS):
                self._known(one.removeprefix(_CLASS), CLASSES, "class of opcodes")
        if at:
            self._known(figure.strip(), tuple(FIGURES), "figure of an opcode")
        return _Instances(patterns, figure.strip())

    def _known(self, name: str, known: tuple[str, ...], kind: str) -> None:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3) or known
            raise FormulaError(f"unknown {kind} {name!r} in {self._text!r} (there is {', '.join(close)})")


@dataclass(frozen=True, slots=True)
class _Instances:
    """Which instances of a counter are added up, each times `figure` of its opcode where one is named."""

    patterns: tuple[str, ...]
    figure: str

    def total(self, counter: Counter) -> float:
        """Raises Missing where the report does not hold the instances."""
        if counter.instances:
            named = ((str(name), value) for name, value in counter.instances)
            return float(sum(self._weight(name) * value for name, value in named if value))
        # Without instances the total says only whether anything could match: 0 in all is 0 of each.
        if counter.status is Status.OK and counter.value == 0:
            return 0.0
        raise Missing(counter.name)

    def _weight(self, name: str) -> float:
        if not _matches(name, self.patterns):
            return 0.0
        return figure_of(self.figure, name) if self.figure else 1.0


def _division(left: _Node, right: _Node, divisor: str) -> _Node:
    def divide(scope: Scope) -> float:
        above, below = left(scope), right(scope)
        if below == 0:
            raise Undefined(f"{divisor} is 0")
        return above / below

    return divide


def _scalar(counter: Counter) -> float:
    value = counter.value
    if counter.status is Status.NOT_COLLECTED or value is None or isinstance(value, str):
        raise Missing(counter.name)
    # Reports of 2019 give percentages without their unit.
    percent = not counter.unit and counter.name.endswith(("_pct", ".pct"))
    return to_si(value, "%" if percent else counter.unit)


@lru_cache(maxsize=16384)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(
        opcode_class(name) == one.removeprefix(_CLASS) if one.startswith(_CLASS) else fnmatchcase(name, one)
        for one in patterns
    )
