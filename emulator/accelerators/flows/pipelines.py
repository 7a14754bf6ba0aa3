"""Collectives as one flow per group: connections of a ring, chain or tree that advance together.

The transfers of a pipeline wait for each other, so in the long run all its connections carry their bytes at
the rate of the slowest one. A group is therefore one flow over all links of its connections, with the bytes
of each link as its shares, and groups share links by max-min fairness as in :mod:`~.simulation`. This takes a
flow for each group instead of thousands of transfers, and keeps what closed forms leave out: links that
differ, and groups of other jobs. ``tests/emulator/accelerators/flows/test_pipelines.py`` compares it with all
transfers.

A chain or tree has the latencies of its length, once, when its pipeline fills. The rounds of a ring either
keep its slowest connection busy, or a piece travels around all the time; the time is the longer of the two,
as in :mod:`~sysgym.emulator.accelerators.cost.rounds` without the ways between.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.engine import NOBODY, Waiting, run_flows
from sysgym.emulator.accelerators.flows.links import LinkGraph
from sysgym.emulator.accelerators.flows.schedules import make_schedule
from sysgym.emulator.accelerators.flows.tables import FloatArray, IntArray, Paths
from sysgym.emulator.accelerators.flows.transfers import spans_ring
from sysgym.emulator.accelerators.programs.patterns import Collective
from sysgym.emulator.compiling import cached_kernel
from sysgym.scenarios.errors import UnknownName

PIPELINES = ("ring", "tree")
"""Algorithms whose connections advance together; halving and doubling uses one level after another."""

_ALIKE = 1e-12
"""Sizes and latencies of groups that differ by less than this share are equal."""

_CHAINS = (Collective.REDUCE, Collective.BROADCAST)


class GroupFlows(NamedTuple):
    """A collective in several groups at once, a flow for each.

    A flow's rate is that of its fullest connection; other connections carry a fixed share of it.
    """

    paths: Paths
    """Path of each group; a link that several of its connections use has the sum of their shares."""
    size_bytes: FloatArray
    """Bytes over the fullest connection of each group, float64 [n_groups]."""
    latency_s: FloatArray
    """Latencies of each group's dependent rounds, float64 [n_groups]: the number of rounds times the mean."""
    hops: Hops | None = None
    """Connections of rings, of which a piece uses one after another; None for chains and trees."""


class Hops(NamedTuple):
    """Connections of the rings of several groups."""

    paths: Paths
    """Links of each connection, group after group."""
    last_s: FloatArray
    """Latency of each group's slowest connection, float64 [n_groups]."""


class _Connections(NamedTuple):
    """Connections of one group: senders, receivers, the share of the vector on each, and dependent rounds."""

    source: IntArray
    target: IntArray
    share: FloatArray
    n_rounds: int


def group_flows(
    links: LinkGraph,
    groups: IntArray,
    collective: Collective,
    vector_bytes: FloatArray,
    *,
    algorithm: str = "ring",
    factors: Sequence[int] | None = None,
) -> GroupFlows:
    """Return the flows of a collective that several groups run at the same time.

    Args:
        links: Links of the devices.
        groups: Devices of each group, int32 [n_groups, n_members]; the first member is the root.
        collective: Collective of each group.
        vector_bytes: Bytes of each group's whole vector, [n_groups], as in
            :func:`~.transfers.lower_collective`.
        algorithm: One of :data:`PIPELINES`.
        factors: Factors of a group's levels, outermost first; None for one level.

    Raises:
        UnknownName: The algorithm is not a pipeline.
        SysgymError: A device does not exist.
    """
    if algorithm not in PIPELINES:
        raise UnknownName("pipelined algorithm", algorithm, PIPELINES)
    n_groups, n_members = groups.shape
    channels = 2 if spans_ring(links, groups) else 1
    sizes = (n_members,) if factors is None else tuple(int(factor) for factor in factors)
    source, target, share, n_rounds = _connections(collective, algorithm, sizes, channels)
    senders, receivers = groups[:, source].ravel(), groups[:, target].ravel()
    group_of = np.repeat(np.arange(n_groups), len(source))
    fullest = share.max(initial=0.0)
    of_hops = links.paths(senders, receivers, groups, group_of)
    paths = _joined(
        of_hops,
        group_of,
        np.tile(share / fullest if fullest else share, n_groups),
        n_groups,
        links.n_links,
    )
    latency_s = links.latency_s(senders, receivers).reshape(n_groups, -1)
    size_bytes = np.asarray(vector_bytes * fullest, np.float64)
    if not len(source):
        return GroupFlows(paths, size_bytes, np.zeros(n_groups))
    is_ring = _is_ring(collective, algorithm)
    hops = Hops(of_hops, latency_s.max(axis=1)) if is_ring else None
    return GroupFlows(paths, size_bytes, n_rounds * latency_s.mean(axis=1), hops)


def _is_ring(collective: Collective, algorithm: str) -> bool:
    return not (collective in _CHAINS or (algorithm == "tree" and collective is Collective.ALL_REDUCE))


