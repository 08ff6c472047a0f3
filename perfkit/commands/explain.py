"""`perfkit explain`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def explain() -> None:
    """Being written."""
    raise PerfkitError("perfkit explain is being written")
