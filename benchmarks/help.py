"""How long `perfkit --help` takes against a typer program that says hello: medians of interleaved runs.

The limit is 1.5x. Run: python benchmarks/help.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

HELLO = """
import typer
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
@app.command()
def hello(name: str = "you") -> None:
    print("hello", name)
@app.command()
def bye() -> None:
    print("bye")
app()
"""
PROGRAMS = {
    "typer hello": [sys.executable, "-c", HELLO, "--help"],
    "perfkit": [sys.executable, "-c", "from perfkit.cli import main; main()", "--help"],
}
ROUNDS = 25


def main() -> None:
    """Print the median wall time of both and their ratio."""
    seconds: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for round_number in range(ROUNDS + 1):
        for name, command in PROGRAMS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if round_number:  # the first round warms the file cache
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"{name:12} {median * 1e3:7.1f} ms  {median / medians['typer hello']:.2f}x")


if __name__ == "__main__":
    main()