@functools.lru_cache(maxsize=4096)
def _connections(
    collective: Collective, algorithm: str, factors: tuple[int, ...], channels: int
) -> _Connections:
    n = math.prod(factors)
    phases = 2 if collective is Collective.ALL_REDUCE else 1
    if not _is_ring(collective, algorithm):
        schedule = make_schedule(collective, algorithm, factors, channels=channels, chunks=1)
        source, target, pair_of = schedule.connections
        pieces = np.bincount(pair_of, weights=schedule.piece_count, minlength=len(source))
        rounds = n - 1 if collective in _CHAINS else phases * (n - 1).bit_length()
        return _Connections(source, target, pieces / max(schedule.n_pieces, 1), rounds)
    members = np.arange(n, dtype=np.int32)
    ways = (1, -1)[:channels]
    source, target = np.tile(members, channels), np.concatenate([(members + way) % n for way in ways])
    share = phases * (n - 1) / n / channels
    return _Connections(source, target.astype(np.int32), np.full(len(source), share), phases * (n - 1))


def _joined(
    paths: Paths, group_of: NDArray[np.int64], share: FloatArray, n_groups: int, n_links: int
) -> Paths:
    """Return one path for each group: the links of its connections, weighted by what they carry."""
    hops = np.diff(paths.first)
    keys = np.repeat(group_of, hops) * n_links + paths.link
    found, place = np.unique(keys, return_inverse=True)
    load: FloatArray = np.bincount(
        place, weights=np.repeat(share, hops) * paths.share, minlength=len(found)
    ).astype(np.float64)
    group, link = np.divmod(found, n_links)
    first = np.searchsorted(group, np.arange(n_groups + 1))
    return Paths(first.astype(np.int64), link.astype(np.int32), load)


def step_times_s(flows: GroupFlows, bandwidth_bytes_per_s: FloatArray) -> FloatArray:
    """Return the time until all groups have finished, for each of several networks, float64 [n].

    Groups that are all alike in size and latency are not simulated. By max-min fairness none is slower than
    those on the link with the least bandwidth for its load, and these keep their rate until they finish
    together. The step takes as long as that link, or as a piece that goes around a ring all the time.

    Args:
        flows: Flows of the groups, which start together.
        bandwidth_bytes_per_s: Bandwidth of every link in each network, more than 0, float64 [n, n_links].
    """
    size_bytes, paths = flows.size_bytes, flows.paths
    n_networks, n_links = bandwidth_bytes_per_s.shape
    if not len(size_bytes):
        return np.zeros(n_networks)
    after_s = flows.latency_s if flows.hops is None else flows.hops.last_s
    per_byte_s = np.bincount(paths.link, paths.share, n_links) / bandwidth_bytes_per_s
    if np.ptp(size_bytes) > _ALIKE * size_bytes[0] or np.ptp(after_s) > _ALIKE * after_s[0]:
        times_s = _simulated_s(size_bytes, after_s, paths, bandwidth_bytes_per_s)
    else:
        times_s = size_bytes[0] * per_byte_s.max(axis=1) + after_s[0]
    if flows.hops is not None:
        around_s = size_bytes * mean_hop_s_per_byte(flows, per_byte_s) + flows.latency_s
        times_s = np.maximum(times_s, around_s.max(axis=1))
    return np.asarray(times_s)


def mean_hop_s_per_byte(flows: GroupFlows, per_byte_s: FloatArray) -> FloatArray:
    """Return the time in which a ring's connections send a byte, one after another, float64 [n, n_groups].

    It is the mean over the connections; each takes as long as the slowest of its links, which all groups
    share.

    Args:
        flows: Rings of several groups.
        per_byte_s: Time of each link if every group sends a byte over its fullest connection, [n, n_links].
    """
    assert flows.hops is not None
    link, first = flows.hops.paths.link, flows.hops.paths.first
    slowest_s = np.maximum.reduceat(per_byte_s[:, link], first[:-1], axis=1)
    return np.asarray(slowest_s.reshape(len(per_byte_s), len(flows.size_bytes), -1).mean(axis=2))


@cached_kernel()
def _simulated_s(
    size_bytes: FloatArray, latency_s: FloatArray, paths: Paths, bandwidth_bytes_per_s: FloatArray
) -> FloatArray:
    n_groups = len(size_bytes)
    alone = Waiting(
        np.zeros(n_groups, np.int64),
        np.zeros(n_groups + 1, np.int64),
        np.zeros(0, np.int32),
        np.full(n_groups, NOBODY, np.int32),
    )
    path = np.arange(n_groups).astype(np.int32)
    times_s = np.zeros(len(bandwidth_bytes_per_s))
    for network in range(len(times_s)):
        finish_s = run_flows(
            size_bytes, latency_s, path, paths, alone, bandwidth_bytes_per_s[network], False
        )[2]
        for group in range(n_groups):
            times_s[network] = max(times_s[network], finish_s[group])
    return times_s
