"""Hops: ways from one device to another over a link, or over switches alone.

A schedule sends chunks over hops. The switches between two devices are unwound: a hop occupies every link of
its path, so hops that share a port of a switch wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sysgym.emulator.collectives.network import FloatArray, IntArray, Network

MOST_PATHS = 4
"""Most hops between the same two devices: equally short ways over different switches."""

NO_LINK = -1


@dataclass(frozen=True, eq=False)
class Hops:
    """All hops of a network.

    Attributes:
        network: The network.
        sources: Sending device of each hop, int64 [n_hops].
        targets: Receiving device of each hop, int64 [n_hops].
        paths: Links of each hop in order, int64 [n_hops, longest], padded with :data:`NO_LINK`.
    """

    network: Network
    sources: IntArray
    targets: IntArray
    paths: IntArray

    @property
    def n_hops(self) -> int:
        """Number of hops."""
        return len(self.sources)

    @cached_property
    def latencies_s(self) -> FloatArray:
        """Sum of the latencies of each hop's links, float64 [n_hops]."""
        latencies_s = np.append(self.network.latencies_s, 0.0)
        total: FloatArray = latencies_s[self.paths].sum(axis=1)
        return total

    @cached_property
    def bandwidths_bytes_per_s(self) -> FloatArray:
        """Bandwidth of the slowest link of each hop, float64 [n_hops]."""
        bandwidths = np.append(self.network.bandwidths_bytes_per_s, np.inf)
        least: FloatArray = bandwidths[self.paths].min(axis=1)
        return least

    def durations_s(self, size_bytes: float) -> FloatArray:
        """Return the time from the start of a transfer to its arrival, float64 [n_hops]."""
        return self.latencies_s + size_bytes / self.bandwidths_bytes_per_s

    def distances_s(self, size_bytes: float) -> FloatArray:
        """Return the least time from device to device, store-and-forward, float64 [n_devices, n_devices]."""
        n = self.network.n_devices
        least = np.full((n, n), np.inf)
        np.fill_diagonal(least, 0.0)
        np.minimum.at(least, (self.sources, self.targets), self.durations_s(size_bytes))
        for middle in range(n):  # Floyd and Warshall
            np.minimum(least, least[:, middle, None] + least[None, middle, :], out=least)
        return least

    @cached_property
    def fastest(self) -> dict[tuple[int, int], int]:
        """Widest hop between two devices, the first of several, by the devices."""
        found: dict[tuple[int, int], int] = {}
        for hop in np.argsort(-self.bandwidths_bytes_per_s, kind="stable").tolist():
            found.setdefault((int(self.sources[hop]), int(self.targets[hop])), hop)
        return found


def hops_of(network: Network) -> Hops:
    """Return the hops of a network.

    Between two devices these are the paths through switches alone with the fewest links, at most
    :data:`MOST_PATHS`, the widest first; pairs of devices start at different ones of equal paths.
    """
    leaving: list[list[int]] = [[] for _ in network.vertices]
    for index, link in enumerate(network.links):
        leaving[link.source].append(index)
    found = [
        (source, target, path)
        for source in range(network.n_devices)
        for target, path in _hops_from(network, leaving, source)
    ]
    longest = max(len(path) for _, _, path in found)
    paths = np.full((len(found), longest), NO_LINK, np.int64)
    for row, (_, _, path) in enumerate(found):
        paths[row, : len(path)] = path
    ends = np.array([(source, target) for source, target, _ in found], np.int64)
    return Hops(network, ends[:, 0].copy(), ends[:, 1].copy(), paths)


def _hops_from(
    network: Network, leaving: list[list[int]], source: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    into: dict[int, list[int]] = {}
    depth = {source: 0}
    waiting = deque([source])
    while waiting:
        vertex = waiting.popleft()
        if vertex != source and vertex < network.n_devices:
            continue  # a device does not forward what is on its way
        for index in leaving[vertex]:
            target = network.links[index].target
            if target not in depth:
                depth[target] = depth[vertex] + 1
                waiting.append(target)
            if depth[target] == depth[vertex] + 1:
                into.setdefault(target, []).append(index)
    bandwidths = network.bandwidths_bytes_per_s
    for target in sorted(into):
        if target < network.n_devices:
            paths = list(_paths_to(network, into, source, target))
            first = (source + target) % len(paths)
            paths = sorted(
                paths[first:] + paths[:first], key=lambda path: -min(bandwidths[link] for link in path)
            )
            yield from ((target, path) for path in paths[:MOST_PATHS])


def _paths_to(
    network: Network, into: dict[int, list[int]], source: int, target: int
) -> Iterator[tuple[int, ...]]:
    """Yield the shortest paths, a bounded number of them: fabrics have thousands."""
    waiting: list[tuple[int, tuple[int, ...]]] = [(target, ())]
    n_found = 0
    while waiting and n_found < 16 * MOST_PATHS:
        vertex, path = waiting.pop()
        if vertex == source:
            n_found += 1
            yield path
            continue
        for index in reversed(into[vertex]):
            waiting.append((network.links[index].source, (index, *path)))
