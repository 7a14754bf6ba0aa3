"""Equal-cost multipath routing (ECMP): each flow takes a shortest path, chosen by a hash of its 5-tuple.

Every switch chooses on its own among its links on shortest paths to the destination, by the hash modulo the
number of links (RFC 2992 compares such methods). The hash includes the switch's id, so that the choices of
successive stages are independent. Without the id, flows that share a link after the first stage would also
share one after the second, and some links would stay unused.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.topology.graph import Topology
from sysgym.scenarios.errors import SysgymError

TCP = 6
"""Protocol number of TCP (IANA)."""

_FAR = np.int32(2**30)
"""Distance of an unreachable switch."""

# Constants of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014); the additive one is 2**64 / golden ratio.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)


class SwitchGraph(NamedTuple):
    """Graph of the switches and the links between them.

    Attributes:
        first_link: Links from node ``u`` are ``links[first_link[u] : first_link[u + 1]]``.
        links: Links between switches, by source.
        link_target: Target of each link of the topology.
        is_up: Whether each link of the topology is up.
    """

    first_link: NDArray[np.int64]
    links: NDArray[np.int32]
    link_target: NDArray[np.int32]
    is_up: NDArray[np.bool_]


def ecmp_routes(
    topology: Topology,
    src: ArrayLike,
    dst: ArrayLike,
    src_port: ArrayLike,
    dst_port: ArrayLike,
    *,
    protocol: int = TCP,
    down: ArrayLike = (),
    unreachable: Literal["raise", "empty"] = "raise",
) -> NDArray[np.int32]:
    """Return a route for each flow; for the routes of ACKs, swap the ends.

    A route depends only on the topology, the links that are down and the flow's 5-tuple, not on the other
    flows of the call or on the process. When a link goes down, routes over switches that lose no next hop
    do not change.

    Args:
        topology: The network.
        src: Sending host of each flow, shape (n_flows,).
        dst: Receiving host of each flow, different from its ``src``.
        src_port: Port at the sender, 0 to 65535.
        dst_port: Port at the receiver, 0 to 65535.
        protocol: IP protocol number, 0 to 255.
        down: Links that no route may take; a cable consists of two.
        unreachable: Treatment of flows without a route: raise an error, or give them a row of -1.

    Returns:
        Links from host to host, shape (n_flows, longest route), int32, shorter routes padded with -1.

    Raises:
        SysgymError: If the arrays differ in shape, a value is out of range, or a host cannot be reached.
    """
    arrays = [np.atleast_1d(np.asarray(values, dtype=np.int64)) for values in (src, dst, src_port, dst_port)]
    sources, targets, source_ports, target_ports = arrays
    if any(array.shape != sources.shape or array.ndim != 1 for array in arrays):
        raise SysgymError(f"routes: src, dst and ports differ in shape: {[array.shape for array in arrays]}")
    if len(sources) == 0:
        return np.empty((0, 0), dtype=np.int32)
    for name, values, limit in (
        ("src", sources, topology.n_hosts),
        ("dst", targets, topology.n_hosts),
        ("src_port", source_ports, 2**16),
        ("dst_port", target_ports, 2**16),
        ("protocol", np.array([protocol]), 2**8),
    ):
        if values.min() < 0 or values.max() >= limit:
            raise SysgymError(
                f"routes: {name} from {values.min()} to {values.max()}, expected 0 to {limit - 1}"
            )
    if np.any(sources == targets):
        raise SysgymError(f"routes: flow {int(np.argmax(sources == targets))} has the same host at both ends")

    graph = switch_graph(topology, down)
    is_up = graph.is_up
    edges = np.asarray(topology.host_edge, dtype=np.int64)
    last_switches, column = np.unique(edges[targets], return_inverse=True)
    distance = distances(graph, last_switches)
    hops = distance[column, edges[sources]] + 2
    reached = (hops < _FAR) & is_up[topology.host_uplink[sources]] & is_up[topology.host_downlink[targets]]
    if unreachable == "raise" and not reached.all():
        lost = int(np.argmin(reached))
        names = topology.node_names
        raise SysgymError(
            f"routes: no way from {names[sources[lost]]} to {names[targets[lost]]}"
            f" with {int((~is_up).sum())} of {topology.n_links} links down"
        )
    routes = np.full((len(sources), int(hops[reached].max(initial=0))), -1, dtype=np.int32)
    _choose(
        routes,
        _flow_hashes(sources, targets, source_ports, target_ports, protocol),
        topology.host_uplink[sources],
        topology.host_downlink[targets],
        column.astype(np.int64),
        distance,
        graph,
        reached,
    )
    return routes


def _up(topology: Topology, down: ArrayLike) -> NDArray[np.bool_]:
    links = np.atleast_1d(np.asarray(down, dtype=np.int64))
    if len(links) and not 0 <= links.min() <= links.max() < topology.n_links:
        raise SysgymError(
            f"routes: links {links.min()} to {links.max()} are down, expected 0 to {topology.n_links - 1}"
        )
    is_up = np.ones(topology.n_links, dtype=np.bool_)
    is_up[links] = False
    return is_up


def switch_graph(topology: Topology, down: ArrayLike = ()) -> SwitchGraph:
    """Return the graph of switches, and the links that are up.

    Args:
        topology: The network.
        down: Links that are down.

    Raises:
        SysgymError: If a link does not exist.
    """
    between = np.flatnonzero(~topology.from_host & ~topology.to_host)
    by_source = between[np.argsort(topology.link_source[between], kind="stable")]
    degree = np.bincount(topology.link_source[between], minlength=topology.n_nodes)
    first_link = np.concatenate(([0], np.cumsum(degree))).astype(np.int64)
    return SwitchGraph(first_link, by_source.astype(np.int32), topology.link_target, _up(topology, down))


@cached_kernel()
def _mix(value: np.uint64) -> np.uint64:
    """Return SplitMix64's output for a state, a bijection; each bit changes about half of the output's."""
    value = value + _GOLDEN
    value = (value ^ (value >> np.uint64(30))) * _FACTOR_1
    value = (value ^ (value >> np.uint64(27))) * _FACTOR_2
    return value ^ (value >> np.uint64(31))


@cached_kernel()
def _flow_hashes(
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    src_port: NDArray[np.int64],
    dst_port: NDArray[np.int64],
    protocol: int,
) -> NDArray[np.uint64]:
    hashes = np.empty(len(src), dtype=np.uint64)
    for flow in range(len(src)):
        hosts = (np.uint64(src[flow]) << np.uint64(32)) | np.uint64(dst[flow])
        ports = (np.uint64(src_port[flow]) << np.uint64(24)) | (np.uint64(dst_port[flow]) << np.uint64(8))
        hashes[flow] = _mix(_mix(hosts) ^ (ports | np.uint64(protocol)))
    return hashes


@cached_kernel()
def distances(graph: SwitchGraph, last_switches: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the number of links from every switch to each last switch, shape (n_last, n_nodes).

    The search is breadth first from the last switch. A step back requires that the cable's other link, the
    one that a packet would take, is up.
    """
    first_link, links, link_target, is_up = graph
    n_nodes = len(first_link) - 1
    distance = np.full((len(last_switches), n_nodes), _FAR, dtype=np.int32)
    queue = np.empty(n_nodes, dtype=np.int64)
    for row in range(len(last_switches)):
        queue[0] = last_switches[row]
        distance[row, last_switches[row]] = 0
        head, tail = 0, 1
        while head < tail:
            node = queue[head]
            head += 1
            for position in range(first_link[node], first_link[node + 1]):
                neighbour = link_target[links[position]]
                if is_up[links[position] ^ 1] and distance[row, neighbour] == _FAR:
                    distance[row, neighbour] = distance[row, node] + 1
                    queue[tail] = neighbour
                    tail += 1
    return distance


