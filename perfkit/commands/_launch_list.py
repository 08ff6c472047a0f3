"""What a program launched, by kernel: `perfkit profile --list`."""

from __future__ import annotations

from pathlib import Path

from perfkit.model import Cell, Column, Launch, Table

_TIME = "gpu__time_duration.sum"


def launch_list(report: Path) -> tuple[Table, int]:
    """One row a kernel name, in order of first launch; and how many launches there were in all.

    Launches of one name that differ in grid or block are one row: the row says how many shapes it had.
    """
    from perfkit.analysis.report import read_report

    launches = read_report(report, (_TIME,)).launches
    groups: dict[str, list[tuple[int, Launch]]] = {}
    for index, launch in enumerate(launches):
        groups.setdefault(launch.name or launch.kernel, []).append((index, launch))
    columns = (
        Column("kernel", "kernel"),
        Column("launches", "launches"),
        Column("first", "first", doc="Position among all launches: --skip of this many starts with it"),
        Column("time", "total time", "s"),
        Column("grid", "grid"),
        Column("block", "block"),
        Column("shapes", "shapes", doc="Different grids and blocks under this name"),
    )
    rows = []
    for name, members in groups.items():
        first, sample = members[0]
        shapes = {(launch.grid, launch.block) for _, launch in members}
        rows.append(
            (
                Cell(name),
                Cell(len(members)),
                Cell(first),
                Cell(sum(_seconds(launch) for _, launch in members)),
                Cell(_dimensions(sample.grid)),
                Cell(_dimensions(sample.block)),
                Cell(len(shapes)),
            )
        )
    table = Table("launches", f"{len(launches)} launches of {len(groups)} kernels", columns, tuple(rows))
    return table, len(launches)


def _seconds(launch: Launch) -> float:
    from perfkit.analysis.counters import to_si

    counter = launch.counters.get(_TIME)
    if counter is None or not isinstance(counter.value, (int, float)):
        return 0.0
    return to_si(counter.value, counter.unit)


def _dimensions(sides: tuple[int, int, int] | None) -> str:
    return "x".join(str(side) for side in sides) if sides else ""
