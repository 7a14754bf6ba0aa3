"""Ring collectives of one group in compiled code: what a member sends, and how many rounds follow each other.

An all-gather or a reduce-scatter of a vector of S bytes over n members takes n - 1 rounds, in each of which
every member sends S / n bytes; an all-reduce is both, one after the other (Thakur, Rabenseifner and Gropp,
IJHPCA 19(1), 2005).
"""

from __future__ import annotations

from sysgym.emulator.accelerators.programs.patterns import COLLECTIVES, Collective
from sysgym.emulator.compiling import cached_kernel

ALL_REDUCE = COLLECTIVES.index(Collective.ALL_REDUCE)
ALL_GATHER = COLLECTIVES.index(Collective.ALL_GATHER)


@cached_kernel()
def ring_phases(collective: int) -> int:
    """Return how often the data goes around: twice for an all-reduce, else once."""
    return 2 if collective == ALL_REDUCE else 1


@cached_kernel()
def ring_sent(collective: int, n: int) -> float:
    """Return the bytes that each of n members sends, per byte of the full vector."""
    return (2.0 if collective == ALL_REDUCE else 1.0) * (n - 1) / n


@cached_kernel()
def ring_time_s(
    collective: int, n: int, size_bytes: float, bandwidth_bytes_per_s: float, latency_s: float
) -> float:
    """Return the time of a ring collective of one group whose members have links of their own.

    Args:
        collective: Index of the collective: all-reduce, reduce-scatter or all-gather.
        n: Members of the group; 1 takes no time.
        size_bytes: Full vector: what a member has before a reduction, or after an all-gather.
        bandwidth_bytes_per_s: Bandwidth of a member's link in each direction.
        latency_s: Latency of a round.
    """
    link_s = ring_sent(collective, n) * size_bytes / bandwidth_bytes_per_s
    return link_s + ring_phases(collective) * (n - 1) * latency_s
