"""`perfkit roofline`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def roofline() -> None:
    """Being written."""
    raise PerfkitError("perfkit roofline is being written")
