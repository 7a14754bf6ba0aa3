"""Intervals of single flows, or of hosts: differences of their counters, in SI units.

Compiled, because it runs once a decision at tens of thousands of decisions a second. Observation, reward and
metrics all read the same record, so they cannot disagree about what was measured.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.counters.rows import FLOW_COUNTERS, FlowCounterArray, FlowCounters
from sysgym.emulator.packets.memory.numba_records import record_dtype

FloatArray = NDArray[np.float64]
IntervalArray = NDArray[np.void]
"""Records of the type :data:`FLOW_INTERVAL`."""


class FlowInterval:
    """One interval of a flow or a host: the fields of :data:`FLOW_INTERVAL`."""

    duration_s: float
    sent_bps: float
    """On the wire, retransmissions included."""
    arrived_bps: float
    """The same of what was acknowledged: one ACK for each packet that arrived."""
    goodput_bps: float
    """Payload delivered in order."""
    rtt_s: float
    """Mean of the interval's samples; 0 without one."""
    rtt_change_s: float
    """Mean of the second half less that of the first; 0 where one of them has no sample."""
    samples: float
    """ACKs, each with a sample."""
    loss_fraction: float
    """Packets taken for lost, of those lost or acknowledged."""
    lost_bps: float
    mark_fraction: float
    """ACKs that echo a mark, of all."""
    in_flight_bits: float
    """At the end."""
    cwnd_packets: float
    """At the end."""
    srtt_s: float
    """Smoothed round trip at the end."""
    least_rtt_s: float
    """Since the reset; 0 before the first sample."""
    best_bps: float
    """Largest ``arrived_bps`` since the reset."""
    active_flows: float
    """1 with something to send at the end; a host: how many of its flows."""
    rate_bps: float
    """Send rate in force; that of a window is the window a smoothed round trip."""
    asked_bps: float
    """Send rate that the agent asked for last; the line rate before it has asked for one."""
    # What does not change within an episode; written at its beginning.
    base_rtt_s: float
    """Round trip of the empty path."""
    line_rate_bps: float
    least_rate_bps: float
    """Least rate that can be asked for."""
    slowest_link_bps: float
    """On the path; a host: its uplink."""
    packet_bits: float
    payload_share: float
    windowed: float
    """1 if a window decides how fast the flow sends; else ``rate_bps`` is written by who sets the rate."""
    action_step: float
    """Relative change of the rate by an action of 1, where actions change it so."""


FLOW_INTERVAL = record_dtype(FlowInterval)


@njit(forceinline=True)
def measure(
    before: FlowCounters, middle: FlowCounters, after: FlowCounters, duration_s: float, interval: FlowInterval
) -> None:
    """Fill in an interval from the counters at its beginning, middle and end.

    Pure but for ``interval``, where the constants of the episode and the best rate so far stand already.
    """
    to_bps = interval.packet_bits / duration_s if duration_s > 0.0 else 0.0
    acked = after.acked_packets - before.acked_packets
    lost = max(after.lost_packets - before.lost_packets, 0.0)
    delivered = after.delivered_packets - before.delivered_packets
    samples = after.rtt_samples - before.rtt_samples
    early = middle.rtt_samples - before.rtt_samples
    late = after.rtt_samples - middle.rtt_samples
    interval.duration_s = duration_s
    interval.sent_bps = (after.sent_packets - before.sent_packets) * to_bps
    interval.arrived_bps = acked * to_bps
    interval.goodput_bps = delivered * to_bps * interval.payload_share
    interval.samples = samples
    interval.rtt_s = (after.rtt_sum_s - before.rtt_sum_s) / samples if samples > 0.0 else 0.0
    interval.rtt_change_s = 0.0
    if early > 0.0 and late > 0.0:
        first_s = (middle.rtt_sum_s - before.rtt_sum_s) / early
        interval.rtt_change_s = (after.rtt_sum_s - middle.rtt_sum_s) / late - first_s
    interval.loss_fraction = lost / (lost + acked) if lost > 0.0 else 0.0
    interval.lost_bps = lost * to_bps
    marked = after.marked_packets - before.marked_packets
    interval.mark_fraction = marked / acked if acked > 0.0 else 0.0
    interval.in_flight_bits = max(after.in_flight_packets, 0.0) * interval.packet_bits
    interval.cwnd_packets = after.cwnd_packets
    interval.srtt_s = after.srtt_s
    interval.least_rtt_s = after.min_rtt_s
    interval.best_bps = max(interval.best_bps, interval.arrived_bps)
    interval.active_flows = after.active_flows
    if interval.windowed > 0.0 and after.srtt_s > 0.0:
        interval.rate_bps = after.cwnd_packets * interval.packet_bits / after.srtt_s


@njit(forceinline=True)
def estimate_srtt(before: FlowCounters, after: FlowCounters) -> None:
    """Let an interval's mean stand for the smoothed round trip of a host, which has none of its own."""
    samples = after.rtt_samples - before.rtt_samples
    if samples > 0.0:
        after.srtt_s = (after.rtt_sum_s - before.rtt_sum_s) / samples


def zero_counters(*shape: int) -> FlowCounterArray:
    """Return room for counters of flows or hosts."""
    return np.zeros(shape, FLOW_COUNTERS)


def flow_intervals(network: Network, flow_ids: NDArray[np.int64], min_rate_fraction: float) -> IntervalArray:
    """Return intervals in which only the constants of each flow are filled in, shape (n,).

    Args:
        network: The world.
        flow_ids: Shape (n,).
        min_rate_fraction: Least rate as a fraction of the line rate.
    """
    ends, topology = network.scenario.transport, network.topology
    data, acks = network.routes()[flow_ids], network.routes(acks=True)[flow_ids]
    intervals: IntervalArray = np.zeros(len(flow_ids), FLOW_INTERVAL)
    for links, size_bytes in ((data, ends.mtu_bytes), (acks, ends.ack_bytes)):
        hop_s = topology.hop_s(size_bytes)
        intervals["base_rtt_s"] += np.where(links >= 0, hop_s[links], 0.0).sum(axis=1)
    intervals["line_rate_bps"] = topology.link_rate_bps[data[:, 0]]
    path_bps = np.where(data >= 0, topology.link_rate_bps[data], np.inf)
    intervals["slowest_link_bps"] = path_bps.min(axis=1)
    return _with_common(network, intervals, min_rate_fraction)


def host_intervals(network: Network, base_rtt_s: float, min_rate_fraction: float) -> IntervalArray:
    """Return the same for all hosts, shape (n_hosts,).

    Args:
        network: The world.
        base_rtt_s: Round trip over the longest path of the empty network, the same for all hosts.
        min_rate_fraction: Least rate as a fraction of the line rate.
    """
    intervals: IntervalArray = np.zeros(network.n_hosts, FLOW_INTERVAL)
    intervals["base_rtt_s"] = base_rtt_s
    intervals["line_rate_bps"] = intervals["slowest_link_bps"] = network.line_rate_bps
    return _with_common(network, intervals, min_rate_fraction)


def _with_common(network: Network, intervals: IntervalArray, min_rate_fraction: float) -> IntervalArray:
    ends = network.scenario.transport
    intervals["least_rate_bps"] = min_rate_fraction * intervals["line_rate_bps"]
    intervals["asked_bps"] = intervals["line_rate_bps"]
    intervals["packet_bits"] = ends.mtu_bytes * 8.0
    intervals["payload_share"] = ends.payload_bytes / ends.mtu_bytes
    return intervals
