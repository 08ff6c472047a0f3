"""Which kernels are profiled at which sizes, and which of ncu's launches belong to which of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfkit.errors import UsageError
from perfkit.kernels.plan import KernelPlan
from perfkit.kernels.registry import load_registry, resolve
from perfkit.kernels.sizes import check_size, problem_label
from perfkit.model import KernelSpec
from perfkit.profiler.ncu_output import ProfiledLaunch

_HELD = re.compile(r"(.+)@(\d+)")


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """One kernel at one size, as asked for."""

    spec: KernelSpec
    size: Mapping[str, int]
    blocks_per_sm: int | None = None


def select(
    keys: Sequence[str],
    sizes: Sequence[Mapping[str, int]],
    blocks_per_sm: Sequence[int | None] = (None,),
) -> list[KernelRequest]:
    """Every kernel at every size and every number of blocks per SM, each once, size after size.

    Keys are those of registry.resolve, or `KEY@N` for a kernel held to N blocks. An empty size stands for a
    kernel's own. Library calls cannot be held to blocks per SM: they are left out where other kernels remain.
    Raises UsageError for an unknown kernel, a size that it does not take, or less than 1 block per SM.
    """
    registry = load_registry()
    asked: list[tuple[KernelSpec, int | None]] = []
    for key in keys:
        held = None if key in registry else _HELD.fullmatch(key)
        specs = resolve([held[1] if held else key], registry)
        blocks = [int(held[2])] if held else blocks_per_sm
        asked += [(spec, number) for spec in specs for number in blocks]
    if none := [number for _, number in asked if number is not None and number < 1]:
        raise UsageError(
            f"no kernel can be held to {none[0]} blocks per SM",
            "Give at least 1; `perfkit build` shows how many the registers allow.",
        )
    if all(spec.library and number is not None for spec, number in asked):
        raise UsageError(
            f"{', '.join(keys)}: a library call cannot be held to a number of blocks per SM",
            "Use --blocks-per-sm and KEY@N with kernels that are built from source.",
        )
    if any(not spec.library for spec, _ in asked):
        asked = [(spec, number) for spec, number in asked if not (spec.library and number is not None)]
    found = (KernelRequest(spec, check_size(spec, size), number) for size in sizes for spec, number in asked)
    return list({(r.spec.key, r.blocks_per_sm, problem_label(r.size)): r for r in found}.values())


def count_launches(
    wanted: Sequence[KernelRequest], plans: Sequence[KernelPlan], launches: Sequence[ProfiledLaunch]
) -> list[int]:
    """How many of the profiled launches belong to each plan.

    The runner launches in the order of the plans, a built kernel once and a library call as often as the
    library likes, so a call's launches end where the next built kernel's begins. (What the runner prints
    before each launch may overtake ncu's own lines, so it decides only between two library calls in a row.)
    """

    def belongs(launch: ProfiledLaunch, request: KernelRequest, plan: KernelPlan) -> bool:
        name = _function(launch.kernel)
        known = (plan.symbol, _function(request.spec.entry))
        if launch.kernel.endswith("..."):  # ncu shortens long names
            return any(one.startswith(name.removesuffix("...")) for one in known)
        return name in known

    counts, position = [], 0
    for index, (request, plan) in enumerate(zip(wanted, plans, strict=True)):
        count = 0
        following = plans[index + 1] if index + 1 < len(plans) else None
        for launch in launches[position:]:
            if not plan.library:
                count = int(belongs(launch, request, plan))
                break
            if following and not following.library and belongs(launch, wanted[index + 1], following):
                break
            if (
                following
                and following.library
                and (launch.label, launch.problem) != (plan.label, plan.problem)
            ):
                break
            count += 1
        counts.append(count)
        position += count
    return counts


def _function(name: str) -> str:
    """The bare function of a name as ncu prints it: "copy", or with its signature "copy(const float *)",
    "void ns::copy<4>(float *)".
    """
    plain = re.split(r"[<(]", name.replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    return plain.split()[-1].split("::")[-1] if plain.split() else ""
