"""`perfkit.bench`, `perfkit.compare` and `perfkit.check_model`: the command line's bench and model as
functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from perfkit.commands._bench_session import Job, Session
    from perfkit.model import BenchResult, PairComparison
    from perfkit.model.peak import PeakCheck


def bench(
    *kernels: str,
    n: int | Sequence[int] | None = None,
    size: Mapping[str, int] | None = None,
    protocol: str = "quick",
    rounds: int = 0,
    cold: bool = False,
    blocks_per_sm: int | None = None,
    carveout: int | None = None,
    verify: bool = True,
    seed: int = 0,
    store: str | Path | None = None,
) -> list[BenchResult]:
    """Time registered kernels: one result a kernel and size, in seconds, Hz, W and FLOP/s.

        [result.share_of_peak for result in perfkit.bench("k6", "k7", n=4096)]

    Options as on the command line (docs/timing.md). The run is stored under `store`, else $PERFKIT_RUNS or
    ./perfkit-runs. Raises UsageError, CannotError (no GPU), ToolError, and CheckFailedError when a result
    is wrong: such a kernel is not timed.
    """
    from perfkit.commands import _bench_modes as modes

    jobs, current = _session(
        kernels,
        n,
        size,
        blocks_per_sm,
        {"protocol": protocol, "rounds": rounds},
        seed,
        verify,
        carveout,
        store,
    )
    modes.check(jobs, pairs=0, aa=0, rounds=rounds, cold=cold)
    with current as opened:
        results = modes.time(opened, jobs, modes.protocol_of(protocol, rounds, cold))
    opened.raise_wrong()
    return results


def compare(
    a: str,
    b: str,
    *,
    n: int | Sequence[int] | None = None,
    size: Mapping[str, int] | None = None,
    pairs: int = 60,
    verify: bool = True,
    seed: int = 0,
    store: str | Path | None = None,
) -> list[PairComparison]:
    """B against A from interleaved pairs, one verdict a size: faster, slower, same or ambiguous.

        perfkit.compare("k6", "k7", n=2048)[0].verdict

    Errors as in `bench`.
    """
    from perfkit.commands import _bench_modes as modes

    jobs, current = _session((a, b), n, size, None, {"pairs": pairs}, seed, verify, None, store)
    modes.check(jobs, pairs=pairs, aa=0, rounds=0, cold=False)
    with current as opened:
        found = modes.compare(opened, jobs, pairs)
    opened.raise_wrong()
    return found


def check_model(*inputs: str | Path) -> list[PeakCheck]:
    """The peak model against measurement for every launch of runs and reports (`perfkit model`).

    [check.residual for check in perfkit.check_model("recorded")]
    """
    from perfkit.analysis import peak_model
    from perfkit.analysis.report import read_reports
    from perfkit.commands.model import find_inputs

    records, paths = find_inputs([str(one) for one in inputs])
    reports = read_reports(paths, peak_model.counters())
    return peak_model.check_launches(
        [launch for report in reports for launch in report.launches],
        flops=peak_model.run_flops(records),
        timed=peak_model.run_timed(records),
    )


def _session(
    kernels: Sequence[str],
    n: int | Sequence[int] | None,
    size: Mapping[str, int] | None,
    blocks_per_sm: int | None,
    options: Mapping[str, Any],
    seed: int,
    verify: bool,
    carveout: int | None,
    store: str | Path | None,
) -> tuple[list[list[Job]], AbstractContextManager[Session]]:
    from perfkit.commands._bench_session import jobs_of, session
    from perfkit.kernels.cuda_driver import first_gpu
    from perfkit.profiler.run_store import RunStore
    from perfkit.profiler.session import build_all, select

    sizes = [n] if isinstance(n, int) else n
    asked = [{"n": value, **(size or {})} for value in sizes] if sizes else [dict(size or {})]
    wanted = select(kernels, asked, (blocks_per_sm,))
    gpu = first_gpu()
    current = session(
        {**options, "clock_control": "none", "verify": verify},
        gpu=gpu,
        built=build_all([request.spec for request in wanted], gpu),
        seed=seed,
        verify=verify,
        carveout=carveout,
        command=("perfkit.compare" if "pairs" in options else "perfkit.bench", *kernels),
        store=RunStore(Path(store)) if store else None,
    )
    return jobs_of(wanted), current
