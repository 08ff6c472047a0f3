"""Problem sizes, and the expressions of them that a registry entry is made of.

An expression holds the names of the problem size, whole and decimal numbers, + - * / // % ** and
parentheses, and the functions abs, ceil, floor, max, min. It means what it means in Python; it is parsed to
a whitelisted tree and never evaluated by Python itself.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from perfkit.errors import UsageError
from perfkit.model import KernelSpec

Number = int | float

MAX_LENGTH = 500  # characters of an expression
MAX_BITS = 4096  # of a whole-number result: 9**9**9 must be an error, not an hour

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int]] = {  # function, fewest and most arguments
    "abs": (abs, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "floor": (math.floor, 1, 1),
    "max": (max, 2, 8),
    "min": (min, 2, 8),
}
_ALLOWED = "Use the names of the size, numbers, + - * / // % ** ( ) and abs, ceil, floor, max, min."


def evaluate(expression: str, size: Mapping[str, int]) -> int | float:
    """The value of `expression` for a problem size such as {"n": 4096}.

    `/` between whole numbers gives a whole number where it divides without a remainder, so that byte counts
    stay exact. Raises UsageError for anything outside of the language, an unknown name, a division by 0, or
    a result that no float can hold.
    """
    try:
        value = _value(_parse(expression), size, expression)
    except ZeroDivisionError as error:
        raise UsageError(f"expression {expression!r} divides by 0 at {problem_label(size)}") from error
    except (OverflowError, ValueError, RecursionError) as error:
        raise UsageError(
            f"expression {expression!r} cannot be computed at {problem_label(size)}", str(error)
        ) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(
            f"expression {expression!r} is {value} at {problem_label(size)}", "Choose a smaller problem."
        )
    return value


@lru_cache(maxsize=1024)
def _parse(expression: str) -> ast.expr:
    if len(expression) > MAX_LENGTH:
        raise UsageError(f"expression of {len(expression)} characters", f"At most {MAX_LENGTH} are allowed.")
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"expression {expression!r} is not well formed", _ALLOWED) from error


def _value(node: ast.expr, size: Mapping[str, int], text: str) -> Number:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as constant):
            return constant
        case ast.Name(id=name):
            return _lookup(name, size, text)
        case ast.UnaryOp(op=unary, operand=inner) if type(unary) in _UNARY:
            return _UNARY[type(unary)](_value(inner, size, text))
        case ast.BinOp(left=left, op=binary, right=right):
            a, b = _value(left, size, text), _value(right, size, text)
            if isinstance(binary, ast.Pow):
                return _power(a, b)
            if isinstance(binary, ast.Div):
                return _divide(a, b)
            if type(binary) in _BINARY:
                return _bounded(_BINARY[type(binary)](a, b))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            function, fewest, most = _FUNCTIONS[name]
            if not fewest <= len(args) <= most:
                count = str(fewest) if fewest == most else f"{fewest} to {most}"
                raise UsageError(f"expression {text!r}: {name} takes {count} values, not {len(args)}")
            return function(*(_value(arg, size, text) for arg in args))
    raise UsageError(f"expression {text!r}: {ast.unparse(node)!r} is not allowed", _ALLOWED)


def _lookup(name: str, size: Mapping[str, int], text: str) -> int:
    if name in size:
        return size[name]
    near = difflib.get_close_matches(name, [*size, *_FUNCTIONS], n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"expression {text!r}: {name} is no name of the problem size",
        f"{hint}The size has: {', '.join(size) or 'no names'}.",
    )


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int) and b != 0 and a % b == 0:
        return a // b
    return a / b


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        if abs(base) > 1 and exponent * abs(base).bit_length() > 2 * MAX_BITS:
            raise OverflowError("The power is too large.")
        return _bounded(base**exponent)
    power = base**exponent
    if isinstance(power, complex):
        raise ValueError("A root of a negative number is not a real number.")
    return power


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise OverflowError("The number is too large.")
    return value


def check_size(spec: KernelSpec, size: Mapping[str, int]) -> dict[str, int]:
    """The whole problem size of a kernel: what was asked for, completed with the registry's defaults.

    Raises UsageError for a name the kernel does not have, a value below 1, or a value that is no multiple of
    what the kernel needs.
    """
    for name in size:
        if name not in spec.size:
            near = difflib.get_close_matches(name, spec.size, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"kernel {spec.key} has no size named {name}",
                f"{hint}Its sizes and their defaults: {problem_label(spec.size) or 'none'}.",
            )
    full = {name: int(size.get(name, default)) for name, default in spec.size.items()}
    for name, value in full.items():
        step = spec.multiple_of.get(name, 1)
        if value < 1:
            raise UsageError(f"kernel {spec.key}: {name} = {value}", f"{name} must be at least {step}.")
        if value % step:
            below, above = value // step * step, (value // step + 1) * step
            nearest = f"{below} or {above}" if below else str(above)
            raise UsageError(
                f"kernel {spec.key}: {name} = {value} is not a multiple of {step}",
                f"Choose a multiple of {step}, for example {nearest}.",
            )
    return full


def problem_label(size: Mapping[str, int]) -> str:
    """`n=4096`, or `m=128,k=64`: how a problem is written in labels, tables and NVTX ranges."""
    return ",".join(f"{name}={value}" for name, value in size.items())


def parse_sizes(n: Sequence[int] = (), named: Sequence[str] = ()) -> list[dict[str, int]]:
    """The problems that `-n 1024 -n 4096` and `--size m=128,k=64` (repeatable) ask for.

    Several `-n` are several problems; named sizes go into each of them. Nothing asked for is one problem,
    {}: the defaults. Raises UsageError for text that is not NAME=WHOLE NUMBER, or a name given twice.
    """
    shared: dict[str, int] = {}
    for part in (part for text in named for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name.isidentifier() or not value.isdecimal():
            raise UsageError(f"size {part!r} is not NAME=NUMBER", "Write --size m=128 or --size m=128,k=64.")
        if name in shared or (name == "n" and n):
            raise UsageError(
                f"size {name} was given twice", "Give each name one value; only -n may be repeated."
            )
        shared[name] = int(value)
    return [{"n": value, **shared} for value in dict.fromkeys(n)] or [shared]
