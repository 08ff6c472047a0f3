"""`perfkit.profile`: what the command line's profile does, as one function that returns a Profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.api import Profile


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

    Raises UsageError, CannotError (no GPU, no ncu, no permission), ToolError (ncu or the program failed),
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
    settings = session.Settings(counters, names, clock_control, cache_control, timeout, source)
    where = RunStore(Path(store) if store else None)
    if program:
        ranges = (nvtx,) if isinstance(nvtx, str) and nvtx else tuple(nvtx)
        filters = Filters(kernel, exclude, ranges, skip, count)
        done = session.profile_program(program, settings, filters, store=where)
    else:
        wanted = session.select(kernels, _sizes(n, size), (blocks_per_sm,))
        done = session.profile_kernels(
            wanted, settings, verify=verify, carveout=carveout, seed=seed, store=where
        )
    if done.problem:
        raise done.problem
    return load(done.path, sets)


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
