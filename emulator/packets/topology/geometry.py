"""Layout of a topology for figures: hosts at the bottom, switches in tiers above them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology.graph import Topology

_STRESS_STEPS = 200

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


def plane_positions(topology: Topology) -> NDArray[np.float64]:
    """Return positions in the plane for networks without tiers, shape (n_nodes, 2), between 0 and 1.

    Distances between switches are like their distances in links. Hosts are around their switch.
    """
    from scipy.sparse import csr_array  # here, as every environment of a network imports this module
    from scipy.sparse.csgraph import shortest_path

    n_hosts, n_switches = topology.n_hosts, topology.n_switches
    between = ~topology.from_host & ~topology.to_host
    ends = (topology.link_source[between] - n_hosts, topology.link_target[between] - n_hosts)
    joined = csr_array((np.ones(int(between.sum())), ends), shape=(n_switches, n_switches))
    places = _places(shortest_path(joined, unweighted=True))
    places -= places.min(axis=0)
    places = 0.1 + 0.8 * places / np.maximum(places.max(axis=0), 1e-9)
    positions = np.zeros((topology.n_nodes, 2))
    positions[n_hosts:] = places
    for switch in range(n_switches):
        hosts = np.flatnonzero(topology.host_edge == n_hosts + switch)
        away = places[switch] - 0.5
        middle = np.arctan2(away[1], away[0])
        step = min(0.6, 5.0 / max(len(hosts), 1))
        angles = middle + (np.arange(len(hosts)) - 0.5 * (len(hosts) - 1)) * step
        positions[hosts] = places[switch] + 0.07 * np.column_stack((np.cos(angles), np.sin(angles)))
    return positions


def _places(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places whose distances are like the given ones, by stress majorization.

    The stress is the sum of ``((distance - length) / length)**2``; each step solves the majorizing quadratic
    (Gansner, Koren and North, Graph Drawing 2004, section 2). The start is a circle.
    """
    n = len(lengths)
    if n == 1:
        return np.zeros((1, 2))
    angles = 2.0 * np.pi * np.arange(n) / n
    places = 0.5 * lengths.max() * np.column_stack((-np.cos(angles), np.sin(angles)))
    apart = lengths + np.eye(n)
    weights = (1.0 - np.eye(n)) / apart**2
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(_STRESS_STEPS):
        distances = np.linalg.norm(places[:, None] - places[None], axis=2)
        pulls = -weights * lengths / np.maximum(distances, 1e-9)
        np.fill_diagonal(pulls, 0.0)
        np.fill_diagonal(pulls, -pulls.sum(axis=1))
        places = inverse @ (pulls @ places)
    return places


def _mean_below(
    topology: Topology, tiers: NDArray[np.int64], x: NDArray[np.float64], node: np.int64
) -> float:
    neighbours = topology.link_target[topology.link_source == node]
    return float(x[neighbours[tiers[neighbours] == tiers[node] - 1]].mean())
