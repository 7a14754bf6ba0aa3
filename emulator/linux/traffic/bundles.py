"""Segmentation offload: the number of packets that travel as one, so that processors keep up with links.

A core forwards some 200,000 packets per second and hop, and has other work; 1 Gb/s and its ACKs over the
three hops of a dumbbell are 500,000. Senders of real hosts hand several packets to their interface at once
(TSO), which then pass the switches one behind the other; here they pass as one packet. Where the links are
slow enough, every packet travels by itself. The choice depends on the scenario alone, so that a scenario is
the same on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.topology.max_min_fairness import max_min_rates
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.emulator.packets.workloads import scenario_flows
from sysgym.emulator.packets.workloads.schedule import SERVICE_PORT
from sysgym.scenarios import CongestionScenario

PACKET_HOPS_PER_S = 100_000.0
"""Packet rate asked of the machine: half of a core, at 2.5 us for a hop without a queue and 4 us with one."""

_MOST_FLOWS = 4096
_LONGEST_BUNDLE = 40
"""Packets of a bundle, which must stay below the 64 kB of an IPv4 packet."""

_BUNDLES_A_BUFFER = 16


def packets_a_bundle(scenario: CongestionScenario, topology: Topology) -> int:
    """Return the most packets that travel as one in a scenario; 1 for slow links.

    A scenario with segmentation offload has bundles of its longest burst. In others at least 16 bundles fit
    into every buffer, and no bundle exceeds an ECN threshold or the lower threshold of random early
    detection. Packets that are lost at random travel by themselves, to be lost by themselves.
    """
    ends, queue = scenario.transport, scenario.queue
    if scenario.faults.loss_probability > 0.0:
        return 1
    longest = min(_LONGEST_BUNDLE, 64_000 // ends.mtu_bytes)
    if ends.segmentation_offload_bytes is not None:
        return min(ends.segmentation_offload_bytes // ends.mtu_bytes, longest)
    flows = scenario_flows(scenario, topology, np.random.default_rng(0))
    ends_of = np.unique(np.column_stack([flows.src, flows.dst])[:_MOST_FLOWS], axis=0)
    if not len(ends_of):
        return 1
    ports = 50_000 + np.arange(len(ends_of))
    routes = ecmp_routes(topology, ends_of[:, 0], ends_of[:, 1], ports, np.full_like(ports, SERVICE_PORT))
    hops = (routes >= 0).sum(axis=1)
    acks = 1 if ends.delayed_ack_packets == 1 else 0.5
    rates_bps = max_min_rates(routes, topology.link_rate_bps)
    packet_hops_per_s = float((rates_bps * hops).sum()) / (8 * ends.mtu_bytes) * (1 + acks)
    wanted = math.ceil(packet_hops_per_s / PACKET_HOPS_PER_S)
    most = queue.buffer_bytes // (_BUNDLES_A_BUFFER * ends.mtu_bytes)
    for threshold in (queue.ecn_threshold_bytes, queue.red_min_bytes):
        if threshold is not None:
            most = min(most, threshold // ends.mtu_bytes)
    return max(1, min(wanted, most, longest))
