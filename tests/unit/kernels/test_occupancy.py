"""Ballast: exactly N blocks fit, or a clear refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.errors import UsageError
from perfkit.kernels.occupancy import GRANULARITY, SharedLimits, ballast_for

H200 = SharedLimits(per_sm=233_472, per_block_optin=232_448, reserved_per_block=1024)
ADA = SharedLimits(per_sm=102_400, per_block_optin=101_376, reserved_per_block=1024)
TURING = SharedLimits(per_sm=65_536, per_block_optin=65_536, reserved_per_block=0)


def resident(total: int, limits: SharedLimits) -> int:
    """Blocks per SM by shared memory alone, with the allocation rounded up as the hardware does."""
    rounded = -(-total // GRANULARITY) * GRANULARITY
    return limits.per_sm // (rounded + limits.reserved_per_block)


def test_k6b_on_an_h200() -> None:
    """8 KiB of static shared memory, 2 blocks by registers: held to 1 by keeping the second one out."""
    ballast = ballast_for("k6b", 1, 2, 8192, 0, H200)
    assert ballast == 107_776
    assert resident(8192 + ballast, H200) == 1
    assert resident(8192 + ballast - GRANULARITY, H200) == 2


def test_nothing_is_asked_for_when_it_fits_as_it_is() -> None:
    assert ballast_for("k6b", 2, 2, 8192, 0, H200) == 0


@pytest.mark.parametrize(
    ("blocks", "natural", "says"),
    [(0, 2, "cannot hold a kernel to 0"), (3, 2, "only 2 block"), (-1, 2, "cannot hold a kernel to -1")],
)
def test_impossible(blocks: int, natural: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ballast_for("k6b", blocks, natural, 8192, 0, H200)


@given(
    st.sampled_from([H200, ADA, TURING]),
    st.integers(1, 31),
    st.integers(2, 32),
    st.integers(0, 12_000),
    st.integers(0, 4_000),
)
def test_exactly_n_blocks_fit(
    limits: SharedLimits, blocks: int, natural: int, static: int, dynamic: int
) -> None:
    own = static + dynamic
    fits = resident(own, limits) if own else 99
    natural = min(natural, fits)  # what the occupancy API would say
    if not 1 <= blocks < natural:
        return
    steps = range(GRANULARITY, limits.per_block_optin + 1, GRANULARITY)
    if not any(resident(total, limits) == blocks and total > own for total in steps):
        with pytest.raises(UsageError, match="no amount of shared memory"):
            ballast_for("k", blocks, natural, static, dynamic, limits)
        return
    ballast = ballast_for("k", blocks, natural, static, dynamic, limits)
    assert ballast > 0
    assert resident(own + ballast, limits) == blocks
    assert own + ballast <= limits.per_block_optin
