"""Commands that take a program after `--`. Click throws that `--` away, so it is looked for before click."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

_KEY = "perfkit.program"


class ProgramCommand(TyperCommand):
    """`command [options] [arguments] -- PROGRAM ...`: the program's arguments stay as they were given."""

    # The contexts are click's; typer brings its own copy of click in some releases, so no name fits them all.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep what is behind the first `--` from click."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_KEY] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Show the program in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM ...]"]


def program_of(ctx: typer.Context) -> tuple[str, ...] | None:
    """What stood behind `--`; None where there was no `--`."""
    value: tuple[str, ...] | None = ctx.meta.get(_KEY)
    return value
