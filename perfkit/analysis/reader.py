"""The reader library: finding ncu_report, and everything that is asked of it.

Only this file and what it calls know ncu_report's interface, which grew over the releases: what an older
reader lacks is detected, never assumed. What comes back is plain tuples, so that a reading process can send
it home cheaply.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from perfkit.analysis.counters import Raw
from perfkit.analysis.opcode_counts import (
    OPCODE_METRICS,
    kernel_of,
    listing_file,
    opcodes_of_action,
    own_label,
    read_listings,
    unfit,
    unlisted,
)
from perfkit.errors import CannotError

# range, launch, function name, demangled name, kind of workload, NVTX ranges, collected, counters. A launch
# that the library could not parse has no name and no counters.
RawLaunch = tuple[int, int, str, str, str, tuple[str, ...], bool, dict[str, Raw]]

# Read for every launch, whatever else is asked for.
IDENTITY = (
    "device__attribute_display_name",
    "device__attribute_compute_capability_major",
    "device__attribute_compute_capability_minor",
    "device__attribute_pci_domain_id",
    "device__attribute_pci_bus_id",
    "device__attribute_pci_device_id",
    "launch__device_id",
    "launch__grid_dim_x",
    "launch__grid_dim_y",
    "launch__grid_dim_z",
    "launch__block_dim_x",
    "launch__block_dim_y",
    "launch__block_dim_z",
)
DURATIONS = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration")
# Known without running the kernel: their presence does not show that anything was measured.
_NOT_MEASURED = re.compile(
    r"device__|launch__|profiler__|nvlink__|numa__|c2clink__|nic__|thread_inst_executed_true$|.*maximum_warps|.*occupancy|"
    r".*peak_sustained|sass__|derived|memory_|group:|breakdown:"
)


@cache
def library() -> Any:
    """The module `ncu_report`: from Python's path, else from the newest Nsight Compute installation.

    Raises CannotError when there is none.
    """
    try:
        import ncu_report
    except ImportError:
        pass
    else:
        return ncu_report
    for folder in _installed():
        sys.path.insert(0, str(folder))
        try:
            import ncu_report
        except ImportError:
            sys.path.remove(str(folder))
        else:
            return ncu_report
    raise CannotError(
        "cannot read reports: the Python module ncu_report is not there",
        "Install it with `pip install ncu-report`, or install Nsight Compute (it is in extras/python).",
    )


def library_version() -> str:
    """The reader's own release, for example "2026.3.1"; "" where it does not say."""
    from importlib.metadata import PackageNotFoundError, version

    module = library()
    if "site-packages" in str(module.__file__):
        try:
            return version("ncu-report")
        except PackageNotFoundError:
            return ""  # somebody copied it there
    found = re.search(r"20\d\d\.\d+\.\d+", str(module.__file__))
    return found[0] if found else ""


def _installed() -> list[Path]:
    """`extras/python` of every Nsight Compute on this machine, newest release first."""
    import shutil

    roots: list[Path] = []
    if ncu := shutil.which("ncu"):
        # ncu on PATH may be a link or a wrapper, in the installation's root or in target/<platform>/.
        roots += list(Path(ncu).resolve().parents)[:4]
    roots += Path("/opt/nvidia/nsight-compute").glob("*")
    for cuda in Path("/usr/local").glob("cuda*"):
        roots += cuda.glob("nsight-compute*")
    folders = {root / "extras" / "python" for root in roots}
    return sorted(
        (f for f in folders if (f / "ncu_report.py").is_file() or (f / "ncu_report").is_dir()),
        key=_release,
        reverse=True,
    )


def _release(folder: Path) -> tuple[int, ...]:
    found = re.findall(r"(20\d\d)\.(\d+)\.(\d+)", str(folder.resolve()))
    return tuple(map(int, found[-1])) if found else (0, 0, 0)


def read_raw(
    path: str, counters: Sequence[str] | None, beside: str = ""
) -> tuple[list[RawLaunch], tuple[str, ...]]:
    """Every launch of the file with those of `counters` that it holds (and IDENTITY and DURATIONS; None:
    all), and sentences about what is wrong with what lies beside the report.

    `beside` is the report's own path where `path` is a copy of it. Raises whatever the library raises; use
    report.read_reports, which says what that means.
    """
    module = library()
    wanted = None if counters is None else tuple(dict.fromkeys((*IDENTITY, *DURATIONS, *counters)))
    instanced = {} if wanted is None else {name: _may_have_instances(name) for name in wanted}
    getters, kinds = _getters(module), _kinds(module)
    units: dict[str, str] = {}
    context = module.load_report(path)
    actions = [
        (range_index, index, found.action_by_idx(index))
        for range_index in range(context.num_ranges())
        for found in (context.range_by_idx(range_index),)
        for index in range(found.num_actions())
    ]
    launches: list[RawLaunch] = []
    read: list[tuple[RawLaunch, Any]] = []
    for range_index, index, action in actions:
        # Of a result that it cannot parse the library makes an action without a name.
        if action is None or not action.name():
            launches.append((range_index, index, "", "", "", (), False, {}))
            continue
        names = counter_names(action) if wanted is None else wanted
        values = _counters(action, names, instanced, getters, units)
        launch = (
            range_index,
            index,
            text_of(action.name()),
            text_of(action.name(module.IAction.NameBase_DEMANGLED) or action.name()),
            _kind(action, kinds),
            _nvtx(action),
            _collected(action, values),
            values,
        )
        launches.append(launch)
        read.append((launch, action))
    return launches, _add_opcodes(read, Path(beside or path), wanted or OPCODE_METRICS)


