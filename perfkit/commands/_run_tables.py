"""Tables about a run itself: what ran, on what, and whether its results were right."""

from __future__ import annotations

from collections.abc import Sequence

from perfkit.model import Cell, Column, RunRecord, Status, Table


def verification_table(record: RunRecord) -> Table | None:
    """One row a kernel and size that was verified; None when none was."""
    columns = (
        Column("kernel", "kernel"),
        Column("problem", "problem"),
        Column("result", "result"),
        Column("reference", "compared with"),
        Column("bit_equal", "bit for bit", doc="Equal to the reference in every element, as numbers"),
        Column("max_abs_difference", "largest difference", digits=None),
        Column("float64_entries", "float64 entries"),
        Column("float64_max_abs_error", "largest error"),
    )
    rows = []
    for kernel in record.kernels:
        found = kernel.verification
        if found is None:
            continue
        rows.append(
            (
                Cell(kernel.label),
                Cell(kernel.problem),
                Cell("right" if found.passed else "WRONG", note=found.message),
                Cell(found.reference),
                Cell("yes" if found.bit_equal else "no"),
                Cell(found.max_abs_difference),
                Cell(found.float64_entries),
                # Only matrix products have entries that are computed again in float64.
                Cell(found.float64_max_abs_error if found.float64_entries else None),
            )
        )
    if not rows:
        return None
    return Table("verification", "Verification (outside of what was profiled)", columns, tuple(rows))


def origin_lines(record: RunRecord) -> list[str]:
    """Where the figures of a run come from: GPU, versions, clocks, caches, date."""
    gpu, options = record.gpu, record.options
    lines = []
    if gpu:
        major, minor = gpu.compute_capability
        lines.append(f"{gpu.name} (sm_{major}{minor}, {gpu.sm_count} SMs)")
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items() if version)
    lines.append(f"{record.started[:10]}, perfkit {record.perfkit_version}, {versions}")
    if record.what == "profile":
        lines.append(
            f"clock control {options.get('clock_control')}, cache control {options.get('cache_control')}, "
            f"{options.get('passes')} replay passes at most"
        )
    return lines


def summary_line(record: RunRecord) -> str:
    """`9 launches, at most 11 replay passes each, 17.3 s`."""
    options = record.options
    launches, passes = options.get("launches", 0), options.get("passes", 0)
    spent = float(options.get("seconds", 0.0))
    count = f"{launches} launch" + ("" if launches == 1 else "es")
    return f"{count}, at most {passes} replay passes each, {spent:.1f} s wall"


def facts_table(record: RunRecord) -> Table:
    """Everything run.json says of a run as a whole, one row a fact."""
    rows = [
        ("run", record.id),
        ("status", record.status),
        ("command", " ".join(record.command)),
        ("started", record.started),
        ("ended", record.ended),
        ("perfkit", record.perfkit_version),
    ]
    if record.gpu:
        major, minor = record.gpu.compute_capability
        rows += [
            ("GPU", record.gpu.name),
            ("UUID", record.gpu.uuid),
            ("compute capability", f"{major}.{minor}"),
            ("SMs", str(record.gpu.sm_count)),
        ]
    rows += [(name, version) for name, version in record.versions.items() if version]
    rows += [
        (name.replace("_", " "), _fact(value))
        for name, value in record.options.items()
        if name != "counters" and (value or value is False or name == "seed")
    ]
    rows += [("counters", str(len(record.options.get("counters", ()))))] if record.what == "profile" else []
    rows += [(name, " ".join(files)) for name, files in (("reports", record.reports),) if files]
    cells = [(Cell(name), Cell(value)) for name, value in rows]
    if record.samples:
        # Of a ladder they are dozens: machines get them all.
        cells.append((Cell("samples"), Cell(" ".join(record.samples), text=_files(record.samples))))
    return Table(
        "run",
        f"Run {record.id}",
        (Column("fact", "fact"), Column("value", "value")),
        tuple(cells),
        record.messages,
    )


def _fact(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(part) for part in value) if isinstance(value, (list, tuple)) else str(value)


def _files(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files, {names[0]} to {names[-1]}"


def kernels_table(record: RunRecord) -> Table | None:
    """One row a kernel and size: how it was built and launched. None for a program's run."""
    if not record.kernels:
        return None
    columns = (
        Column("kernel", "kernel"),
        Column("problem", "problem"),
        Column("title", "title"),
        Column("launches", "launches"),
        Column("flops", "FLOPs", "FLOP"),
        Column("registers", "registers"),
        Column("blocks_per_sm", "held to", doc="Blocks per SM it was held to"),
        Column("ballast", "ballast", "byte", doc="Unused dynamic shared memory asked for to hold it there"),
        Column("source", "source", doc="First digits of the sha256 of its source and includes"),
    )
    rows = []
    for kernel in record.kernels:
        build = kernel.build or {}
        rows.append(
            (
                Cell(kernel.label),
                Cell(kernel.problem),
                Cell(kernel.title),
                Cell(kernel.launches),
                _or_dash(kernel.flops),
                _or_dash(build.get("registers")),
                _or_dash(kernel.blocks_per_sm),
                Cell(kernel.ballast_bytes),
                Cell(str(build.get("source_hash", ""))[:12]),
            )
        )
    return Table("kernels", "Kernels", columns, tuple(rows))


def _or_dash(value: float | None) -> Cell:
    """A dash where a thing does not apply, such as the registers of a library's kernels."""
    return Cell(value) if value else Cell(None, Status.UNDEFINED, text="-")
