"""`perfkit report`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def report() -> None:
    """Being written."""
    raise PerfkitError("perfkit report is being written")
