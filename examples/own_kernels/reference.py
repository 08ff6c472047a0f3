"""What the two kernels must compute: a reference gets inputs and scalars by name and returns the output."""

from __future__ import annotations

from typing import Any

import numpy as np


def saxpy(alpha: float, x: Any, y: Any, **_: Any) -> Any:
    """y = alpha x + y, rounded once as an FMA is."""
    return (float(alpha) * x.astype(np.float64) + y).astype(np.float32)


def reduce(n: int, x: Any) -> Any:
    """Block b adds the elements whose index, counted in rows of 256 and modulo the grid, is b."""
    blocks = n // 16384
    return x.reshape(-1, blocks, 256).sum(axis=(0, 2), dtype=np.float64).astype(np.float32)
