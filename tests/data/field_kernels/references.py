"""What the kernels of perfkit.toml must compute, by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np


def same(x: Any) -> Any:
    """A copy."""
    return x


def filled(value: float) -> Any:
    """The default problem's array of one value."""
    return np.full(16777216, value, np.float32)


def every_eighth(x: Any) -> Any:
    """Element i is element 8 i of x."""
    return x[::8]


def spread(x: Any, y: Any) -> Any:
    """Element 8 i is element i of x; the others stay as they are."""
    y[::8] = x
    return y


def gathered(index: Any, x: Any) -> Any:
    """Element i is x[index[i]]."""
    return x[index]


def axpy(a: float, x: Any, y: Any) -> Any:
    """y = a x + y, rounded once as an FMA is (to the precision of a long double for FP64)."""
    return (np.longdouble(a) * x.astype(np.longdouble) + y).astype(y.dtype)


def transposed(x: Any, **_: Any) -> Any:
    """Rows become columns."""
    return x.T


def total(x: Any, **_: Any) -> Any:
    """The sum of all."""
    return x.sum(dtype=np.float64).astype(np.float32).reshape(1)


def sums_of_blocks(x: Any) -> Any:
    """The sums of each 256."""
    return x.reshape(-1, 256).sum(axis=1, dtype=np.float64).astype(np.float32)


def exchanged(x: Any, slots: Any) -> Any:
    """What comes in is in the slots, what was there came out."""
    return {"slots": x, "old": slots}


def scanned(x: Any) -> Any:
    """Running sums of each 1,024."""
    return x.reshape(-1, 1024).cumsum(axis=1, dtype=np.float64).astype(np.float32).reshape(-1)


def counted(x: Any, **_: Any) -> Any:
    """How often each byte is there."""
    return np.bincount(x, minlength=256).astype(np.uint32)


def polynomial_divergent(x: Any) -> Any:
    """s = s x + 0.5, from 1, as often as the lane has it: 8, 16, 24, 32 times."""
    wide, steps = x.astype(np.float64), 8 * (1 + np.arange(x.size) % 4)
    result = np.ones_like(wide)
    for step in range(32):
        result = np.where(step < steps, result * wide + 0.5, result)
    return result.astype(np.float32)


def polynomial_constant(x: Any) -> Any:
    """The polynomial with the coefficients of arithmetic.cu."""
    coefficients = [0.5, -0.25, 0.125, 1.5, -1.25, 0.75, 0.375, -0.625]
    coefficients += [1.0, 0.0625, -0.875, 0.4375, 0.3125, -0.5625, 0.1875, 1.125]
    return np.polyval(coefficients, x.astype(np.float64)).astype(np.float32)


def local_array(index: Any) -> Any:
    """The values are read 3 apart from where they start, wherever that is."""
    result = 0.0
    for step in range(16):
        result = result * 0.5 + (3 * step) % 16
    return np.full(index.size, result, np.float32)


def softmax(x: Any) -> Any:
    """exp(x) / its sum, of each 4,096."""
    rows = np.exp(x.reshape(-1, 4096).astype(np.float64))
    return (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32).reshape(-1)


def stencil(x: Any, **_: Any) -> Any:
    """Half of the middle and an eighth of each neighbour; beyond the edge the edge goes on."""
    wide = np.pad(x, 1, mode="edge").astype(np.float64)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return (0.5 * wide[1:-1, 1:-1] + 0.125 * around).astype(np.float32)


def matvec(a: Any, x: Any) -> Any:
    """A x."""
    return (a.astype(np.float64) @ x).astype(np.float32)


def spill(x: Any) -> Any:
    """64 times s = s / 2 + k x over 128 steps; what the sums start with is halved away."""
    factor = 0.0
    for step in range(128):
        factor = factor * 0.5 + step
    return (64 * factor * x.astype(np.float64)).astype(np.float32)


def matmul(a: Any, b: Any, **_: Any) -> Any:
    """A x B in single precision."""
    return a.astype(np.float32) @ b.astype(np.float32)
