"""What a program launched, by kernel: `perfkit profile --list`."""

from __future__ import annotations

from pathlib import Path

from perfkit.model import Cell, Column, Launch, Table, WorkloadKind

_TIME = "gpu__time_duration.sum"


def launch_list(report: Path) -> tuple[Table, int]:
    """One row a kernel name, in order of first launch; and how many launches there were in all.

    Launches of one name that differ in grid or block are one row: the row says how many shapes it had. Those
    on another device, and what is not a kernel, have a row of their own.
    """
    from perfkit.analysis.identity import devices, several_devices
    from perfkit.analysis.report import read_report

    launches = read_report(report, (_TIME,)).launches
    several = several_devices(launches)
    where = devices(launches) if several else {}
    groups: dict[tuple[str, WorkloadKind, str], list[tuple[int, Launch]]] = {}
    for index, launch in enumerate(launches):
        own = (launch.name or launch.kernel, launch.kind, where.get((launch.gpu, launch.device), ""))
        groups.setdefault(own, []).append((index, launch))
    kinds = any(kind is not WorkloadKind.KERNEL for _, kind, _ in groups)
    columns = (
        Column("kernel", "kernel"),
        *([Column("kind", "kind")] if kinds else []),
        *([Column("device", "device")] if several else []),
        Column("launches", "launches"),
        Column("first", "first", doc="Position among all launches: --skip of this many starts with it"),
        Column("time", "total time", "s"),
        Column("grid", "grid"),
        Column("block", "block"),
        Column("shapes", "shapes", doc="Different grids and blocks under this name"),
    )
    rows = []
    for (name, kind, device), members in groups.items():
        first, sample = members[0]
        shapes = {(launch.grid, launch.block) for _, launch in members}
        rows.append(
            (
                Cell(name),
                *([Cell(kind.value.replace("_", " "))] if kinds else []),
                *([Cell(device)] if several else []),
                Cell(len(members)),
                Cell(first),
                Cell(sum(_seconds(launch) for _, launch in members)),
                Cell(_dimensions(sample.grid)),
                Cell(_dimensions(sample.block)),
                Cell(len(shapes)),
            )
        )
    kernels = len({name for name, _, _ in groups})
    table = Table("launches", f"{len(launches)} launches of {kernels} kernels", columns, tuple(rows))
    return table, len(launches)


def _seconds(launch: Launch) -> float:
    from perfkit.analysis.counters import to_si

    counter = launch.counters.get(_TIME)
    if counter is None or not isinstance(counter.value, (int, float)):
        return 0.0
    return to_si(counter.value, counter.unit)


def _dimensions(sides: tuple[int, int, int] | None) -> str:
    return "x".join(str(side) for side in sides) if sides else ""
