"""`perfkit check`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def check() -> None:
    """Being written."""
    raise PerfkitError("perfkit check is being written")
