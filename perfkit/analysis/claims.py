"""Claims: statements about measurements in a TOML file, decided on a set of runs; and placeholders."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfkit import units
from perfkit.analysis.claim_expression import Evaluator, MissingError, Value
from perfkit.errors import ConfigError, UsageError
from perfkit.model.claims import Claim, ClaimResult, Outcome, Where
from perfkit.model.measurements import Measurements
from perfkit.user_file import read_text

SHIPPED = "article"  # the name of the article's own claims
_CLAIM_KEYS = {"id", "text", "expression", "expected", "tolerance", "where"}
_WHERE_KEYS = {"gpu", "compute_capability", "problem"}
_PLACEHOLDER = re.compile(r"(?<!\\)\{\{(.*?)\}\}", re.DOTALL)
_SIGNS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def shipped_claims() -> Path:
    """The file with the article's own claims."""
    return Path(__file__).resolve().parent.parent / "data" / "article_claims.toml"


def load_claims(path: Path) -> tuple[Claim, ...]:
    """The claims of a file. Raises ConfigError naming file, claim and key."""
    try:
        document = tomllib.loads(read_text(path))
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror or error}", "Give --claims a TOML file."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", "Correct the TOML at that line.") from None
    entries = document.get("claim")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: no [[claim]] in it", "A claim has id, text and expression.")
    claims = tuple(_claim(path, number, entry) for number, entry in enumerate(entries, start=1))
    seen: set[str] = set()
    for claim in claims:
        if claim.id in seen:
            raise ConfigError(f"{path}: two claims are called {claim.id!r}", "Give each its own id.")
        seen.add(claim.id)
    return claims


