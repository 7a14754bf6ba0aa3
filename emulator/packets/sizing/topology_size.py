"""Size of a network, computed from the scenario's table without building the network."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sysgym.scenarios.schema.congestion.topology import (
    DumbbellTopology,
    FatTreeTopology,
    GraphTopology,
    LeafSpineTopology,
    ParkingLotTopology,
    TopologyTable,
)


class TopologySize(NamedTuple):
    """Numbers of components, and path lengths in links.

    Attributes:
        n_hosts: Hosts.
        n_nodes: Hosts and switches.
        n_links: Directed links.
        n_edges: Switches with hosts.
        mean_path: Mean path length between two random hosts.
        far_path: Path length in a matrix that sends as far as possible.
        longest_path: Longest path between any two hosts.
        n_one_to_one: Number of pairs of the matrix one_to_one.
        capacity_bps: Largest total rate at which hosts can send over far paths, bit/s.
    """

    n_hosts: int
    n_nodes: int
    n_links: int
    n_edges: int
    mean_path: float
    far_path: float
    longest_path: int
    n_one_to_one: int
    capacity_bps: float


def topology_size(topology: TopologyTable) -> TopologySize:
    """Return the size of the network that a table describes, without its overrides."""
    n, rate_bps = topology.n_hosts, topology.link_rate_bps
    if isinstance(topology, DumbbellTopology):
        side = topology.hosts_per_side
        mean = _mean({2: side - 1, 3: side})
        core_bps = topology.core_link_rate_bps
        return TopologySize(n, n + 2, 2 * (n + 1), 2, mean, 3.0, 3, side, core_bps)
    if isinstance(topology, FatTreeTopology):
        k = topology.k
        edge, pod = k // 2, k * k // 4
        mean = _mean({2: edge - 1, 4: pod - edge, 6: n - pod})
        return TopologySize(n, n + 5 * k * k // 4, 6 * n, k * k // 2, mean, 6.0, 6, n, n * rate_bps)
    if isinstance(topology, LeafSpineTopology):
        leaves, spines, rack = topology.leaves, topology.spines, topology.hosts_per_leaf
        mean = _mean({2: rack - 1, 4: n - rack})
        links = 2 * (n + leaves * spines)
        capacity_bps = n * rate_bps / max(topology.oversubscription, 1.0)
        return TopologySize(n, n + leaves + spines, links, leaves, mean, 4.0, 4, n, capacity_bps)
    if isinstance(topology, ParkingLotTopology):
        count = topology.bottlenecks
        # One flow crosses all bottlenecks and shares each with one that crosses it alone.
        far = (count + 2 + 3 * count) / (count + 1)
        capacity_bps = (count + 1) / 2 * topology.core_link_rate_bps
        links = 2 * (n + count)
        return TopologySize(
            n, n + count + 1, links, count + 1, 2 + count / 3, far, count + 2, count + 1, capacity_bps
        )
    if isinstance(topology, GraphTopology):
        return _graph_size(topology)
    return TopologySize(n, n + 1, 2 * n, 1, 2.0, 2.0, 2, n, math.inf)


def _graph_size(topology: GraphTopology) -> TopologySize:
    """Return the size of a graph, with path lengths by breadth-first search."""
    from scipy.sparse import csr_array  # here, as only graphs need them: a fifth of the time of a start
    from scipy.sparse.csgraph import shortest_path

    switches, n = topology.switches, topology.n_hosts
    number = {name: place for place, name in enumerate(switches)}
    ends = np.array([[number[end] for end in cable.ends] for cable in topology.cables], np.int64)
    ends = ends.reshape(-1, 2)
    shape = (len(switches), len(switches))
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=shape)
    edges, hosts = np.unique([number[name] for name in topology.places], return_counts=True)
    lengths = 2.0 + shortest_path(joined, directed=False, unweighted=True, indices=edges)[:, edges]
    pairs = np.outer(hosts, hosts) - np.diag(hosts)
    mean = float((lengths * pairs).sum() / max(pairs.sum(), 1))
    rates_bps = [cable.rate_bps or topology.link_rate_bps for cable in topology.cables]
    # Each flow uses as many links between switches as its path is long, less those of its hosts.
    between_bps = 2.0 * sum(rates_bps) / max(mean - 2.0, 1e-9) if rates_bps else math.inf
    return TopologySize(
        n,
        n + len(switches),
        2 * (n + len(ends)),
        len(edges),
        mean,
        mean,
        int(lengths.max()),
        n,
        min(n * topology.link_rate_bps, between_bps),
    )


def _mean(hosts_at: dict[int, int]) -> float:
    """Return the mean distance, from the number of hosts at each distance."""
    return sum(links * hosts for links, hosts in hosts_at.items()) / max(sum(hosts_at.values()), 1)
