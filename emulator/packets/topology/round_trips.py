"""Longest round trip of an empty network over shortest paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology.graph import Topology
from sysgym.emulator.packets.topology.routing import distances, switch_graph

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def longest_round_trip_s(topology: Topology, packet_bytes: int, ack_bytes: int) -> float:
    """Return the longest round trip of a packet and its ACK among all pairs of hosts of an empty network.

    Packets take paths with the fewest links. Of several such paths the slowest counts, separately for the
    packet and its ACK, because a flow may be assigned any of them.

    Args:
        topology: The network, with two hosts at least.
        packet_bytes: Size of the packet on the wire.
        ack_bytes: Size of its ACK.

    Returns:
        Time from the first bit sent to the last bit of the ACK received, s.
    """
    out, back = topology.hop_s(packet_bytes), topology.hop_s(ack_bytes)
    edges, column = np.unique(topology.host_edge.astype(np.int64), return_inverse=True)
    distance = distances(switch_graph(topology), edges)
    out_s, back_s = (_longest_s(topology, distance, edges, hop_s) for hop_s in (out, back))
    up, down = topology.host_uplink, topology.host_downlink
    sends, receives = _two_slowest(out[up] + back[down], column), _two_slowest(out[down] + back[up], column)
    # The slowest hosts of two edge switches; within one switch they may be the same host.
    total_s = out_s[:, edges].T + back_s[:, edges]
    total_s += (out[up] + back[down])[sends[0]][:, None] + (out[down] + back[up])[receives[0]][None, :]
    np.fill_diagonal(total_s, -np.inf)
    a, b = np.unravel_index(int(total_s.argmax()), total_s.shape)
    pairs = [(int(sends[0][a]), int(receives[0][b]))] if a != b else []
    for edge in range(len(edges)):
        here = [sends[0][edge], sends[1][edge]], [receives[0][edge], receives[1][edge]]
        pairs += [(int(x), int(y)) for x in here[0] for y in here[1] if x != y and x >= 0 and y >= 0]
    return max(
        float(out[_slowest_path(topology, distance, column, src, dst, out, out_s)].sum())
        + float(back[_slowest_path(topology, distance, column, dst, src, back, back_s)].sum())
        for src, dst in pairs
    )


def _longest_s(
    topology: Topology, distance: NDArray[np.int32], edges: IntArray, hop_s: FloatArray
) -> FloatArray:
    """Return the time over the slowest shortest path from each node to each edge, (n_edges, n_nodes)."""
    between = np.flatnonzero(~topology.from_host & ~topology.to_host)
    source, target = topology.link_source[between], topology.link_target[between]
    longest_s = np.full(distance.shape, -np.inf)
    longest_s[np.arange(len(edges)), edges] = 0.0
    for hops in range(1, int(distance[:, edges].max(initial=0)) + 1):
        row, link = np.nonzero((distance[:, source] == hops) & (distance[:, target] == hops - 1))
        through_s = hop_s[between[link]] + longest_s[row, target[link]]
        np.maximum.at(longest_s, (row, source[link]), through_s)
    return longest_s


def _two_slowest(time_s: FloatArray, column: IntArray) -> tuple[IntArray, IntArray]:
    """Return the slowest and the second slowest host of every edge switch; -1 where there is no second."""
    order = np.lexsort((np.arange(len(time_s)), -time_s, column))
    first = np.flatnonzero(np.diff(column[order], prepend=-1))
    second = first + 1
    has_second = (second < len(order)) & (
        column[order[np.minimum(second, len(order) - 1)]] == column[order[first]]
    )
    return order[first], np.where(has_second, order[np.minimum(second, len(order) - 1)], -1)


def _slowest_path(
    topology: Topology,
    distance: NDArray[np.int32],
    column: IntArray,
    src: int,
    dst: int,
    hop_s: FloatArray,
    longest_s: FloatArray,
) -> IntArray:
    """Return the links of the slowest of the shortest paths between two hosts."""
    to = int(column[dst])
    path, node = [int(topology.host_uplink[src])], int(topology.host_edge[src])
    while node != topology.host_edge[dst]:
        links = np.flatnonzero((topology.link_source == node) & ~topology.to_host)
        target = topology.link_target[links]
        links = links[distance[to, target] == distance[to, node] - 1]
        link = int(links[np.argmax(hop_s[links] + longest_s[to, topology.link_target[links]])])
        path.append(link)
        node = int(topology.link_target[link])
    return np.array([*path, int(topology.host_downlink[dst])], dtype=np.int64)
