"""`perfkit runs`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def runs() -> None:
    """Being written."""
    raise PerfkitError("perfkit runs is being written")
