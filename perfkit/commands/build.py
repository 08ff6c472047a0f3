"""`perfkit build`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def build() -> None:
    """Being written."""
    raise PerfkitError("perfkit build is being written")
