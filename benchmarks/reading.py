"""How fast and how lean reading is, as ratios within one run. Needs reports: PERFKIT_REPORTS=FOLDER.

    python benchmarks/reading.py [--launches 5000]

1. read_reports against a bare loop in this process that fetches the same counters (at most 2.5x). Before
   reports were read in a process of their own it was 1.0. Beside the reading itself (1.2 of the bare loop,
   0.3 of it the container walk) it pays, once a call, for the start of that process: 0.1 s on an idle
   core, of a bare loop of 0.7 s, and several times that on a busy machine, where 1.85 and 1.93 were measured.
   perfkit's commands start the process while they import the rest, and keep it for their next reading.
2. --jobs 2 against --jobs 1 over many copies (at least 1.6x faster).
3. Time per launch from few to many launches (linear), and the peak memory of the largest (under 1 GB).
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.reader import DURATIONS, IDENTITY, library
from perfkit.analysis.report import read_reports
from perfkit.model import REPORT_SUFFIXES

LIMITS = {"overhead": 2.5, "jobs": 1.6, "linear": 1.5, "memory_mb": 1000.0}


def reports() -> list[Path]:
    folder = os.environ.get("PERFKIT_REPORTS")
    if not folder:
        sys.exit("set PERFKIT_REPORTS to a folder of reports")
    return sorted(one for one in Path(folder).iterdir() if one.suffix in REPORT_SUFFIXES)


def bare(files: list[Path], counters: tuple[str, ...]) -> int:
    """What anyone would write: value, unit and instances of every counter of every launch."""
    module, count = library(), 0
    for file in files:
        context = module.load_report(str(file))
        for range_index in range(context.num_ranges()):
            actions = context.range_by_idx(range_index)
            for index in range(actions.num_actions()):
                action = actions.action_by_idx(index)
                values = {"name": action.name(), "demangled": action.name(module.IAction.NameBase_DEMANGLED)}
                state = action.nvtx_state()
                if state is not None:
                    values["nvtx"] = [
                        state.domain_by_id(domain).push_pop_ranges() for domain in state.domains()
                    ]
                for name in counters:
                    metric = action.metric_by_name(name)
                    if metric is None:
                        continue
                    instances = metric.num_instances()
                    ids = metric.correlation_ids() if instances and metric.has_correlation_ids() else None
                    values[name] = (
                        metric.value(),
                        metric.unit(),
                        [(ids.value(i) if ids else i, metric.value(i)) for i in range(instances)],
                    )
                count += 1
    return count


def bare_scalars(files: list[Path], counters: tuple[str, ...]) -> int:
    """The leanest loop: value and unit of every counter, no instances."""
    module, count = library(), 0
    for file in files:
        context = module.load_report(str(file))
        for range_index in range(context.num_ranges()):
            actions = context.range_by_idx(range_index)
            for index in range(actions.num_actions()):
                action = actions.action_by_idx(index)
                values = {"name": action.name()}
                for name in counters:
                    metric = action.metric_by_name(name)
                    if metric is not None:
                        values[name] = (metric.value(), metric.unit())
                count += 1
    return count


def best_of(times: int, *functions: Callable[[], object]) -> list[float]:
    """The shortest time of each function, run in turns so that a busy machine hits all of them."""
    best = [float("inf")] * len(functions)
    for _ in range(times):
        for index, function in enumerate(functions):
            gc.collect()
            start = time.perf_counter()
            function()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def overhead(files: list[Path], counters: tuple[str, ...]) -> float:
    same = (*IDENTITY, *DURATIONS, *counters)
    own, loop, lean = best_of(
        7,
        lambda: read_reports(files, counters),
        lambda: bare(files, same),
        lambda: bare_scalars(files, same),
    )
    print(f"read_reports {own:.3f} s, bare loop {loop:.3f} s, without instances {lean:.3f} s")
    print(f"  read_reports / bare loop = {own / loop:.2f} (at most {LIMITS['overhead']})")
    print(f"  read_reports / bare loop without instances = {own / lean:.2f}")
    return own / loop


def copies(files: list[Path], folder: Path, launches: int) -> list[Path]:
    """Copies of `files` until they hold so many launches."""
    made: list[Path] = []
    have, number = 0, 0
    sizes = {file: len(read_reports([file], ())[0].launches) for file in files}
    while have < launches:
        for file in files:
            if have >= launches:
                break
            target = folder / f"{number:05}{file.suffix}"
            shutil.copyfile(file, target)
            made.append(target)
            have, number = have + sizes[file], number + 1
    return made


def jobs_ratio(files: list[Path], counters: tuple[str, ...]) -> float:
    one, two = best_of(
        3, lambda: read_reports(files, counters, jobs=1), lambda: read_reports(files, counters, jobs=2)
    )
    print(f"{len(files)} files: --jobs 1 {one:.2f} s, --jobs 2 {two:.2f} s")
    print(f"  jobs 1 / jobs 2 = {one / two:.2f} (at least {LIMITS['jobs']})")
    return one / two


MEASURE = """
import sys, time
from pathlib import Path
from perfkit.api import load
start = time.perf_counter()
profile = load(sys.argv[1])
seconds = time.perf_counter() - start
# ru_maxrss would count the parent from before exec.
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(seconds, int(peak.split()[1]) / 1024, len(profile))
"""


def scaling(files: list[Path], most: int) -> tuple[float, float]:
    """Time per launch of the largest / of the smallest, and peak memory of the largest in MB, of load()."""
    per_launch, memory = [], 0.0
    for launches in (most // 5, most):
        with tempfile.TemporaryDirectory() as name:
            copies(files, Path(name), launches)
            done = subprocess.run(
                [sys.executable, "-c", MEASURE, name], check=True, capture_output=True, text=True
            )
        seconds, memory, read = (float(text) for text in done.stdout.split())
        per_launch.append(seconds / read)
        print(
            f"load of {read:.0f} launches: {seconds:.2f} s,"
            f" {seconds / read * 1e3:.2f} ms each, {memory:.0f} MB"
        )
    print(
        f"  time per launch, large / small = {per_launch[1] / per_launch[0]:.2f} (at most {LIMITS['linear']})"
    )
    print(f"  peak memory = {memory:.0f} MB (at most {LIMITS['memory_mb']:.0f})")
    return per_launch[1] / per_launch[0], memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=5000)
    most = parser.parse_args().launches
    files, counters = reports(), load_metric_sets().reading()
    ratios = {"overhead": overhead(files, counters) <= LIMITS["overhead"]}
    with tempfile.TemporaryDirectory() as name:
        ratios["jobs"] = jobs_ratio(copies(files, Path(name), most // 2), counters) >= LIMITS["jobs"]
    growth, memory = scaling(files, most)
    ratios["linear"], ratios["memory"] = growth <= LIMITS["linear"], memory <= LIMITS["memory_mb"]
    if missed := [name for name, held in ratios.items() if not held]:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