def _claim(path: Path, number: int, entry: Any) -> Claim:
    where = f"{path}: claim {number}"
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} is no table", "Write [[claim]].")
    where = f"{path}: claim {entry.get('id', number)!r}"
    conditions = entry.get("where", {})
    for found, known, what in ((entry, _CLAIM_KEYS, ""), (conditions, _WHERE_KEYS, "where.")):
        unknown = sorted(set(found) - known)
        if unknown:
            raise ConfigError(
                f"{where}: unknown key {what}{unknown[0]}", f"Keys: {', '.join(sorted(known))}."
            )
    for key in ("id", "expression"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise ConfigError(f"{where}: {key} is missing or no text", "A claim has id, text and expression.")
    capability = conditions.get("compute_capability", ())
    capabilities = (capability,) if isinstance(capability, str) else tuple(map(str, capability))
    gpu = str(conditions.get("gpu", ""))
    try:
        re.compile(gpu)
    except re.error as error:
        raise ConfigError(f"{where}: where.gpu is no regular expression: {error}", "Correct it.") from None
    return Claim(
        id=entry["id"],
        text=str(entry.get("text", "")),
        expression=entry["expression"],
        expected=entry.get("expected"),
        tolerance=entry.get("tolerance", 0.0),
        where=Where(gpu, capabilities, str(conditions.get("problem", ""))),
        file=str(path),
    )


def decide(claim: Claim, measurements: Measurements) -> ClaimResult:
    """Whether a claim holds. Raises ConfigError when its expression is wrong."""
    no = _does_not_apply(claim.where, measurements)
    if no:
        return ClaimResult(claim, Outcome.NOT_APPLICABLE, reason=no)
    evaluator = Evaluator(measurements, claim.where.problem or measurements.main_problem)
    try:
        if claim.expected is not None:
            return _meets(claim, evaluator)
        return _holds(claim, evaluator, evaluator.parse(claim.expression))
    except MissingError as missing:
        outcome = Outcome.NOT_APPLICABLE if missing.kernel else Outcome.UNDECIDED
        return ClaimResult(claim, outcome, reason=str(missing))
    except UsageError as error:
        raise ConfigError(f"{claim.file}: claim {claim.id!r}: {error.message}", error.remedy) from None


def _does_not_apply(where: Where, measurements: Measurements) -> str:
    if where.gpu and not re.search(where.gpu, measurements.gpu, re.IGNORECASE):
        return f"said of {where.gpu}; this is {measurements.gpu}"
    capability = measurements.compute_capability
    if where.compute_capability and capability is not None:
        shown = f"{capability[0]}.{capability[1]}"
        if shown not in where.compute_capability:
            said = ", ".join(where.compute_capability)
            return f"said of compute capability {said}; this is {shown}"
    if where.problem and where.problem not in measurements.problems:
        return f"said of {where.problem}; measured: {', '.join(measurements.problems)}"
    return ""


def _meets(claim: Claim, evaluator: Evaluator) -> ClaimResult:
    measured = evaluator.value(evaluator.parse(claim.expression))
    expected = claim.expected
    stated = (
        evaluator.value(ast.Constant(expected)) if isinstance(expected, str) else Value(float(expected or 0))
    )
    if not isinstance(stated.value, str) and not stated.unit:
        stated = Value(stated.value, measured.unit)
    _same_kind(measured, stated)
    holds = _equal(measured, stated, claim.tolerance)
    return ClaimResult(
        claim, Outcome.HOLDS if holds else Outcome.FAILS, str(measured), f"{stated}{_plus_minus(claim)}"
    )


def _holds(claim: Claim, evaluator: Evaluator, node: ast.expr) -> ClaimResult:
    match node:
        case ast.BoolOp(op=op, values=parts):
            results = [_holds(claim, evaluator, part) for part in parts]
            both = isinstance(op, ast.And)
            wanted = Outcome.FAILS if both else Outcome.HOLDS
            shown = next((result for result in results if result.outcome is wanted), results[-1])
            joined = " and " if both else " or "
            return ClaimResult(
                claim,
                shown.outcome,
                joined.join(result.measured for result in results),
                joined.join(result.stated for result in results),
            )
        case ast.Compare(left=left, ops=ops, comparators=rights):
            return _compare(claim, evaluator, [left, *rights], ops)
    raise UsageError(
        f"{claim.expression!r} compares nothing",
        "Write a comparison, or give the number it must meet as `expected`.",
    )


def _compare(claim: Claim, evaluator: Evaluator, nodes: list[ast.expr], ops: list[ast.cmpop]) -> ClaimResult:
    values = [evaluator.value(node) for node in nodes]
    holds = True
    for left, op, right in zip(values, ops, values[1:], strict=False):
        if type(op) not in _SIGNS:
            raise UsageError(f"{claim.expression!r}: only == != < <= > >= compare")
        _same_kind(left, right)
        holds = holds and _true(left, op, right, claim.tolerance)
    first, *others = values
    # A bare number is shown in the unit of what it is compared with.
    shown = [
        Value(item.value, first.unit) if not item.unit and not isinstance(item.value, str) else item
        for item in others
    ]
    stated = " ".join(f"{_SIGNS[type(op)]} {value}" for op, value in zip(ops, shown, strict=True))
    return ClaimResult(
        claim, Outcome.HOLDS if holds else Outcome.FAILS, str(first), f"{stated}{_plus_minus(claim)}"
    )


def _same_kind(a: Value, b: Value) -> None:
    """Raises UsageError for bytes against seconds; a bare number goes with all, a share with points."""
    shares = {units.FRACTION, units.POINT}
    if a.unit and b.unit and a.unit != b.unit and not {a.unit, b.unit} <= shares:
        raise UsageError(f"{a} is in {a.unit}, {b} in {b.unit}", "Say both in the same unit.")


def _true(left: Value, op: ast.cmpop, right: Value, tolerance: float | str) -> bool:
    if isinstance(op, (ast.Eq, ast.NotEq)):
        return _equal(left, right, tolerance) == isinstance(op, ast.Eq)
    margin = _margin(right, tolerance)
    difference = left.number - right.number
    if isinstance(op, (ast.Lt, ast.LtE)):
        return difference < margin or (isinstance(op, ast.LtE) and difference <= margin)
    return difference > -margin or (isinstance(op, ast.GtE) and difference >= -margin)


def _equal(measured: Value, stated: Value, tolerance: float | str) -> bool:
    if isinstance(measured.value, str) or isinstance(stated.value, str):
        return measured.value == stated.value
    # Fifteen digits: 0.1 + 0.2 is 0.3 here.
    margin = max(_margin(stated, tolerance), 1e-15 * abs(stated.value))
    return abs(measured.value - stated.value) <= margin


def _margin(reference: Value, tolerance: float | str) -> float:
    if not isinstance(tolerance, str):
        return float(tolerance)
    try:
        number, unit = units.parse(tolerance)
    except ValueError as error:
        raise UsageError(f"tolerance: {error}") from None
    if unit == units.FRACTION:
        return abs(reference.number) * number
    _same_kind(Value(float(number), unit), reference)
    return float(number)


def _plus_minus(claim: Claim) -> str:
    tolerance = claim.tolerance
    return f" ± {tolerance if isinstance(tolerance, str) else f'{tolerance:,}'}" if tolerance else ""


def fill(text: str, measurements: Measurements, name: str, embedded: Mapping[str, str]) -> str:
    r"""`text` with every `{{ EXPRESSION }}` replaced by its measured value; `\{{` stays.

    `{{ EXPRESSION | UNIT DIGITS }}` chooses unit and digits ("GB 2", "% 0", "- 1" for the bare SI number).
    `{{ table:climb }}` and `{{ figure:roofline }}` put in what `embedded` holds under that name.
    Raises UsageError naming `name`, the line and the placeholder for the first that cannot be replaced.
    """
    evaluator = Evaluator(measurements, measurements.main_problem)

    def replace(match: re.Match[str]) -> str:
        inner = match.group(1).strip()
        line = text.count("\n", 0, match.start()) + 1
        try:
            if inner in embedded:
                return embedded[inner]
            if inner.startswith(("table:", "figure:")):
                remedy = f"There are: {', '.join(embedded)}."
                if inner.startswith("figure:"):
                    remedy += " Figures need -o DIR, where they are written."
                raise UsageError(f"no {inner}", remedy)
            expression, _, spec = inner.partition("|")
            return _formatted(evaluator.value(evaluator.parse(expression)), spec.strip())
        except (UsageError, MissingError) as error:
            why = error.message if isinstance(error, UsageError) else str(error)
            remedy = error.remedy if isinstance(error, UsageError) else "Give the runs that hold it."
            raise UsageError(f"{name}, line {line}: {{{{ {inner} }}}}: {why}", remedy) from None

    return _PLACEHOLDER.sub(replace, text).replace("\\{{", "{{")


def _formatted(value: Value, spec: str) -> str:
    if not spec or isinstance(value.value, str):
        return str(value)
    unit, _, digits = spec.rpartition(" ") if " " in spec or spec.isdigit() else (spec, "", "1")
    if not digits.isdigit():
        raise UsageError(f"{spec!r} is no unit with digits", "Write `| GB 2`, `| % 0` or `| - 1`.")
    if unit in ("", "-"):
        return units.format_number(value.value, int(digits))
    factor, base = units.parse_unit(unit)
    if base != value.unit:
        raise UsageError(
            f"{unit!r} does not fit {value.unit or 'a plain number'}", "Choose a unit of that kind."
        )
    return f"{units.format_number(value.value / factor, int(digits))} {unit}"
