"""Layout of a topology for figures: hosts at the bottom, switches in tiers above them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology.graph import Topology

GAP_BETWEEN_SWITCHES = 0.8
"""Extra space between hosts of different switches, in multiples of the distance between neighbours."""


def node_tiers(topology: Topology) -> NDArray[np.int64]:
    """Return the number of links from each node to the nearest host, shape (n_nodes,): 0 for hosts."""
    tiers = np.full(topology.n_nodes, -1, dtype=np.int64)
    tiers[: topology.n_hosts] = 0
    tier = 0
    while np.any(tiers < 0):
        ends = topology.link_target[tiers[topology.link_source] == tier]
        ends = ends[tiers[ends] < 0]
        tier += 1
        tiers[ends] = tier
    return tiers


def node_positions(topology: Topology) -> NDArray[np.float64]:
    """Return positions for drawing, shape (n_nodes, 2): x from 0 to 1, y the tier.

    Hosts are in the order of their switches. A switch with hosts is above the middle of its hosts; the
    switches of a higher tier are spaced evenly, in the order of the nodes below them.
    """
    tiers = node_tiers(topology)
    x = np.zeros(topology.n_nodes)
    hosts = np.lexsort((np.arange(topology.n_hosts), topology.host_edge))
    gaps = np.concatenate(([0.0], np.diff(topology.host_edge[hosts]) != 0)) * GAP_BETWEEN_SWITCHES
    x[hosts] = np.arange(topology.n_hosts) + np.cumsum(gaps)
    x[: topology.n_hosts] /= max(float(x.max()), 1.0)
    for tier in range(1, int(tiers.max()) + 1):
        nodes = np.flatnonzero(tiers == tier)
        middle = np.array([_mean_below(topology, tiers, x, node) for node in nodes])
        if tier == 1:
            x[nodes] = middle
            continue
        order = nodes[np.argsort(middle, kind="stable")]
        x[order] = (np.arange(len(order)) + 0.5) / len(order)
    return np.column_stack((x, tiers.astype(np.float64)))


def _mean_below(
    topology: Topology, tiers: NDArray[np.int64], x: NDArray[np.float64], node: np.int64
) -> float:
    neighbours = topology.link_target[topology.link_source == node]
    return float(x[neighbours[tiers[neighbours] == tiers[node] - 1]].mean())