def _add_opcodes(
    read: Sequence[tuple[RawLaunch, Any]], report: Path, wanted: Sequence[str]
) -> tuple[str, ...]:
    """Give launches the opcode metrics that the listings beside the report make; returns what is wrong with
    them.
    """
    listings = read_listings(report)
    if not listings:
        return (listings.problem,) if listings.problem else ()
    mangled = library().IAction.NameBase_MANGLED
    whose = [(kernel_of(own_label(launch[5])[0]), action.name(mangled)) for launch, action in read]
    listings, file = listings.told_apart(whose), listing_file(report).name
    strangers: list[str] = []
    for (launch, action), (key, symbol) in zip(read, whose, strict=True):
        made = opcodes_of_action(action, listings.of(key, symbol), wanted)
        if made is None:
            strangers.append(key or launch[2])
        launch[7].update(made or {})
    problems = [listings.problem, unfit(strangers, file) if strangers else ""]
    if set(OPCODE_METRICS) & set(wanted):
        problems += unlisted(listings, whose, file)
    return tuple(filter(None, problems))


def counter_names(action: Any) -> tuple[str, ...]:
    """The counters of an action that can be asked for: not those whose name damage has made other bytes than
    UTF-8 (the container walk counts them), at which the library fails.
    """
    return tuple(name for name in action.metric_names() if name.isascii() or text_of(name) == name)


def text_of(found: object) -> str:
    """A text of the report: bytes that are not UTF-8 come as lone surrogates, which nothing can print."""
    text = "" if found is None else str(found)
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8", "replace")


def _kinds(module: Any) -> dict[int, str]:
    """Number of a workload type -> WorkloadKind, as far as this reader knows them."""
    words = {"KERNEL": "kernel", "RANGE": "range", "GRAPH": "graph", "CMDLIST": "command_list"}
    found = {getattr(module.IAction, f"WorkloadType_{name}", None): kind for name, kind in words.items()}
    return {number: kind for number, kind in found.items() if number is not None}


def _kind(action: Any, kinds: dict[int, str]) -> str:
    """The kind of workload; "" where the reader is too old to tell, or the kind too new."""
    if not kinds or not hasattr(action, "workload_type"):
        return ""
    return kinds.get(action.workload_type(), "")


def _getters(module: Any) -> dict[int, str]:
    """Value kind -> name of the method that gives it. (IMetric.value() builds such a table at every call.)"""
    kind = module.IMetric
    return {
        kind.ValueKind_DOUBLE: "as_double",
        kind.ValueKind_FLOAT: "as_double",
        kind.ValueKind_STRING: "as_string",
        kind.ValueKind_UINT32: "as_uint64",
        kind.ValueKind_UINT64: "as_uint64",
    }


def _may_have_instances(name: str) -> bool:
    """Metrics with a rollup (`.sum`) have none; asking each would cost a tenth of the reading time."""
    if name.startswith(("device__", "launch__")):
        return name.startswith("launch__occupancy_per")
    return "." not in name or ":" in name


def _counters(
    action: Any,
    wanted: tuple[str, ...],
    instanced: dict[str, bool],
    getters: dict[int, str],
    units: dict[str, str],
) -> dict[str, Raw]:
    values: dict[str, Raw] = {}
    by_name = action.metric_by_name
    for name in wanted:
        metric = by_name(name)
        if metric is None:
            continue
        getter = getters.get(metric.kind())
        value = getattr(metric, getter)() if getter else None
        if getter == "as_string":
            value = text_of(value)
        unit = units.get(name)
        if unit is None:
            unit = units[name] = text_of(metric.unit())
        values[name] = (value, unit, _instances(metric, getters) if instanced.get(name, True) else ())
    return values


def _instances(metric: Any, getters: dict[int, str]) -> tuple[tuple[str | int, float], ...]:
    count = metric.num_instances()
    if not count:
        return ()
    getter = getters.get(metric.kind())
    if getter is None or getter == "as_string":
        return ()
    get = getattr(metric, getter)
    if not metric.has_correlation_ids():
        return tuple((index, get(index)) for index in range(count))
    ids = metric.correlation_ids()
    get_id = getattr(ids, getters.get(ids.kind(), "as_uint64"))
    if get_id.__name__ == "as_string":
        return tuple((text_of(get_id(index)), get(index)) for index in range(count))
    return tuple((get_id(index), get(index)) for index in range(count))


def _nvtx(action: Any) -> tuple[str, ...]:
    """Names of the push/pop and start/end ranges the launch lies in, outermost first, domain by domain."""
    state = action.nvtx_state()
    if state is None:
        return ()
    names: list[str] = []
    for domain in state.domains():
        info = state.domain_by_id(domain)
        if info is not None:
            names += info.push_pop_ranges()
            names += info.start_end_ranges()
    return tuple(map(text_of, names))


def _collected(action: Any, values: dict[str, Raw]) -> bool:
    """Whether anything was measured: the duration, or (in a report of other metrics) any hardware counter."""
    durations = [values[name][0] for name in DURATIONS if name in values]
    if durations:
        return any(_number(value) for value in durations)
    for name in counter_names(action):
        if "__" in name and not _NOT_MEASURED.match(name):
            metric = action.metric_by_name(name)
            if metric is not None and _number(metric.value()):
                return True
    return False


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not math.isnan(value)