@cached_kernel()
def _choose(
    routes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    uplink: NDArray[np.int64],
    downlink: NDArray[np.int64],
    column: NDArray[np.int64],
    distance: NDArray[np.int32],
    graph: SwitchGraph,
    reached: NDArray[np.bool_],
) -> None:
    """Follow every flow from its first to its last switch, and write the links into ``routes``."""
    first_link, links, link_target, is_up = graph
    for flow in range(len(routes)):
        if not reached[flow]:
            continue
        routes[flow, 0] = uplink[flow]
        node = np.int64(link_target[uplink[flow]])
        hop = 1
        remaining = distance[column[flow], node]
        while remaining > 0:
            begin, end = first_link[node], first_link[node + 1]
            equal = 0
            for position in range(begin, end):
                link = links[position]
                if is_up[link] and distance[column[flow], link_target[link]] < remaining:
                    equal += 1
            chosen = np.int64(_mix(hashes[flow] ^ _mix(np.uint64(node))) % np.uint64(equal))
            for position in range(begin, end):
                link = links[position]
                if is_up[link] and distance[column[flow], link_target[link]] < remaining:
                    if chosen == 0:
                        routes[flow, hop] = link
                        node = np.int64(link_target[link])
                        break
                    chosen -= 1
            hop += 1
            remaining -= 1
        routes[flow, hop] = downlink[flow]
