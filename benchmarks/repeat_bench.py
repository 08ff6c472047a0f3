"""Do two runs of `perfkit bench` agree? `python benchmarks/repeat_bench.py RUN RUN`: ratios by kernel and
problem.

Times are compared as they are and in cycles at the clock that ran, so that a clock that moved is told from
a kernel.
"""

from __future__ import annotations

import sys

from perfkit.profiler.run_store import load_run, resolve_run


def timings(text: str) -> dict[tuple[str, str], tuple[float, float]]:
    """(label, problem) -> (s a launch, cycles a launch) of a bench run."""
    return {
        (r["label"], r["problem"]): (r["time"], r["time"] * (r["sm_clock"] or float("nan")))
        for r in load_run(resolve_run(text)).results
        if r.get("kind") == "bench" and r["time"] is not None
    }


def main(first: str, second: str) -> int:
    """Print every ratio and the worst; 1 where one is off by more than 0.5 %."""
    a, b = timings(first), timings(second)
    rows = [(key, b[key][0] / a[key][0], b[key][1] / a[key][1]) for key in a if key in b]
    for (label, problem), time, cycles in rows:
        print(f"{label:12} {problem:10} time x{time:.4f}   cycles x{cycles:.4f}")
    worst = max(abs(time - 1) for _, time, _ in rows)
    print(f"{len(rows)} medians, furthest apart by {worst:.2%}")
    return int(worst > 0.005)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
