"""Evaluated launches as pandas frames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from perfkit.analysis.identity import device_text, process_text
from perfkit.model import Evaluated, Launch, Status

if TYPE_CHECKING:
    from pandas import DataFrame

LONG_COLUMNS = (
    "report", "range", "launch", "kernel", "key", "problem", "gpu", "metric", "value", "text",
    "unit", "status", "reason", "kind", "device", "process",
)  # fmt: skip


def long_frame(evaluated: Iterable[Evaluated]) -> DataFrame:
    """One row for each launch and metric, columns LONG_COLUMNS.

    `kind` is kernel, range, graph or command_list; `device` CUDA's number of the GPU (else its bus address or
    UUID) and `process` the process id, "" where the report does not tell.
    `value` is a float in SI units (fractions 0..1), NaN where `status` is neither ok nor invalid; metrics
    that are words, such as top_stall, have theirs in `text`.
    """
    from pandas import DataFrame

    frame = DataFrame(list(long_rows(evaluated)), columns=list(LONG_COLUMNS))
    return frame.astype({"range": "int64", "launch": "int64", "value": "float64"})


def long_rows(evaluated: Iterable[Evaluated]) -> Iterator[tuple[str | int | float, ...]]:
    """The rows of the long frame, in the order of LONG_COLUMNS; NaN where there is no number."""
    for one in evaluated:
        launch = one.launch
        head = (
            launch.id.report, launch.id.range, launch.id.launch, launch.kernel, launch.key or "",
            launch.problem, launch.gpu,
        )  # fmt: skip
        for value in one.metrics.values():
            text = value.value if isinstance(value.value, str) else ""
            yield (
                *head, value.name, value.number, text, value.unit, value.status.value, value.reason,
                *_where(launch),
            )  # fmt: skip


def long_counter_rows(
    evaluated: Iterable[Evaluated], names: re.Pattern[str]
) -> Iterator[tuple[str | int | float | None, ...]]:
    """Raw counters of such names as rows of the long frame: values and units as the report stores them."""
    for one in evaluated:
        launch = one.launch
        for name in sorted(filter(names.search, launch.counters)):
            counter = launch.counters[name]
            text = counter.value if isinstance(counter.value, str) else ""
            value = counter.value if isinstance(counter.value, (int, float)) else None
            yield (
                launch.id.report, launch.id.range, launch.id.launch, launch.kernel, launch.key or "",
                launch.problem, launch.gpu, name, value, text, counter.unit, counter.status.value, "",
                *_where(launch),
            )  # fmt: skip


def _where(launch: Launch) -> tuple[str, str, str]:
    """The columns kind, device and process."""
    return launch.kind.value, device_text(launch.device), process_text(launch.process)


def wide_frame(evaluated: Sequence[Evaluated], names: Sequence[str]) -> DataFrame:
    """One row a launch, indexed by (report, range, launch): kernel, key, problem, then a column for each
    metric.

    A value that is not there is NaN (numbers) or None (words); why is in the long frame.
    """
    from pandas import DataFrame, MultiIndex

    index = MultiIndex.from_tuples(
        [(one.launch.id.report, one.launch.id.range, one.launch.id.launch) for one in evaluated],
        names=["report", "range", "launch"],
    )
    data: dict[str, list[object]] = {
        "kernel": [one.launch.kernel for one in evaluated],
        "key": [one.launch.key for one in evaluated],
        "problem": [one.launch.problem for one in evaluated],
    }
    for name in names:
        values = [one.metrics[name] for one in evaluated]
        words = any(isinstance(value.value, str) for value in values)
        data[name] = [value.value if words else value.number for value in values]
    return DataFrame(data, index=index)


def counter_frame(evaluated: Iterable[Evaluated]) -> DataFrame:
    """One row for each launch and raw counter as the report stores it: value (float), text, unit, status."""
    from pandas import DataFrame

    rows = []
    for one in evaluated:
        launch = one.launch
        for counter in launch.counters.values():
            value = counter.value
            rows.append(
                (
                    launch.id.report, launch.id.range, launch.id.launch, launch.kernel, counter.name,
                    float(value) if isinstance(value, (int, float)) else float("nan"),
                    value if isinstance(value, str) else "",
                    counter.unit, Status(counter.status).value,
                )
            )  # fmt: skip
    columns = ["report", "range", "launch", "kernel", "counter", "value", "text", "unit", "status"]
    return DataFrame(rows, columns=columns)
