"""What a report says of a launch: counters as stored, and metrics derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

Dim3 = tuple[int, int, int]


class Status(StrEnum):
    """Whether a value can be used, and if not, why."""

    OK = "ok"
    NOT_COLLECTED = "not_collected"  # the report does not hold it, or holds NaN
    NOT_ON_CHIP = "not_on_chip"  # the chip has no such counter
    INVALID = "invalid"  # outside its possible range, or contradicted by another counter: kept and flagged
    UNDEFINED = "undefined"  # 0 / 0: collected, but the ratio has no value


class WorkloadKind(StrEnum):
    """What ncu profiled as one result. Only a kernel has a grid, a block and registers."""

    KERNEL = "kernel"
    RANGE = "range"
    GRAPH = "graph"
    COMMAND_LIST = "command_list"


@dataclass(frozen=True, slots=True)
class Device:
    """The GPU a launch ran on, beside its model's name, which two GPUs of one machine share.

    `index` is CUDA's number within the process, which CUDA_VISIBLE_DEVICES renumbers; `pci` is the bus
    address "0000:06:00"; `uuid` is set where the run beside the report knows it.
    """

    index: int | None = None
    pci: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """The process that made a launch."""

    pid: int
    host: str = ""
    executable: str = ""


@dataclass(frozen=True, slots=True)
class Counter:
    """One metric of one launch as the report stores it, in the report's unit.

    `instances` are the (correlation id, value) pairs of an instanced metric, for example opcode -> count.
    """

    name: str
    value: float | int | str | None
    unit: str
    status: Status = Status.OK
    instances: tuple[tuple[str | int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A metric of `analysis/metric_sets` evaluated on one launch, in SI units, fractions 0..1.

    `value` is None unless status is ok or invalid. `formula` is the alternative that answered and
    `counters` the counters it read, so that every shown number can be traced. `reason` says why a value is
    missing, with the ncu option that would collect it.
    """

    name: str
    value: float | str | None
    unit: str
    status: Status = Status.OK
    reason: str = ""
    formula: str = ""
    counters: tuple[str, ...] = ()

    @property
    def number(self) -> float:
        """The value as a float, NaN where there is none to use (INVALID values are returned: they are
        kept).
        """
        return float(self.value) if isinstance(self.value, (int, float)) else float("nan")


@dataclass(frozen=True, slots=True, order=True)
class LaunchId:
    """What identifies a launch. The kernel name does not: names repeat."""

    report: str
    range: int
    launch: int

    @property
    def number(self) -> str:
        """The launch within its report: "3", or "1.3" in a range other than the first."""
        return f"{self.range}.{self.launch}" if self.range else str(self.launch)

    def __str__(self) -> str:
        return f"{self.report}:{self.number}"


@dataclass(frozen=True, slots=True)
class Launch:
    """One profiled result: a kernel execution, or (see `kind`) a range or graph, which has no grid or block.

    `key` and `problem` are set where perfkit's own runner launched it, read from the NVTX range
    `perfkit:<key>:<problem>` that the runner pushes (key `k6b@1` = k6b held to one block per SM; problem
    `n=4096`). `collected` is False when not even the duration was measured.
    """

    id: LaunchId
    kernel: str  # function name, short
    name: str  # full, demangled
    gpu: str
    compute_capability: tuple[int, int]
    ncu_version: str  # of the ncu that wrote the report, "" when the file does not say
    grid: Dim3 | None
    block: Dim3 | None
    collected: bool
    key: str | None = None
    problem: str = ""
    nvtx: tuple[str, ...] = ()
    kind: WorkloadKind = WorkloadKind.KERNEL
    device: Device = Device()
    process: Process | None = None  # None where the report does not tell
    counters: Mapping[str, Counter] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def label(self) -> str:
        """What people call it: the registry key where there is one, else the function name."""
        return self.key or self.kernel


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two independent readings of one fact that differ by more than replay passes can.

    `what` names the fact; `readings` are (how it was read, value) pairs in `unit`; `tolerance` is the
    relative difference that was allowed. The values of `metrics` that rest on it have status invalid.
    `likely` says where they probably come from, "" where the launch shows no cause.
    """

    what: str
    readings: tuple[tuple[str, float], tuple[str, float]]
    unit: str
    tolerance: float
    metrics: tuple[str, ...] = ()
    likely: str = ""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A launch and its metrics by name, and where its counters contradict one another."""

    launch: Launch
    metrics: Mapping[str, MetricValue]
    contradictions: tuple[Contradiction, ...] = ()

    def number(self, name: str) -> float:
        """`metrics[name]` as a float; NaN where the metric is missing or has no value."""
        metric = self.metrics.get(name)
        return metric.number if metric is not None else float("nan")
