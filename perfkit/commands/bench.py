"""`perfkit bench`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def bench() -> None:
    """Being written."""
    raise PerfkitError("perfkit bench is being written")
