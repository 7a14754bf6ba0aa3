"""Time of one step whose groups run at once and share links, in compiled code.

An instruction runs a collective in many groups of devices. A group whose members are inside and outside an
instance of a level sends bytes through the instance's uplinks. These loads add up. The step takes as long as
the fullest link of any level, plus what the latencies of its rounds add (``rounds.py``).

Every member of a group carries an equal share of the bytes that its group sends out of an instance, through
the uplink to which it is assigned, as in a ring with as many channels as members.

All instances that take part are alike, so it is enough to look at the first one, whose first uplink carries
most. If only masters take part, the active devices are those with some digits 0. Let N(x) be the number of
them among the first x ids, with the ids continued without end by more digits of the first kind. Then N(x + y)
is at most N(x) + N(y). Proof by induction over the digits, innermost first: a digit that is free leaves N
unchanged. A digit that must be 0, of radix q above a period W with M devices, makes it min(N(x), M) within a
period qW. If x + y is within one period, that is at most the sum. If not, and both are at least W, both count
M. If x is less than W, y is at least W and counts M, and the part that reaches into the next period is less
than x. Therefore no block of w ids holds more active devices than the first one, and in a ring no link is
under more equally long arcs than N(length of an arc).

In a ring of siblings a group's bytes load directed links, each with half of an uplink's bandwidth. A group
that reaches around half of the ring or more closes the circle, with half of its bytes in each direction; any
other group goes back and forth over its arc. If it goes on to other instances of the ring's parent, an arc
has half of the bytes in each direction. Traffic out of the ring's parent uses the parent's uplinks and
not the ring. These rules of rings are our convention.

Rings, trees and chains are pipelines that use all levels at once. The rounds of halving and doubling run one
after another, nearest members first: a level is crossed by what remains after the reduction inside it, and
each round takes as long as its own fullest link plus the latency of its own level.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost.ring import ALL_GATHER as _ALL_GATHER
from sysgym.emulator.accelerators.cost.ring import ALL_REDUCE as _ALL_REDUCE
from sysgym.emulator.accelerators.cost.ring import ring_phases, ring_sent
from sysgym.emulator.accelerators.cost.rounds import chain_wait_s, ring_wait_s
from sysgym.emulator.compiling import cached_kernel

RING, HALVING_DOUBLING, TREE, AUTO = range(4)
ALGORITHMS = ("ring", "halving_doubling", "tree", "auto")
"""Names in the order of their numbers.

``tree`` applies to AllReduce and uses rings for other collectives; Reduce and Broadcast are always pipelined
chains; ``auto`` takes the fastest algorithm for each step.
"""


class Links(NamedTuple):
    """The levels of a hierarchy as arrays [n_levels], outermost first; see ``hierarchy.Level``."""

    cardinality: NDArray[np.int64]
    bandwidth_bytes_per_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    uplinks: NDArray[np.int64]
    ring: NDArray[np.bool_]


class Spread(NamedTuple):
    """Position of a reduction on the levels.

    ``matrix`` is int64 [n_axes, n_levels], ``reduced`` bool [n_axes], and ``factor``, int64 [n_levels], the
    product of each level's entries over the reduced axes.
    """

    matrix: NDArray[np.int64]
    reduced: NDArray[np.bool_]
    factor: NDArray[np.int64]


class Curve(NamedTuple):
    """Logarithms of message sizes and of their shares of bandwidth; no points mean full bandwidth."""

    log_size: NDArray[np.float64]
    log_share: NDArray[np.float64]


class Steps(NamedTuple):
    """Steps as arrays [n_steps].

    A group's members differ in the reduced digits of the levels from ``low`` up to ``high``, where the
    reduction lies on ``low``. With ``masters`` only devices take part whose reduced digits are 0 from
    ``high`` on. ``message_bytes`` is the part of the vector that the first member holds before the step, or
    after it for an AllGather.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    masters: NDArray[np.bool_]
    collective: NDArray[np.int64]
    message_bytes: NDArray[np.float64]


