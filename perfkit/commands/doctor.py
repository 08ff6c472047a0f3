"""`perfkit doctor`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def doctor() -> None:
    """Being written."""
    raise PerfkitError("perfkit doctor is being written")
