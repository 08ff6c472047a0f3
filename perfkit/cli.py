"""The `perfkit` program: puts the commands together, and is the only place that exits.

Exit codes: 0 fine, 1 a gate or verification failed, 2 wrong usage or input, 3 the environment cannot,
4 a tool failed, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import typer

from perfkit.commands import _reading
from perfkit.commands._console import discard
from perfkit.commands._output_file import OUT_OF_SPACE
from perfkit.errors import CannotError, PerfkitError

# In the order `perfkit --help` lists them: modules of perfkit.commands, each with a function of its name.
COMMANDS = (
    "doctor",
    "kernels",
    "build",
    "profile",
    "show",
    "bench",
    "model",
    "explain",
    "roofline",
    "report",
    "article",
    "check",
    "runs",
    "demo",
)

app = typer.Typer(
    name="perfkit",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Profile CUDA kernels under Nsight Compute, check the counters, and explain why B is slower than A.",
)


def _print_version(asked: bool) -> None:
    # A callback of the option: the body of `_root` is only reached with a command.
    if asked:
        from perfkit import __version__

        sys.stdout.write(f"perfkit {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    debug: bool = typer.Option(
        False, "--debug", help="Show the traceback of an error.", envvar="PERFKIT_DEBUG"
    ),
    _version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
    ),
) -> None:
    if debug:
        os.environ["PERFKIT_DEBUG"] = "1"
    context.with_resource(_reading.process(context.invoked_subcommand))


for _name in COMMANDS:
    _module = importlib.import_module(f"perfkit.commands.{_name}")
    app.command(_name, **getattr(_module, "SETTINGS", {}))(getattr(_module, _name))


def main() -> None:
    """Run the command line; every perfkit error becomes a message and an exit code."""
    try:
        app()
    except PerfkitError as error:
        _say(error.message, error.remedy)
        if os.environ.get("PERFKIT_DEBUG"):
            raise
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _say("interrupted", "")
        sys.exit(130)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
            _no_space(error)
        if os.environ.get("PERFKIT_DEBUG"):
            raise
        _say(
            f"internal error: {type(error).__name__}: {error}",
            "This is a bug in perfkit. Run again with `perfkit --debug ...` and report the traceback.",
        )
        sys.exit(4)


def _no_space(error: OSError) -> NoReturn:
    """End with what the command came to where only its words on stderr were lost, else with 3."""
    discard(sys.stdout)  # `perfkit --help` on a full disk: Python would fail once more at its end
    # typer prints a wrong option on stderr itself, while it handles the exception that says so.
    code = getattr(error.__context__, "exit_code", None)
    if not isinstance(code, int):
        named = f" of {error.filename}" if error.filename else ""
        _say(f"cannot write: {error.strerror or error}{named}", "Free some space, or write to another disk.")
        code = CannotError.exit_code
    discard(sys.stderr)
    sys.exit(code)


def _say(message: str, remedy: str) -> None:
    from perfkit.reports.text import visible

    said = [*f"perfkit: error: {message}".split("\n"), *(f"  {line}" for line in remedy.splitlines())]
    lines = map(visible, said)  # a file's or a kernel's name must not move the cursor
    # That nobody can read stderr (`2>&1 | head`, `2>/dev/full`) does not change what the command came to.
    try:
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)
