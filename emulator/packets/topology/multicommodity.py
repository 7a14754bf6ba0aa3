"""Multi-commodity flow bound of a network, and the traffic that equal-cost paths carry.

Both are the largest factor by which a matrix of demands can be multiplied before a link is full, in the fluid
limit: no packets, headers or queues. The bound may split a demand over any paths (maximum concurrent flow:
Shahrokhi and Matula, J. ACM 37, 1990); equal-cost multipath splits it over the shortest paths only, at every
switch in equal parts (RFC 2992), which is where a hash puts many small flows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, eye_array, hstack

from sysgym.emulator.packets.topology.graph import Topology
from sysgym.emulator.packets.topology.routing import distances, switch_graph
from sysgym.scenarios.errors import SysgymError


def uniform_demands(topology: Topology) -> NDArray[np.float64]:
    """Return demands of every host that fill its link, in equal parts to all others, bit/s.

    Returns:
        Shape (n_hosts, n_hosts), senders by row.
    """
    n = topology.n_hosts
    rates_bps = topology.link_rate_bps[topology.host_uplink]
    demands_bps = np.repeat(rates_bps[:, None] / max(n - 1, 1), n, axis=1)
    np.fill_diagonal(demands_bps, 0.0)
    return demands_bps


def concurrent_flow_bound(topology: Topology, demands_bps: ArrayLike) -> float:
    """Return the largest factor by which all demands can be multiplied, over any paths.

    It is computed by linear programming (HiGHS), exactly but for rounding. Demands from the same switch are
    one commodity, so there are as many variables as switches with senders times links between switches.

    Args:
        topology: The network.
        demands_bps: Demand of each sender (row) to each receiver, shape (n_hosts, n_hosts), bit/s.

    Returns:
        The factor; infinite if nothing is demanded.

    Raises:
        SysgymError: If the demands have another shape, are negative or not finite, or the solver fails.
    """
    demands = _checked(topology, demands_bps)
    at_hosts = _at_hosts(topology, demands)
    between = np.flatnonzero(~topology.from_host & ~topology.to_host)
    wanted = _by_switch(topology, demands)
    sources = np.flatnonzero(wanted.sum(axis=1))
    if not len(sources):
        return at_hosts
    n_switches, n_links = topology.n_switches, len(between)
    unit_bps = float(topology.link_rate_bps[between].max())
    ones, columns, shape = np.ones(n_links), np.arange(n_links), (n_switches, n_links)
    arriving = csr_array((ones, (topology.link_target[between] - topology.n_hosts, columns)), shape=shape)
    leaving = csr_array((ones, (topology.link_source[between] - topology.n_hosts, columns)), shape=shape)
    # Unknowns: for each source the flow on every link, and the factor, which is the last column.
    # What stays at a switch is the factor times its demand; the source's own row follows from the others.
    kept: list[list[Any]] = [[None] * (len(sources) + 1) for _ in sources]
    for place, source in enumerate(sources):
        others = np.arange(n_switches) != source
        kept[place][place] = (arriving - leaving)[others]
        kept[place][-1] = csr_array(-wanted[source][others, None] / unit_bps)
    conservation = block_array(kept, format="csr")
    capacity = hstack([*([eye_array(n_links)] * len(sources)), csr_array((n_links, 1))], format="csr")
    found = linprog(
        np.append(np.zeros(conservation.shape[1] - 1), -1.0),
        A_ub=capacity,
        b_ub=topology.link_rate_bps[between] / unit_bps,
        A_eq=conservation,
        b_eq=np.zeros(conservation.shape[0]),
        method="highs",
    )
    if not found.success:
        raise SysgymError(f"multi-commodity flow bound: the solver says {found.message!r}")
    return min(at_hosts, float(found.x[-1]))


def equal_cost_limit(topology: Topology, demands_bps: ArrayLike) -> float:
    """Return the largest factor by which all demands can be multiplied, over equal-cost shortest paths.

    Args:
        topology: The network.
        demands_bps: Demand of each sender (row) to each receiver, shape (n_hosts, n_hosts), bit/s.

    Returns:
        The factor; infinite if nothing is demanded.

    Raises:
        SysgymError: If the demands have another shape, are negative or not finite.
    """
    demands = _checked(topology, demands_bps)
    graph = switch_graph(topology)
    edges = np.unique(topology.host_edge).astype(np.int64)
    lengths = distances(graph, edges)
    carried_bps = np.zeros(topology.n_links)
    wanted = _by_switch(topology, demands)
    first = topology.n_hosts
    for place, edge in enumerate(edges):
        waiting_bps = np.zeros(topology.n_nodes)
        waiting_bps[first:] = wanted[:, edge - first]
        # Farthest first: all that comes to a switch has come before its turn.
        for switch in first + np.argsort(-lengths[place, first:], kind="stable"):
            if waiting_bps[switch] == 0.0 or switch == edge:
                continue
            links = graph.links[graph.first_link[switch] : graph.first_link[switch + 1]]
            targets = graph.link_target[links]
            nearer = lengths[place, targets] == lengths[place, switch] - 1
            share_bps = waiting_bps[switch] / nearer.sum()
            carried_bps[links[nearer]] += share_bps
            np.add.at(waiting_bps, targets[nearer], share_bps)
    used = carried_bps > 0.0
    factors = topology.link_rate_bps[used] / carried_bps[used]
    return min(_at_hosts(topology, demands), float(factors.min(initial=np.inf)))


def _checked(topology: Topology, demands_bps: ArrayLike) -> NDArray[np.float64]:
    demands = np.array(demands_bps, np.float64)
    if demands.shape != (topology.n_hosts, topology.n_hosts):
        expected = (topology.n_hosts, topology.n_hosts)
        raise SysgymError(f"demands: expected shape {expected}, one row a sender; got {demands.shape}")
    if not np.all(np.isfinite(demands)) or np.any(demands < 0.0):
        raise SysgymError("demands: a number is negative or not finite")
    np.fill_diagonal(demands, 0.0)
    return demands


def _at_hosts(topology: Topology, demands: NDArray[np.float64]) -> float:
    """Return the factor at which the link of a host is full."""
    wanted = np.concatenate((demands.sum(axis=1), demands.sum(axis=0)))
    rates = topology.link_rate_bps[np.concatenate((topology.host_uplink, topology.host_downlink))]
    return float((rates[wanted > 0.0] / wanted[wanted > 0.0]).min(initial=np.inf))


def _by_switch(topology: Topology, demands: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the demands between switches, shape (n_switches, n_switches); zero within one."""
    edge = topology.host_edge - topology.n_hosts
    wanted = np.zeros((topology.n_switches, topology.n_switches))
    np.add.at(wanted, (edge[:, None], edge[None, :]), demands)
    np.fill_diagonal(wanted, 0.0)
    return wanted
