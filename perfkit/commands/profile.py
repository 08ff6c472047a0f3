"""`perfkit profile`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def profile() -> None:
    """Being written."""
    raise PerfkitError("perfkit profile is being written")