@cached_kernel()
def step_times_s(
    links: Links, spread: Spread, steps: Steps, algorithm: int, curve: Curve
) -> NDArray[np.float64]:
    """Return the time of each step, float64 [n_steps]; infinity if its groups have no such algorithm."""
    times_s = np.empty(steps.low.size)
    for step in range(times_s.size):
        link_s, latency_s, _ = step_cost(
            links, spread, steps.low[step], steps.high[step], steps.masters[step], steps.collective[step],
            steps.message_bytes[step], algorithm, curve,
        )  # fmt: skip
        times_s[step] = link_s + latency_s
    return times_s


@cached_kernel()
def step_parts_s(
    links: Links, spread: Spread, steps: Steps, algorithm: int, curve: Curve
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return each step's time on its fullest link, its latency, and that link's level (-1: none)."""
    n_steps = steps.low.size
    links_s, latencies_s, levels = np.empty(n_steps), np.empty(n_steps), np.empty(n_steps, np.int64)
    for step in range(n_steps):
        links_s[step], latencies_s[step], levels[step] = step_cost(
            links, spread, steps.low[step], steps.high[step], steps.masters[step], steps.collective[step],
            steps.message_bytes[step], algorithm, curve,
        )  # fmt: skip
    return links_s, latencies_s, levels


@cached_kernel()
def all_reduce_times_s(
    links: Links,
    matrices: NDArray[np.int64],
    reduced: NDArray[np.bool_],
    size_bytes: NDArray[np.float64],
    algorithm: int,
    curve: Curve,
) -> NDArray[np.float64]:
    """Return the time of consecutive AllReduces for each matrix, float64 [n_matrices].

    Args:
        links: Links of the hierarchy.
        matrices: [n_matrices, n_axes, n_levels].
        reduced: The axes of each reduction, [n_reductions, n_axes].
        size_bytes: Bytes of each reduction, [n_reductions].
        algorithm: Number of the algorithm.
        curve: Efficiency by message size.
    """
    n_matrices, n_axes, n_levels = matrices.shape
    times_s = np.zeros(n_matrices)
    factor = np.empty(n_levels, np.int64)
    for index in range(n_matrices):
        for reduction in range(size_bytes.size):
            low = n_levels
            for level in range(n_levels - 1, -1, -1):
                factor[level] = 1
                for axis in range(n_axes):
                    if reduced[reduction, axis]:
                        factor[level] *= matrices[index, axis, level]
                if factor[level] > 1:
                    low = level
            link_s, latency_s, _ = step_cost(
                links, Spread(matrices[index], reduced[reduction], factor), low, n_levels, False, _ALL_REDUCE,
                size_bytes[reduction], algorithm, curve,
            )  # fmt: skip
            times_s[index] += link_s + latency_s
    return times_s


@cached_kernel()
def step_cost(
    links: Links,
    spread: Spread,
    low: int,
    high: int,
    masters: bool,
    collective: int,
    message_bytes: float,
    algorithm: int,
    curve: Curve,
) -> tuple[float, float, int]:
    """Return a step's time on its fullest link, its latency, and the level of that link (-1: none is used).

    The arguments are those of :class:`Steps`.
    """
    n = 1
    for level in range(low, high):
        n *= spread.factor[level]
    if n == 1:
        return 0.0, 0.0, -1
    if algorithm != AUTO:
        return _cost(links, spread, low, high, masters, collective, message_bytes, algorithm, curve, n)
    best = _cost(links, spread, low, high, masters, collective, message_bytes, RING, curve, n)
    # Algorithms other than rings exist for AllReduce, ReduceScatter and AllGather; a tree for AllReduce.
    if collective <= _ALL_GATHER:
        for other in range(HALVING_DOUBLING, TREE + 1 if collective == _ALL_REDUCE else TREE):
            cost = _cost(links, spread, low, high, masters, collective, message_bytes, other, curve, n)
            if cost[0] + cost[1] < best[0] + best[1]:
                best = cost
    return best


@cached_kernel()
def _cost(
    links: Links,
    spread: Spread,
    low: int,
    high: int,
    masters: bool,
    collective: int,
    message_bytes: float,
    algorithm: int,
    curve: Curve,
    n: int,
) -> tuple[float, float, int]:
    halving = algorithm == HALVING_DOUBLING and collective <= _ALL_GATHER
    if halving and n & (n - 1):
        return np.inf, 0.0, -1
    tree = algorithm == TREE and collective == _ALL_REDUCE
    phases = ring_phases(collective)
    share = _share_of_bandwidth(curve, message_bytes)
    link_s, latency_s, fullest = 0.0, 0.0, -1
    # For one instance of a level: its devices, the active ones, and the members of each group.
    devices, active, inside = 1, 1, 1
    # Seconds per byte of every active device, through the slowest of the switches so far.
    slowest, slowest_level, longest_round_s = 0.0, -1, 0.0
    # Times of a hop between siblings of each level, and of the switches that it crosses on the way there.
    hop_s, crossed_s = np.zeros(spread.factor.size), 0.0
    for level in range(spread.factor.size - 1, low - 1, -1):
        cardinality, factor = links.cardinality[level], spread.factor[level]
        varies, in_ring = level < high, links.ring[level]
        if not in_ring or (varies and factor > 1):
            uplinks = links.uplinks[level]
            if uplinks == 1:
                served = active
            elif not masters:
                served = devices // uplinks
            else:
                served = _active_below(devices // uplinks, devices, active, spread, level + 1, high)
            bandwidth = links.bandwidth_bytes_per_s[level] * (
                1.0 if level == spread.factor.size - 1 else share
            )
            per_byte = served / (0.5 * bandwidth if in_ring else bandwidth)
            if halving:
                if not in_ring and per_byte > slowest:
                    slowest, slowest_level = per_byte, level
            else:
                if in_ring:
                    sent = _busiest_link(collective, tree, spread, level, cardinality, n, inside)
                else:
                    sent = _sent(collective, tree, n, inside)
                seconds = sent * message_bytes / inside * per_byte
                if seconds > link_s:
                    link_s, fullest = seconds, level
                if in_ring:
                    hop_s[level] = max(crossed_s, seconds)
                else:
                    crossed_s = max(crossed_s, seconds)
                    hop_s[level] = crossed_s
        if halving and varies and factor > 1:
            # The rounds between the siblings of this level, as many as factor has doublings.
            piece_bytes, weight, rounds = message_bytes / inside, 1, 0
            for axis in range(spread.reduced.size - 1, -1, -1):
                radix = spread.matrix[axis, level]
                distance = weight
                weight *= radix
                while spread.reduced[axis] and distance < weight:
                    piece_bytes *= 0.5
                    round_s, round_level = piece_bytes * slowest, slowest_level
                    if in_ring:
                        # As many siblings send over a link as the distance is long; halfway around they use
                        # both directions.
                        across = 0.5 * distance if 2 * distance == cardinality else 1.0 * distance
                        if piece_bytes * across * per_byte > round_s:
                            round_s, round_level = piece_bytes * across * per_byte, level
                    link_s += phases * round_s
                    if round_s > longest_round_s:
                        longest_round_s, fullest = round_s, round_level
                    distance *= 2
                    rounds += 1
            latency_s += phases * rounds * links.latency_s[level]
        devices *= cardinality
        active *= cardinality if varies or not masters else cardinality // factor
        if varies:
            inside *= factor
    if halving:
        return link_s, latency_s, fullest
    if collective > _ALL_GATHER:
        both_ways = False
        for level in range(low, high):
            both_ways = both_ways or (links.ring[level] and spread.factor[level] > 1)
        latency_s = chain_wait_s(spread.factor, links.latency_s, low, high, both_ways)
    elif tree:
        for level in range(low, high):
            latency_s += phases * _doublings(spread.factor[level]) * links.latency_s[level]
    else:
        rounds = phases * (n - 1)
        latency_s = ring_wait_s(
            phases, spread.factor, hop_s / rounds, links.latency_s, low, high, link_s / rounds
        )
    return link_s, latency_s, fullest


@cached_kernel()
def _sent(collective: int, tree: bool, n: int, inside: int) -> float:
    """Return the bytes that a group sends out of an instance with some of its members, per message byte."""
    if collective > _ALL_GATHER:
        return 1.0
    if tree:
        # An inner vertex of one of the two trees is a leaf of the other; two instances are a leaf and a root.
        return min(2.0, 0.5 * n / inside)
    return ring_sent(collective, n)


@cached_kernel()
def _doublings(n: int) -> int:
    rounds = 0
    while (1 << rounds) < n:
        rounds += 1
    return rounds


@cached_kernel()
def _busiest_link(
    collective: int, tree: bool, spread: Spread, level: int, cardinality: int, n: int, inside: int
) -> float:
    """Return the messages on the busiest directed link of a ring with one group for each set of siblings."""
    span, weight = 0, cardinality
    for axis in range(spread.reduced.size):
        weight //= spread.matrix[axis, level]
        if spread.reduced[axis]:
            span += (spread.matrix[axis, level] - 1) * weight
    closed = 2 * span >= cardinality
    groups: int = cardinality // spread.factor[level]
    if not closed:
        groups = _first_members_below(span, cardinality, spread, level)
    if tree:
        # Chains: the reduction in one direction and the broadcast back; a pair uses both directions.
        return 0.5 * groups if closed and spread.factor[level] == 2 else 1.0 * groups
    share = 0.5 if closed else 1.0
    if n > inside * spread.factor[level] and (not closed or spread.factor[level] == 2):
        # The way on leads out of the ring, not back over the arc or its opposite.
        share *= 0.5
    return _sent(collective, False, n, 1) * share * groups


@cached_kernel()
def _first_members_below(limit: int, cardinality: int, spread: Spread, level: int) -> int:
    """Return the number of a ring's first siblings whose reduced digits are 0: the first of their groups."""
    count, weight = 0, cardinality
    members: int = cardinality // spread.factor[level]
    for axis in range(spread.reduced.size):
        radix = spread.matrix[axis, level]
        weight //= radix
        if not spread.reduced[axis]:
            members //= radix
            count += limit // weight * members
            limit %= weight
        elif limit >= weight:
            return count + members
    return count


@cached_kernel()
def _active_below(limit: int, devices: int, active: int, spread: Spread, first: int, high: int) -> int:
    """Return the number of an instance's first devices that are masters: their reduced digits are 0.

    Args:
        limit: Number of first devices.
        devices: Devices in the instance.
        active: Masters in the instance.
        spread: Position of the reduction on the levels.
        first: Level of the instance's children.
        high: Level from which on the digits are 0.
    """
    count = 0
    for level in range(first, spread.factor.size):
        for axis in range(spread.reduced.size):
            radix = spread.matrix[axis, level]
            devices //= radix
            if not (spread.reduced[axis] and level >= high):
                active //= radix
                count += limit // devices * active
                limit %= devices
            elif limit >= devices:
                return count + active
    return count


@cached_kernel()
def _share_of_bandwidth(curve: Curve, message_bytes: float) -> float:
    points = curve.log_size.size
    if points == 0:
        return 1.0
    log_message = math.log(message_bytes) if message_bytes > 0.0 else -math.inf
    if log_message <= curve.log_size[0]:
        return math.exp(curve.log_share[0])
    for point in range(1, points):
        if log_message < curve.log_size[point]:
            rest = (curve.log_size[point] - log_message) / (curve.log_size[point] - curve.log_size[point - 1])
            return math.exp(rest * curve.log_share[point - 1] + (1.0 - rest) * curve.log_share[point])
    return math.exp(curve.log_share[points - 1])
