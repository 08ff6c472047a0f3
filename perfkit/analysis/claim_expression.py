"""Expressions over measurements: `sectors_per_load(k1)`, `gflops(k8, n=4096) / gflops(cublas, n=4096)`.

Parsed by Python's own parser to a tree of which only the nodes below are allowed; Python never evaluates it.
A kernel is a bare word or a string ("k6b@1"); text with a unit ("17.18 GB", "65.9 %") is a number.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perfkit import units
from perfkit.analysis.measurements import NAMES
from perfkit.errors import UsageError
from perfkit.model.measurements import Measurements, Traced

# Short names for what an article says: (measurement, divisor, unit of the result).
ALIASES: Mapping[str, tuple[str, float, str]] = {
    "gflops": ("flop_rate", 1e9, ""),
    "conflicts": ("shared_load_conflicts", 1.0, ""),
    "registers": ("registers_per_thread", 1.0, ""),
    "milliseconds": ("time", 1e-3, ""),
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"abs": abs, "min": min, "max": max, "log": math.log}
_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_MAX_LENGTH = 1000


class MissingError(Exception):
    """A value the expression needs is not there. `kernel`: no such kernel or size was measured at all."""

    def __init__(self, message: str, *, kernel: bool) -> None:
        super().__init__(message)
        self.kernel = kernel


@dataclass(frozen=True, slots=True)
class Value:
    """A number (SI) or a word, with the unit that it is shown in."""

    value: float | str
    unit: str = ""

    @property
    def number(self) -> float:
        if isinstance(self.value, str):
            raise UsageError(f"{self.value!r} is a word where a number is needed")
        return self.value

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return self.value
        above, _, below = self.unit.partition("/")
        return units.format_value(self.value, "" if above == below else self.unit)


@dataclass(slots=True)
class Evaluator:
    """Evaluates expressions; calls without a size mean `problem`. Remembers in `used` what it read."""

    measurements: Measurements
    problem: str
    used: dict[str, Traced] = field(default_factory=dict)

    def parse(self, expression: str) -> ast.expr:
        """The tree of an expression. Raises UsageError naming what is not allowed."""
        if len(expression) > _MAX_LENGTH:
            raise UsageError(f"the expression is longer than {_MAX_LENGTH} characters")
        try:
            return ast.parse(expression.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise UsageError(f"cannot parse {expression!r}: {error}") from None

    def value(self, node: ast.expr) -> Value:
        """The value of a numeric expression (or a word). Raises MissingError and UsageError."""
        match node:
            case ast.Constant(value=bool()):
                raise UsageError("True and False are no values here")
            case ast.Constant(value=int() | float() as number):
                return Value(float(number))
            case ast.Constant(value=str() as text):
                return _literal(text)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.value(operand)
                return Value(-inner.number, inner.unit)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self._binary(left, op, right)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node)
        raise UsageError(f"{ast.unparse(node)!r} is not allowed in an expression", _ALLOWED)

    def _binary(self, left: ast.expr, op: ast.operator, right: ast.expr) -> Value:
        a, b = self.value(left), self.value(right)
        if isinstance(op, ast.Div) and b.number == 0:
            raise MissingError(f"{ast.unparse(right)} is 0: the ratio is undefined", kernel=False)
        result = _BINARY[type(op)](a.number, b.number)
        return Value(result, _unit(op, a.unit, b.unit))

    def _call(self, name: str, node: ast.Call) -> Value:
        if name in _FUNCTIONS:
            inner = [self.value(argument) for argument in node.args]
            if not inner or node.keywords or (name in ("abs", "log") and len(inner) != 1):
                raise UsageError(f"{ast.unparse(node)!r}: wrong arguments for {name}")
            if name == "log" and inner[0].number <= 0:
                raise MissingError(f"{ast.unparse(node)} is undefined", kernel=False)
            unit = "" if name == "log" else inner[0].unit
            return Value(float(_FUNCTIONS[name](*(item.number for item in inner))), unit)
        kernel = _word(node.args[0]) if len(node.args) == 1 else None
        if kernel is None:
            raise UsageError(
                f"{ast.unparse(node)!r}: give one kernel, as in {name}(k1) or {name}('k6b@1', n=4096)"
            )
        return self._measurement(name, kernel, _problem(node) or self.problem)

    def _measurement(self, name: str, kernel: str, problem: str) -> Value:
        real, divisor, unit = ALIASES.get(name, (name, 1.0, None))
        known = {*NAMES, *(key[0] for key in self.measurements.values)}
        if real not in known:
            near = difflib.get_close_matches(name, [*known, *ALIASES], 3)
            hint = f"Near: {', '.join(near)}." if near else f"Known: {', '.join(sorted(known))}."
            raise UsageError(f"unknown measurement {name!r}", hint)
        if kernel not in self.measurements.kernels:
            raise MissingError(f"no kernel {kernel!r} in the runs", kernel=True)
        if problem not in self.measurements.problems:
            raise MissingError(f"nothing was measured at {problem}", kernel=True)
        traced = self.measurements.get(real, kernel, problem)
        call = f"{name}({kernel}, {problem})" if problem else f"{name}({kernel})"
        if traced is None or traced.value is None:
            why = traced.reason if traced is not None and traced.reason else "not measured"
            raise MissingError(f"{call}: {why}", kernel=False)
        self.used[call] = traced
        if isinstance(traced.value, str):
            return Value(traced.value)
        return Value(traced.value / divisor, traced.unit if unit is None else unit)


_ALLOWED = "Allowed: numbers, text with a unit, + - * /, abs min max log, NAME(kernel), NAME(kernel, n=4096)."


def _literal(text: str) -> Value:
    try:
        number, unit = units.parse(text)
    except ValueError:
        return Value(text)
    return Value(float(number), unit)


def _unit(op: ast.operator, left: str, right: str) -> str:
    """The unit of a result, where it is plain: sums keep it, ratios of likes have none, scaling keeps it."""
    if isinstance(op, (ast.Add, ast.Sub)):
        return left or right
    if left != right:  # a share of something has its unit
        if right == units.FRACTION:
            right = ""
        elif left == units.FRACTION and right:
            left = ""
    if isinstance(op, ast.Div):
        above, _, below = left.partition("/")
        other, _, other_below = right.partition("/")
        if not right or left == right:
            return "" if right else left
        # FLOP over byte, FLOP/s over byte/s; anything else would be no unit that people write.
        return f"{above}/{other}" if above and below == other_below and above != other else ""
    return left if not right else right if not left else ""


def _word(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=str() as text):
            return text
    return None


def _problem(node: ast.Call) -> str:
    """ "n=4096" from the keywords of a call, in the order written (as problem labels are)."""
    parts = []
    for keyword in node.keywords:
        match keyword:
            case ast.keyword(arg=str() as name, value=ast.Constant(value=int() as size)):
                parts.append(f"{name}={size}")
            case _:
                raise UsageError(f"{ast.unparse(node)!r}: a size is a whole number, as in n=4096")
    return ",".join(parts)
