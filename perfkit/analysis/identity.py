"""Which launch is which: within one list of launches, and from one run to the next.

A launch is known by what ran (kernel and function, kind of workload, problem), how (grid and block), where
(GPU, device, process) and by its place among the launches that are alike in all of that. A name alone tells
nothing: names repeat, at other shapes, on other devices, for other code.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfkit.errors import UsageError
from perfkit.model import Device, Dim3, Evaluated, Launch, Process, WorkloadKind

_SPOKEN = 60  # characters of a full function name that a launch's name may hold


@dataclass(frozen=True, slots=True)
class Identity:
    """What a launch is known by; two launches of one list never share all of it.

    `device` is CUDA's number of the GPU, None where the report does not tell. `process` counts the processes
    of a report by their first launch: process ids are others in every run. `occurrence` counts the launches
    that are alike in everything else, in the order of the list.
    """

    kernel: str  # the registry key, else the function's short name
    function: str  # full, demangled
    kind: WorkloadKind = WorkloadKind.KERNEL
    problem: str = ""
    grid: Dim3 | None = None
    block: Dim3 | None = None
    gpu: str = ""
    device: int | None = None
    process: int = 0
    occurrence: int = 0

    def __str__(self) -> str:
        parts = [f"{self.kernel} {self.problem}".rstrip()]
        parts += [f"{name} {shape(dim)}" for name, dim in (("grid", self.grid), ("block", self.block)) if dim]
        parts += [f"device {self.device}"] if self.device else []
        parts += [f"process {self.process}"] if self.process else []
        parts += [f"occurrence {self.occurrence}"] if self.occurrence else []
        return ", ".join(parts)


def identities(launches: Iterable[Launch]) -> list[Identity]:
    """The identity of each launch, which depends on the whole list: give all launches of a check at once."""
    ranks: dict[str, dict[Process, int]] = defaultdict(dict)
    seen: Tally[Identity] = Tally()
    found = []
    for one in launches:
        rank = ranks[one.id.report]
        alike = Identity(
            one.label, one.name, one.kind, one.problem, one.grid, one.block, one.gpu, one.device.index,
            0 if one.process is None else rank.setdefault(one.process, len(rank)),
        )  # fmt: skip
        found.append(replace(alike, occurrence=seen[alike]))
        seen[alike] += 1
    return found


def names(launches: Sequence[Launch]) -> list[str]:
    """What to call each launch: kernel and problem, and of the rest what tells it from others called so.

    The launch's number in its report (as `perfkit show` gives it) stands at the end where nothing else does.
    """
    known = identities(launches)
    called = [f"{one.kernel} {one.problem}".rstrip() for one in known]
    files = {
        path: Path(name).with_suffix("") for path, name in report_names(o.id.report for o in launches).items()
    }
    groups: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(called):
        groups[name].append(index)
    for members in groups.values():
        if len(members) == 1:
            continue
        for spoken in _distinctions([known[index] for index in members]):
            for index in members:
                called[index] += spoken(known[index])
        again = Tally(called[index] for index in members)
        reports = {launches[index].id.report for index in members}
        for index in members:
            if again[called[index]] > 1:
                where = f" {files[launches[index].id.report]}" if len(reports) > 1 else ""
                called[index] += f"{where} #{launches[index].id.number}"
    return called


def _distinctions(known: Sequence[Identity]) -> list[Callable[[Identity], str]]:
    """How to say the fields in which these launches differ, short ones only."""
    functions = {one.function for one in known}
    found: list[Callable[[Identity], str]] = []
    if len(functions) > 1 and max(map(len, functions)) <= _SPOKEN:
        found.append(lambda one: f" {one.function}")
    if len({one.gpu for one in known}) > 1:
        found.append(lambda one: f" {one.gpu}")
    if len({one.grid for one in known}) > 1:
        found.append(lambda one: f" grid {shape(one.grid)}")
    if len({one.block for one in known}) > 1:
        found.append(lambda one: f" block {shape(one.block)}")
    if len({one.device for one in known} - {None}) > 1:
        found.append(lambda one: f" device {'unknown' if one.device is None else one.device}")
    if len({one.process for one in known}) > 1:
        found.append(lambda one: f" process {one.process}")
    return found


def report_names(paths: Iterable[str]) -> dict[str, str]:
    """A short name for each report: the file's, with its folder where several files are called alike."""
    unique = list(dict.fromkeys(paths))
    alike = Tally(Path(path).name for path in unique)
    return {
        path: Path(path).name if alike[Path(path).name] == 1 else "/".join(Path(path).parts[-2:])
        for path in unique
    }


def shape(dim: Dim3 | None) -> str:
    """A grid or block for people: "64x8x1"."""
    return "unknown" if dim is None else "x".join(map(str, dim))


def several_devices(launches: Iterable[Launch]) -> bool:
    """Whether launches on one model of GPU ran on more than one device. An unknown one (ncu tells none of a
    launch that it did not collect) is no further device.
    """
    known = {(one.gpu, one.device) for one in launches if one.device != Device()}
    return len({gpu for gpu, _ in known}) < len(known)


