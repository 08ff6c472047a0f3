"""Tables and figures for people and machines: one file a format."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from perfkit.errors import UsageError

if TYPE_CHECKING:
    from perfkit.model import Table

# Each is a module of this package with `render(tables, width, color) -> str`.
FORMATS = ("terminal", "markdown", "csv", "json", "latex", "html")
SUFFIXES = {"terminal": "txt", "markdown": "md", "csv": "csv", "json": "json", "latex": "tex", "html": "html"}
_MODULES = {"json": "json_tables", "csv": "csv_tables"}


def check_format(fmt: str) -> None:
    """Raises UsageError for a format that is not one of FORMATS: before a command works for minutes."""
    if fmt not in FORMATS:
        raise UsageError(f"unknown format {fmt!r}", f"Formats: {', '.join(FORMATS)}.")


def render(tables: Sequence[Table], fmt: str, *, width: int = 100, color: bool = False) -> str:
    """`tables` as text in a format of FORMATS; `width` (columns) and `color` matter to the terminal only.

    Raises UsageError for an unknown format.
    """
    check_format(fmt)
    module = import_module(f"perfkit.reports.{_MODULES.get(fmt, fmt)}")
    text: str = module.render(tables, width=width, color=color)
    return text
