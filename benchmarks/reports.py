"""How long the article and the HTML report take, each as a fresh process: `benchmarks/reports.py [RUN]`.

RUN (default: the recorded run) gives the article; copies of its reports until there are 500 launches give the
large page. Prints seconds and megabytes; the limits are 5 s, 10 s and 5 MB on a machine with two cores.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAUNCHES = 500


def main() -> None:
    """Measure both and print a line each."""
    run = sys.argv[1] if len(sys.argv) > 1 else "recorded"
    from perfkit.commands._inputs import read_inputs
    from perfkit.profiler.run_store import resolve_run, run_reports

    reports = run_reports(resolve_run(run))
    held = len(read_inputs([str(path) for path in reports]).evaluated)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        seconds = _time(["article", run, "-o", str(folder / "article")])
        print(f"article: {seconds:.2f} s for {held} launches (limit 5 s)")
        copies = [
            shutil.copy(path, folder / f"{number}_{path.name}")
            for number in range(-(-LAUNCHES // held))
            for path in reports
        ]
        page = folder / "report.html"
        seconds = _time(["report", *map(str, copies), "-o", str(page)])
        size = page.stat().st_size / 1e6
        launches = held * len(copies) // len(reports)
        print(f"report:  {seconds:.2f} s and {size:.2f} MB for {launches} launches (limits 10 s, 5 MB)")


def _time(arguments: list[str]) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "perfkit", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
