"""Per-packet forwarding: tables of the links from each switch towards the destination's switch.

They are used if a flow's route is not known at its start, because packets are sprayed over all shortest
paths, flows change paths between bursts, or links fail. A flow that keeps its path takes the same links as in
``routing.ecmp_routes``. Part of the extended event loop only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.engine.discipline import random_below
from sysgym.emulator.packets.engine.ports import following_link
from sysgym.emulator.packets.memory.flow_record import flow_at
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_IS_ACK,
    PLACE,
    flowlet_at,
    place_at,
    port_at,
    route_hop_at,
    row_at,
)
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.topology.routing import SwitchGraph, _flow_hashes, _mix, distances, switch_graph
from sysgym.scenarios import CongestionScenario

ARRIVED = -2
"""Result of :func:`next_link` for a packet that has reached its destination host."""


def looks_up_paths(scenario: CongestionScenario) -> bool:
    """Return whether switches look up each packet's next link; else routes are fixed at a flow's start."""
    return scenario.routing.ecmp != "flow" or len(scenario.faults.links) > 0


def host_places(topology: Topology) -> tuple[NDArray[np.void], int]:
    """Return the place of every host, shape (n_hosts,), and the number of columns of the forwarding table."""
    edges, column = np.unique(topology.host_edge, return_inverse=True)
    places = np.zeros(topology.n_hosts, PLACE)
    places["edge"] = topology.host_edge
    places["column"] = column
    places["downlink"] = topology.host_downlink
    return places, len(edges)


def forwarding_table(topology: Topology, down: ArrayLike = ()) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the links on shortest paths from every node to every switch that has hosts.

    Args:
        topology: The network.
        down: Links that are not used.

    Returns:
        ``rows``, shape (n_nodes * n_columns + 1,), and ``links``: those from node ``u`` towards the switch of
        column ``c`` are ``links[rows[u * n_columns + c] : rows[u * n_columns + c + 1]]``.
    """
    graph = switch_graph(topology, down)
    edges = np.unique(topology.host_edge).astype(np.int64)
    rows, chosen = _table(graph, distances(graph, edges))
    return rows, chosen if len(chosen) else np.zeros(1, np.int32)


def flow_hashes(
    src: ArrayLike, dst: ArrayLike, src_port: ArrayLike, dst_port: ArrayLike, protocol: int = 6
) -> NDArray[np.uint64]:
    """Return the hashes of 5-tuples, shape (n_flows,)."""
    sources, targets, source_ports, target_ports = (
        np.asarray(values, dtype=np.int64) for values in (src, dst, src_port, dst_port)
    )
    hashes: NDArray[np.uint64] = _flow_hashes(sources, targets, source_ports, target_ports, protocol)
    return hashes


@cached_kernel()
def _table(graph: SwitchGraph, distance: NDArray[np.int32]) -> Any:
    first_link, links, link_target, is_up = graph
    n_nodes, n_columns = len(first_link) - 1, len(distance)
    rows = np.zeros(n_nodes * n_columns + 1, np.int32)
    chosen = np.empty(len(links) * n_columns, np.int32)
    count = 0
    for node in range(n_nodes):
        for column in range(n_columns):
            for position in range(first_link[node], first_link[node + 1]):
                link = links[position]
                if is_up[link] and distance[column, link_target[link]] < distance[column, node]:
                    chosen[count] = link
                    count += 1
            rows[node * n_columns + column + 1] = count
    return rows, chosen[:count].copy()


@njit
def flowlet_choice(world: Any, packet: Any, equal: int, now_ns: int) -> int:
    """Return the choice of the flow's previous packet at this hop, or a random choice after a gap.

    See Vanini et al., "Let It Flow", NSDI 2017. A flow has one entry for each hop and direction, not for each
    switch: packets that arrive at different switches at the same hop continue one flowlet.
    """
    flowlet = flowlet_at(world.flowlets, packet.route + min(packet.hop, world.route_stride - 1))
    continues = now_ns - flowlet.last_ns < world.flowlet_gap_ns
    if not continues or flowlet.choice >= equal:  # another switch or a failure may leave fewer links
        flowlet.choice = random_below(world, equal)
    flowlet.last_ns = now_ns
    return int(flowlet.choice)


@njit
def next_link(world: Any, link_id: int, packet: Any, now_ns: int) -> int:
    """Return the link that a packet takes next, at the far end of its present link.

    NOBODY means that there is no path; ARRIVED means that the packet is at its destination host.
    """
    is_ack = packet.flags & PACKET_IS_ACK
    if not world.by_table:
        link = following_link(world, packet)
        return link if link != NOBODY else ARRIVED
    packet.hop += 1
    node = port_at(world.ports, link_id).target
    if node < world.n_hosts:
        return ARRIVED
    flow = flow_at(world.flows, packet.flow)
    place = place_at(world.places, flow.src if is_ack else flow.dst)
    if place.edge == node:
        return int(place.downlink)
    row = node * world.n_columns + place.column
    first = row_at(world.table_rows, row).first
    equal = row_at(world.table_rows, row + 1).first - first
    if equal == 0:
        return NOBODY
    if equal == 1:
        chosen = 0
    elif world.sprays:
        chosen = random_below(world, equal)
    elif world.by_flowlet:
        chosen = flowlet_choice(world, packet, equal, now_ns)
    else:
        flow_hash = flow.hash_back if is_ack else flow.hash_out
        chosen = int(_mix(flow_hash ^ _mix(np.uint64(node))) % np.uint64(equal))
    return int(route_hop_at(world.table_links, first + chosen).link)
