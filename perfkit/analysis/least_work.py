"""What a launch moved against what its work must move at least: the one reading of traffic that the counters
do not share.

A run states the bytes that a kernel must touch: every input read once, every output written once
(`least_bytes`). L1 holds nothing of a launch before it begins, so each of these bytes passes between L2 and
L1 at least once, whatever the caches: hits in L1 save later touches only. Less than that cannot be. Traffic
to DRAM has no such bound: inputs may lie in L2, and outputs may stay there.
"""

from __future__ import annotations

from perfkit.analysis.consistency import COUNT
from perfkit.model import Evaluated, Status
from perfkit.units import format_value

_READ, _WRITTEN = "l2_read_bytes", "l2_write_bytes"
_AT_L1 = "l1tex__m_xbar2l1tex_read"
_HOPPER = (9, 0)


def moved_too_little(item: Evaluated, least_bytes: float) -> str:
    """What contradicts what, or "": the bytes between L2 and L1 are fewer than the work needs.

    Not asked where the counters are missing or in doubt, or where 9.0 and later only tell the look-ups of
    L2: nothing says that those of the TMA unit are all among them.
    """
    read, written = item.metrics.get(_READ), item.metrics.get(_WRITTEN)
    if read is None or written is None or not least_bytes > 0:
        return ""
    if read.status is not Status.OK or written.status is not Status.OK:
        return ""
    at_l1 = any(name.startswith(_AT_L1) for name in read.counters)
    if not at_l1 and item.launch.compute_capability >= _HOPPER:
        return ""
    moved = read.number + written.number
    if not moved < least_bytes * (1 - COUNT):
        return ""
    return (
        f"moved {format_value(moved, 'byte')} between L2 and L1 where the work needs "
        f"{format_value(least_bytes, 'byte')}: either the kernel did not do its work, or the run's "
        "least_bytes asks for too much (operands in constant memory never pass L1), or the counters are of "
        "another launch"
    )
