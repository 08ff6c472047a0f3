"""`perfkit show`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def show() -> None:
    """Being written."""
    raise PerfkitError("perfkit show is being written")
