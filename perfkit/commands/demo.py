"""`perfkit demo`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def demo() -> None:
    """Being written."""
    raise PerfkitError("perfkit demo is being written")
