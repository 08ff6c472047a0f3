"""How much unused dynamic shared memory holds a kernel to N resident blocks per SM.

Formula (CUDA C++ Programming Guide, "Hardware Multithreading"; the occupancy calculator): with S bytes of
shared memory per SM, r bytes the driver reserves per block and s bytes a block uses, shared memory alone
allows floor(S / (s + r)) blocks. Asking for s so that N (s + r) <= S < (N + 1)(s + r) leaves exactly N.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfkit.errors import UsageError

# Shared memory is allocated in units of 128 bytes on compute capability 8.x and later, 256 on 7.x: a multiple
# of 256 is exact on all of them.
GRANULARITY = 256


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """Device attributes in bytes: per SM, the largest a block may opt in to, and reserved by the driver per
    block.
    """

    per_sm: int
    per_block_optin: int
    reserved_per_block: int


def ballast_for(
    label: str, blocks: int, natural: int, static: int, dynamic: int, limits: SharedLimits
) -> int:
    """Bytes of unused dynamic shared memory that hold a block of `static + dynamic` bytes to `blocks` per SM.

    `natural` is what the occupancy API gives without ballast. Returns 0 when that already equals `blocks`.
    Raises UsageError when it cannot be done.
    """
    if blocks < 1:
        raise UsageError(f"{label}: cannot hold a kernel to {blocks} blocks per SM", "Ask for 1 or more.")
    if blocks > natural:
        raise UsageError(
            f"{label}: only {natural} block(s) fit on an SM, so it cannot be held to {blocks}",
            f"Ask for --blocks-per-sm {natural} or fewer.",
        )
    if blocks == natural:
        return 0
    own = static + dynamic
    # The smallest multiple that keeps block N + 1 out: it leaves the most to the blocks that stay.
    needed = limits.per_sm // (blocks + 1) - limits.reserved_per_block
    total = (needed // GRANULARITY + 1) * GRANULARITY
    fits = blocks * (total + limits.reserved_per_block) <= limits.per_sm
    if total <= own or total > limits.per_block_optin or not fits:
        raise UsageError(
            f"{label}: no amount of shared memory leaves exactly {blocks} of {natural} blocks per SM "
            f"(it uses {own} of {limits.per_sm} bytes per SM, {limits.reserved_per_block} reserved per "
            "block)",
            "Ask for another --blocks-per-sm.",
        )
    return total - own