def several_processes(launches: Iterable[Launch]) -> bool:
    """Whether any report holds launches of more than one process, unknown ones not counted."""
    known = {(one.id.report, one.process) for one in launches if one.process is not None}
    return len({report for report, _ in known}) < len(known)


def device_text(device: Device) -> str:
    """A device within its model: CUDA's number, else its bus address or UUID, "" where nothing is known."""
    return str(device.index) if device.index is not None else device.pci or device.uuid


def devices(launches: Iterable[Launch]) -> dict[tuple[str, Device], str]:
    """(GPU, device) -> the device's text, told apart further where two of the launches' would read alike:
    processes that see one GPU each (CUDA_VISIBLE_DEVICES) all call theirs 0.
    """
    found = dict.fromkeys((one.gpu, one.device) for one in launches)
    read = Tally((gpu, device_text(device)) for gpu, device in found)
    return {
        (gpu, device): text
        if read[gpu, text := device_text(device)] == 1
        else " ".join(dict.fromkeys(filter(None, (text, device.pci or device.uuid))))
        for gpu, device in found
    }


def process_text(process: Process | None, *, host: bool = False) -> str:
    """A process for people: its id, with `host` where several machines took part."""
    if process is None:
        return ""
    return f"{process.host}:{process.pid}" if host and process.host else str(process.pid)


def processes(launches: Iterable[Launch]) -> dict[Process | None, str]:
    """Each process of these launches -> its text; with the host where there are several hosts."""
    found = dict.fromkeys(one.process for one in launches)
    hosts = {one.host for one in found if one is not None}
    return {one: process_text(one, host=len(hosts) > 1) for one in found}


def same_device(a: Launch, b: Launch) -> bool | None:
    """Whether both ran on one card, None where the reports do not tell.

    A UUID decides, then CUDA's number within one process, then a bus address within one host. Across
    processes CUDA's number is each one's own count.
    """
    one, other = a.device, b.device
    if one.uuid and other.uuid:
        return one.uuid == other.uuid
    within = a.id.report == b.id.report and a.process == b.process
    if within and None not in (one.index, other.index) and one.index != other.index:
        return False  # whatever address they bear
    hosts = [launch.process.host if launch.process else "" for launch in (a, b)]
    if one.pci and other.pci and (a.id.report == b.id.report or hosts[0] == hosts[1] != ""):
        return one.pci == other.pci
    if one.index is None or other.index is None:
        return None
    if one.index != other.index:
        return False
    return True if within else None


def called(launches: Iterable[Evaluated], name: str) -> list[Evaluated]:
    """The launches that `name` means: those of the kernel so labelled, else those of the function.

    Two builds of one function have two labels, and one of them may be the function's own name.
    """
    held = list(launches)
    return [one for one in held if one.launch.label == name] or [
        one for one in held if one.launch.kernel == name
    ]


def refuse_several(picked: Sequence[Evaluated], text: str) -> None:
    """Raise UsageError for launches that are no repetitions of one another, naming what differs.

    Repetitions are alike in kernel, function, grid, block, GPU and device.
    """
    if len(picked) < 2:
        return
    ways: Mapping[str, Callable[[Launch], object]] = {
        "kind of workload": lambda one: one.kind,
        "kernel": lambda one: one.key,
        "function": lambda one: one.name,
        "grid": lambda one: one.grid,
        "block": lambda one: one.block,
        "GPU": lambda one: one.gpu,
    }
    launches = [one.launch for one in picked]
    differ = [name for name, of in ways.items() if len({of(one) for one in launches}) > 1]
    kinds: set[object] = {tuple(of(one) for of in ways.values()) for one in launches}
    if any(same_device(launches[0], one) is False for one in launches[1:]):
        differ.append("device")
        kinds = {(one.device, *(of(one) for of in ways.values())) for one in launches}
    if differ:
        raise UsageError(
            f"{text} means {len(kinds)} kinds of launches that are no repetitions (they differ in "
            f"{' and '.join(differ)}): {listed(picked)}",
            f"Compare launches one by one: {picked[0].launch.id}.",
        )


def listed(launches: Sequence[Evaluated], most: int = 8) -> str:
    """Launches by number, with kernel (60 characters of it), problem, and what differs between them."""
    known = [one.launch for one in launches]
    where = devices(known)
    several = several_devices(known)
    grids = len({one.grid for one in known}) > 1
    said = []
    for one in known[:most]:
        label = one.label if len(one.label) <= _SPOKEN else f"{one.label[: _SPOKEN - 1]}…"
        parts = [label, one.problem]
        parts += [f"grid {shape(one.grid)}"] if grids and one.grid else []
        parts += [f"device {where[one.gpu, one.device]}"] if several else []
        said.append(f"{one.id.number} ({' '.join(filter(None, parts))})")
    rest = len(launches) - most
    return ", ".join(said) + (f" and {rest} more" if rest > 0 else "")
