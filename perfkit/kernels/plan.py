"""What one process is to launch, as numbers only: the PLAN.json that the runner reads.

Every expression of the problem size is evaluated here, in the process that reports errors to the user, so
that the process under ncu has nothing left to decide.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfkit.errors import UsageError
from perfkit.kernels.sizes import evaluate, problem_label
from perfkit.model import BuildResult, KernelSpec

SCHEMA_VERSION = 1
DEFAULT_CARVEOUT = -1  # cudaSharedmemCarveoutDefault: the driver chooses
MAX_SHARED_CARVEOUT = 100  # cudaSharedmemCarveoutMaxShared


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
        arguments=_arguments(spec, size),
        cubin=built.cubin if built else "",
        symbol=built.symbol if built else "",
        library=spec.library,
        grid=_dimensions(spec, "grid", spec.grid, size),
        block=_dimensions(spec, "block", spec.block, size),
        shared=_whole(spec, "shared", spec.shared, size),
        blocks_per_sm=blocks_per_sm,
        carveout=carveout,
        reference=_reference(spec),
        rtol=spec.rtol,
        atol=spec.atol,
        verify=verify,
    )


def _arguments(spec: KernelSpec, size: Mapping[str, int]) -> tuple[ArgumentPlan, ...]:
    plans = []
    for argument in spec.arguments:
        shape = tuple(_whole(spec, f"shape of {argument.name}", side, size) for side in argument.shape)
        value = 0 if argument.is_array else evaluate(argument.value, size)
        plans.append(
            ArgumentPlan(argument.name, argument.dtype, shape, argument.direction, argument.fill, value)
        )
    return tuple(plans)


def _dimensions(
    spec: KernelSpec, what: str, sides: Sequence[str], size: Mapping[str, int]
) -> tuple[int, ...]:
    values = tuple(_whole(spec, what, side, size) for side in sides)
    if any(value < 1 for value in values):
        raise UsageError(
            f"kernel {spec.key}: {what} is {values} at {problem_label(size)}",
            "Every side must be at least 1: choose a larger problem, or correct the expression.",
        )
    return values + (1,) * (3 - len(values)) if values else ()


def _whole(spec: KernelSpec, what: str, expression: str, size: Mapping[str, int]) -> int:
    value = evaluate(expression, size)
    if value != int(value):
        raise UsageError(
            f"kernel {spec.key}: {what} = {expression} is {value} at {problem_label(size)}, not a whole "
            "number",
            "Use // for a division that rounds down.",
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
