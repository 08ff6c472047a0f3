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
                Cell(found.float64_max_abs_error)
                if found.float64_entries
                else Cell(None, Status.NOT_COLLECTED),
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
        lines.append(f"{gpu.name} (sm_{major}{minor}, {gpu.sm_count} SMs), driver {gpu.driver or 'unknown'}")
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
