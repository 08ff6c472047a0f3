"""The peak model: share of FP32 peak as a product of counters, checked against ncu's own count and event
timing.

Being written.
"""

from __future__ import annotations

# FP32 lanes (FMA units) per SM by compute capability: CUDA C++ Programming Guide, "Arithmetic
# Instructions", results per clock cycle per SM for 32-bit add, multiply, multiply-add.
_FP32_LANES = {
    (6, 0): 64, (6, 1): 128, (6, 2): 128, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128,
    (8, 7): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (10, 3): 128, (11, 0): 128,
    (12, 0): 128, (12, 1): 128,
}  # fmt: skip


def fp32_lanes_per_sm(compute_capability: tuple[int, int]) -> int | None:
    """FP32 lanes per SM; None for a chip that is not in the table."""
    return _FP32_LANES.get(compute_capability)
