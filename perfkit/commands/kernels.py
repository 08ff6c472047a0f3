"""`perfkit kernels`: being written."""

from __future__ import annotations

from perfkit.errors import PerfkitError


def kernels() -> None:
    """Being written."""
    raise PerfkitError("perfkit kernels is being written")
