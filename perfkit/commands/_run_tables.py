"""Tables about a run itself: what ran, on what, and whether its results were right."""

from __future__ import annotations

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
        (name.replace("_", " "), _short(value))
        for name, value in record.options.items()
        if name != "counters"
    ]
    rows += [("counters", str(len(record.options.get("counters", ()))))] if record.what == "profile" else []
    rows += [("report", name) for name in record.reports]
    rows += [("samples", name) for name in record.samples]
    return Table(
        "run",
        f"Run {record.id}",
        (Column("fact", "fact"), Column("value", "value")),
        tuple((Cell(name), Cell(value)) for name, value in rows),
        record.messages,
    )


def _short(value: object) -> str:
    return " ".join(str(part) for part in value) if isinstance(value, (list, tuple)) else str(value)


def kernels_table(record: RunRecord) -> Table | None:
    """One row a kernel and size: how it was built and launched. None for a program's run."""
    if not record.kernels:
        return None
    columns = (
        Column("kernel", "kernel"),
        Column("title", "title"),
        Column("problem", "problem"),
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
                Cell(kernel.title),
                Cell(kernel.problem),
                Cell(kernel.launches),
                Cell(kernel.flops) if kernel.flops else Cell(None, Status.UNDEFINED),
                Cell(build.get("registers")) if build.get("registers") else Cell(None, Status.UNDEFINED),
                Cell(kernel.blocks_per_sm)
                if kernel.blocks_per_sm is not None
                else Cell(None, Status.UNDEFINED),
                Cell(kernel.ballast_bytes),
                Cell(str(build.get("source_hash", ""))[:12]),
            )
        )
    return Table("kernels", "Kernels", columns, tuple(rows))
