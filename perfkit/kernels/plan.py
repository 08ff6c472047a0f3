"""What one process is to launch, as numbers only: the PLAN.json that the runner reads.

Every expression of the problem size is evaluated here, in the process that reports errors to the user, so
that the process under ncu has nothing left to decide.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfkit.errors import UsageError
from perfkit.kernels.sizes import evaluate, problem_label
from perfkit.model import Argument, BuildResult, KernelSpec

SCHEMA_VERSION = 1
DEFAULT_CARVEOUT = -1  # cudaSharedmemCarveoutDefault: the driver chooses
MAX_SHARED_CARVEOUT = 100  # cudaSharedmemCarveoutMaxShared
MAX_THREADS = 1024  # of a block, on every compute capability (CUDA programming guide)


@dataclass(frozen=True, slots=True)
class ArgumentPlan:
    """One kernel argument; an array when `shape` is not empty. `direction`: in, out, inout."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    direction: str = "in"
    fill: str = ""
    value: float | int = 0


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """One kernel at one size. `shared` is its own dynamic shared memory in bytes, before any ballast.

    `carveout` is the preferred share of the L1 that serves as shared memory, in percent; -1 leaves it to the
    driver.
    """

    key: str
    label: str
    problem: str
    size: Mapping[str, int]
    arguments: tuple[ArgumentPlan, ...]
    cubin: str = ""
    symbol: str = ""
    library: str = ""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    shared: int = 0
    blocks_per_sm: int | None = None
    carveout: int = DEFAULT_CARVEOUT
    reference: str = ""  # "", "cublas.sgemm" or "/abs/file.py:function"
    rtol: float = 0.0
    atol: float = 0.0
    verify: bool = True
    warmups: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything one runner process does, in order. `seed` makes the inputs."""

    result: str
    kernels: tuple[KernelPlan, ...]
    seed: int = 0
    schema_version: int = SCHEMA_VERSION
    extra: Mapping[str, Any] = field(default_factory=dict)


def label_of(key: str, blocks_per_sm: int | None) -> str:
    """`k6b`, or `k6b@1` when it is held to one resident block per SM."""
    return key if blocks_per_sm is None else f"{key}@{blocks_per_sm}"


def plan_kernel(
    spec: KernelSpec,
    built: BuildResult | None,
    size: Mapping[str, int],
    *,
    blocks_per_sm: int | None = None,
    carveout: int | None = None,
    verify: bool = True,
) -> KernelPlan:
    """Evaluate a registry entry for one problem size.

    Raises UsageError when an expression is wrong for this size, or a library call is to be held to N blocks.
    """
    if spec.library and blocks_per_sm is not None:
        raise UsageError(
            f"kernel {spec.key}: a library call cannot be held to {blocks_per_sm} blocks per SM",
            "Leave it out, or use --blocks-per-sm with kernels that are built from source.",
        )
    if carveout is None:
        # Ballast only holds a kernel to N blocks for sure when the carve-out is known, so it is asked for.
        carveout = DEFAULT_CARVEOUT if blocks_per_sm is None else MAX_SHARED_CARVEOUT
    return KernelPlan(
        key=spec.key,
        label=label_of(spec.key, blocks_per_sm),
        problem=problem_label(size),
        size=dict(size),
        arguments=plan_arguments(spec, size),
        cubin=built.cubin if built else "",
        symbol=built.symbol if built else "",
        library=spec.library,
        grid=plan_sides(spec, "grid", spec.grid, size),
        block=plan_sides(spec, "block", spec.block, size),
        shared=plan_whole(spec, "shared", spec.shared, size),
        blocks_per_sm=blocks_per_sm,
        carveout=carveout,
        reference=_reference(spec),
        rtol=spec.rtol,
        atol=spec.atol,
        verify=verify,
    )


def plan_arguments(spec: KernelSpec, size: Mapping[str, int]) -> tuple[ArgumentPlan, ...]:
    """The arguments at one size. Raises UsageError for a side below 1, or a value its dtype cannot hold."""
    plans = []
    for argument in spec.arguments:
        what = f"shape of {argument.name}"
        shape = tuple(plan_whole(spec, what, side, size, least=1) for side in argument.shape)
        value = 0 if argument.is_array else _scalar(spec, argument, size)
        plans.append(
            ArgumentPlan(argument.name, argument.dtype, shape, argument.direction, argument.fill, value)
        )
    return tuple(plans)


def _scalar(spec: KernelSpec, argument: Argument, size: Mapping[str, int]) -> int | float:
    limits = integer_limits(argument.dtype)
    if limits is None:
        return evaluate(argument.value, size)
    value = plan_whole(spec, argument.name, argument.value, size, least=limits[0])
    if value > limits[1]:
        raise UsageError(
            f"kernel {spec.key}: {argument.name} = {argument.value} is {value} at {problem_label(size)}, "
            f"more than {argument.dtype} holds",
            "Choose a smaller problem, or a wider type in the kernel and here.",
        )
    return value


def integer_limits(dtype: str) -> tuple[int, int] | None:
    """The least and the largest value of an integer type by numpy's name; None for another type."""
    kind, bits = dtype.rstrip("0123456789"), int("0" + dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))
    if kind not in ("int", "uint"):
        return None
    return (0, 2**bits - 1) if kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def plan_sides(spec: KernelSpec, what: str, sides: Sequence[str], size: Mapping[str, int]) -> tuple[int, ...]:
    """Grid or block at one size, filled up to three sides. Raises UsageError where it cannot be launched."""
    values = tuple(plan_whole(spec, what, side, size, least=None) for side in sides)
    if any(value < 1 for value in values):
        raise UsageError(
            f"kernel {spec.key}: {what} is {values} at {problem_label(size)}",
            "Every side must be at least 1: choose a larger problem, or correct the expression.",
        )
    if what == "block" and math.prod(values) > MAX_THREADS:
        raise UsageError(
            f"kernel {spec.key}: block is {values} at {problem_label(size)}: {math.prod(values)} threads",
            f"A block has at most {MAX_THREADS}.",
        )
    return values + (1,) * (3 - len(values)) if values else ()


