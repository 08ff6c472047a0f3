"""`perfkit model`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def model() -> None:
    """Being written."""
    raise PerfkitError("perfkit model is being written")
