"""`perfkit article`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def article() -> None:
    """Being written."""
    raise PerfkitError("perfkit article is being written")
