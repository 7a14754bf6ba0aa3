"""Limits of flows' windows."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.emulator.packets.topology.routing import distances, switch_graph
from sysgym.scenarios import CongestionScenario


def largest_window_bytes(scenario: CongestionScenario, topology: Topology) -> int:
    """Return the most data that a flow may have in flight.

    This is the scenario's limit, or the capacity of a longest path if that is smaller: its cables, the
    buffers of its ports, and the queue of the sending host.
    """
    ends, queue = scenario.transport, scenario.queue
    edges = np.unique(topology.host_edge.astype(np.int64))
    n_ports = 1 + int(distances(switch_graph(topology), edges)[:, edges].max(initial=0))
    buffers_bytes = topology.buffers_bytes(queue.buffer_bytes)
    round_trip_s = longest_round_trip_s(topology, ends.mtu_bytes, ends.ack_bytes)
    cables_bytes = float(topology.link_rate_bps.max()) * round_trip_s / 8
    hosts_bytes = (ends.host_queue_packets + ends.initial_window_packets) * ends.mtu_bytes
    held_bytes = n_ports * float(buffers_bytes.max()) + cables_bytes + hosts_bytes
    return int(min(ends.max_window_packets * ends.payload_bytes, held_bytes))
