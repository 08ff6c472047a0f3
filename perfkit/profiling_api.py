"""`perfkit.profile`: what the command line's profile does, as one function that returns a Profile."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.errors import PerfkitError, UsageError

if TYPE_CHECKING:
    from perfkit.api import Profile
    from perfkit.profiler.session import Settings


def profile(
    *kernels: str,
    n: int | Sequence[int] | None = None,
    size: Mapping[str, int] | None = None,
    sets: Sequence[str] | None = None,
    metrics: Sequence[str] = (),
    blocks_per_sm: int | None = None,
    carveout: int | None = None,
    verify: bool = True,
    seed: int = 0,
    program: Sequence[str] | None = None,
    kernel: str = "",
    exclude: str = "",
    nvtx: str | Sequence[str] = (),
    skip: int = 0,
    count: int | None = None,
    timeout: float | None = None,
    clock_control: str = "none",
    cache_control: str = "all",
    source: bool = False,
    store: str | Path | None = None,
) -> Profile:
    """Profile registered kernels, or `program` (its command line as a list), and load the result.

        perfkit.profile("k6", "k6b", n=4096).metrics("issue")
        perfkit.profile(program=["./gemm", "4096"], kernel="gemm", count=3)

    `n` is one size or several; `size` names others. `sets` are metric sets (all if None), `metrics` more ncu
    counters. `blocks_per_sm` holds the kernels to that many resident blocks. `kernel`, `exclude` (regular
    expressions), `nvtx`, `skip` and `count` choose launches of a program. `timeout` is in seconds. The run is
    stored under `store`, else $PERFKIT_RUNS or ./perfkit-runs.

    Warns of counters of the sets that ncu left out. Raises UsageError (also for `metrics` that it does not
    know), CannotError (no GPU, no ncu, no permission), ToolError (ncu or the program failed),
    CheckFailedError (a wrong result). The run is stored in any case; the message says what became of it.
    """
    from perfkit.api import load
    from perfkit.profiler import session
    from perfkit.profiler.ncu_command import Filters
    from perfkit.profiler.run_store import RunStore

    if bool(kernels) == bool(program):
        raise UsageError(
            "profile takes kernels or a program", 'profile("k6", n=4096) or profile(program=[...])'
        )
    counters, names = collected(sets, metrics)
    settings = session.Settings(
        counters, names, clock_control, cache_control, timeout, source, tuple(metrics)
    )

    def examine(report: Path) -> tuple[tuple[str, ...], PerfkitError | None]:
        return absent_counters(report, settings)

    where = RunStore(Path(store) if store else None)
    if program:
        ranges = (nvtx,) if isinstance(nvtx, str) and nvtx else tuple(nvtx)
        filters = Filters(kernel, exclude, ranges, skip, count)
        done = session.profile_program(program, settings, filters, store=where, examine=examine)
    else:
        wanted = session.select(kernels, _sizes(n, size), (blocks_per_sm,))
        done = session.profile_kernels(
            wanted, settings, verify=verify, carveout=carveout, seed=seed, store=where, examine=examine
        )
    for text in done.warnings:
        warnings.warn(text, stacklevel=2)
    if done.problem:
        raise done.problem
    return load(done.path, sets, every_counter=bool(metrics))


def _sizes(n: int | Sequence[int] | None, size: Mapping[str, int] | None) -> list[dict[str, int]]:
    shared = dict(size or {})
    if n is None:
        return [shared]
    return [{"n": value, **shared} for value in ([n] if isinstance(n, int) else n)]


def collected(
    sets: Sequence[str] | None, metrics: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The counters to collect for these metric sets (all if None) on this machine's GPU, and the sets'
    names.
    """
    from perfkit.analysis.metrics import load_metric_sets
    from perfkit.errors import CannotError
    from perfkit.kernels.cuda_driver import first_gpu

    known = load_metric_sets()
    names = tuple(sets) if sets else tuple(known.sets)
    try:
        chip: tuple[int, int] | None = first_gpu().compute_capability
    except CannotError:
        chip = None  # a dry run needs no GPU, and every other run will say that there is none
    return tuple(dict.fromkeys([*known.counters(names, chip), *metrics])), names


def absent_counters(report: Path, settings: Settings) -> tuple[tuple[str, ...], PerfkitError | None]:
    """What no launch of a report holds of the counters asked for: sentences, and the error if typed ones are
    among them.

    ncu leaves a name that it does not know out without a word, where it knows others beside it. It also
    leaves out what it derives from SASS where the SASS is not kept: that is no news of the metric sets.
    """
    from perfkit.analysis.metrics import load_metric_sets

    try:
        held = _names(report, settings.counters)
        if not all(_holds(held, name) for name in settings.counters):
            held = _names(report, None)
    except PerfkitError:
        return (), None  # whoever shows the report says what is wrong with it
    absent = [name for name in settings.counters if not _holds(held, name)]
    known = load_metric_sets()
    near = sorted(held.union(known.counters(tuple(known.sets), None)))
    of_sets = [name for name in absent if name not in settings.typed and not name.startswith("sass__")]
    typed = [name for name in absent if name in settings.typed]
    texts = []
    if of_sets:
        texts.append(
            f"ncu left out {len(of_sets)} of the metric sets' counters: {', '.join(of_sets)}; "
            "what needs them is shown as not collected"
        )
    if not typed:
        return tuple(texts), None
    told = "; ".join(_unknown(name, near) for name in typed)
    remedy = (
        "`ncu --query-metrics` lists this chip's. The run is kept with everything else that it collected."
    )
    if not settings.source and any(name.startswith("sass__") for name in typed):
        remedy = f"ncu derives sass__ metrics from the SASS: keep that with --source.\n{remedy}"
    error = UsageError(f"ncu did not collect what --metrics asked for: {told}", remedy)
    return (*texts, error.message), error


def _names(report: Path, counters: Sequence[str] | None) -> set[str]:
    from perfkit.analysis.report import read_report

    return {name for launch in read_report(report, counters).launches for name in launch.counters}


def _holds(held: set[str], asked: str) -> bool:
    if asked in held:
        return True
    kind, colon, pattern = asked.partition(":")
    if colon and kind == "regex":
        return any(re.search(pattern, name) for name in held)
    # group:, breakdown: and the like stand for metrics of other names; a base name stands for its rollups.
    return bool(colon) or any(name.startswith(f"{asked}.") for name in held)


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.7)
    return f"{name} (near: {', '.join(near)})" if near else name


def typed_pattern(typed: Sequence[str]) -> str:
    """A regular expression for the names under which a report holds what --metrics asked for."""
    parts = [
        name.partition(":")[2] if name.startswith("regex:") else rf"^{re.escape(name)}(\..*)?$"
        for name in typed
    ]
    return "|".join(f"({part})" for part in parts)