def plan_whole(
    spec: KernelSpec, what: str, expression: str, size: Mapping[str, int], *, least: int | None = 0
) -> int:
    """An expression that must be a whole number of at least `least`. Raises UsageError where it is not."""
    value = evaluate(expression, size)
    if value != int(value):
        raise UsageError(
            f"kernel {spec.key}: {what} = {expression} is {value} at {problem_label(size)}, not a whole "
            "number",
            "Use // for a division that rounds down.",
        )
    if least is not None and value < least:
        raise UsageError(
            f"kernel {spec.key}: {what} = {expression} is {int(value)} at {problem_label(size)}",
            f"It must be at least {least}: choose another problem, or correct the expression.",
        )
    return int(value)


def _reference(spec: KernelSpec) -> str:
    """A Python reference is named relative to the file that registers the kernel."""
    file, colon, function = spec.reference.rpartition(":")
    if not colon or spec.origin == "built-in":
        return spec.reference
    return f"{(Path(spec.origin).parent / file).resolve()}:{function}"


def write_plan(plan: Plan, path: Path) -> None:
    """Write PLAN.json."""
    path.write_text(json.dumps(dataclasses.asdict(plan), indent=1), encoding="utf-8")


def read_plan(path: Path) -> Plan:
    """Read PLAN.json back. Raises UsageError when it was written by another version of perfkit."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    if raw.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{path}: a plan of schema {raw.get('schema_version')}, this perfkit reads {SCHEMA_VERSION}",
            "Plans are made by the perfkit that runs them; do not mix two installations.",
        )
    kernels = []
    for entry in raw.pop("kernels"):
        arguments = tuple(
            ArgumentPlan(**{**argument, "shape": tuple(argument["shape"])})
            for argument in entry.pop("arguments")
        )
        entry["grid"], entry["block"] = tuple(entry["grid"]), tuple(entry["block"])
        kernels.append(KernelPlan(arguments=arguments, **entry))
    return Plan(kernels=tuple(kernels), **raw)
