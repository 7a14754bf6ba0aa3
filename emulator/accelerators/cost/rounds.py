"""Rounds of a ring whose hops differ: how long they take beyond the time on the fullest link.

Rounds are no barriers. A member begins to send in round t + 1 when it has sent in round t and has received
what its predecessor sent in round t, so a hop's latency is waited for only by what has to pass it. With times
s(p) of a piece on the links of hop p and latencies a(p), the end is the longest path of 2 (n - 1) steps for
an all-reduce and n - 1 for its halves, each of which either stays at a hop for s(p), or goes on to the next
one for s(p) + a(p). NVIDIA's NCCL counts likewise: each of its steps has the latency of the hop that it
crosses (src/graph/tuning.cc).

Relative to a path that stays at the slowest links, whose pieces take s, going on from hop p gains
``g(p) = s(p) + a(p) - s``. Three cases follow. If the vector is short, the gains of one turn around the ring
are positive, and the path goes around all the time. If it is long, they are negative, and the path stays at
the slowest link but for its most profitable way there and back. Between the two the best way begins and ends
where gains begin to be negative. Hops repeat: an instance of a level has, between the hops inside its
children, equal hops between these, so the best ways follow level by level, from the innermost one outwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel


@cached_kernel()
def ring_wait_s(
    phases: int,
    factor: NDArray[np.int64],
    hop_s: NDArray[np.float64],
    latency_s: NDArray[np.float64],
    low: int,
    high: int,
    slowest_s: float,
) -> float:
    """Return the time of a ring's rounds beyond the time on the fullest link.

    It is exact where links work at constant rates, as on switches, and too long elsewhere (see
    :mod:`~sysgym.emulator.accelerators.cost.validity`). On three or more levels it can be too long, if a
    level between others has the slowest links, by at most the latency of a hop.

    Args:
        phases: How often the data goes around: twice for an all-reduce, else once.
        factor: Factor of each level, int64 [n_levels], outermost first; some factor is above 1.
        hop_s: Time of a piece on the links of a hop between siblings of each level, float64 [n_levels].
        latency_s: Latency of such a hop, float64 [n_levels].
        low: Outermost level of the group.
        high: Level after its innermost one.
        slowest_s: Greatest of ``hop_s`` over the group's levels.
    """
    # Sums of gains within an instance: of all hops, and of the best and worst way from its first one on.
    total, best_start, worst_start = 0.0, 0.0, 0.0
    # Greatest sum of consecutive hops, and least sum of at least as many as there are phases.
    best, worst = 0.0, np.inf
    # As worst_start, with at least one hop.
    worst_some = np.inf
    outermost = low
    while factor[outermost] == 1:
        outermost += 1
    for level in range(high - 1, outermost - 1, -1):
        siblings = factor[level]
        if siblings == 1:
            continue
        gain = hop_s[level] + latency_s[level] - slowest_s
        period = total + gain
        closed = level == outermost
        most_more = siblings - 1 if closed else siblings - 2
        # Ways over one hop of this level, or over more of them.
        across = gain + 2.0 * best_start
        low_across = gain + 2.0 * worst_start
        if not closed:
            across = max(across, across + most_more * period)
        further = np.inf
        if most_more > 0:
            further = low_across + min(period, most_more * period)
        if phases == 2 and worst_start == 0.0:
            # One hop is too few, unless some of its neighbours inside come with it.
            low_across += worst_some
        low_across = min(low_across, further)
        best, worst = max(best, across), min(worst, low_across)
        best_start = max(best_start, (siblings - 1) * period + best_start)
        worst_some = min(worst_some, min(period, (siblings - 1) * period) + worst_start)
        worst_start = min(worst_start, (siblings - 1) * period + worst_start)
        turn = siblings * period
        total = turn - gain
    return phases * turn - worst if turn > 0.0 else best


@cached_kernel()
def chain_wait_s(
    factor: NDArray[np.int64], latency_s: NDArray[np.float64], low: int, high: int, both_ways: bool
) -> float:
    """Return the latencies that the first piece of a pipelined chain meets on its way along all members.

    Args:
        factor: Factor of each level, int64 [n_levels], outermost first.
        latency_s: Latency of a hop between siblings of each level, float64 [n_levels].
        low: Outermost level of the group.
        high: Level after its innermost one.
        both_ways: Whether a second chain leaves the root in the other direction; it has the hop that closes
            the circle in place of the root's.
    """
    wait_s, n, outermost_s, innermost_s = 0.0, 1, 0.0, 0.0
    for level in range(low, high):
        if factor[level] > 1:
            wait_s += n * (factor[level] - 1) * latency_s[level]
            if n == 1:
                outermost_s = latency_s[level]
            innermost_s = latency_s[level]
            n *= factor[level]
    return wait_s + max(outermost_s - innermost_s, 0.0) if both_ways else wait_s
