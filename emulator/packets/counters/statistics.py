"""Counters of a simulation in SI units, by port, host and flow.

Counters are cumulative since the reset, unless stated otherwise.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.counters.readings import N_HOST_COUNTERS, N_PORT_COUNTERS, read_counters
from sysgym.emulator.packets.engine.ports import SUB_BUCKET_BITS
from sysgym.emulator.packets.engine.wire import FIXED_POINT_BITS
from sysgym.emulator.packets.memory.records import CLASS_QUEUE, NOBODY
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.topology.graph import shaper_burst_s

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_NS = 1e-9


class PortCounters(NamedTuple):
    """Counters of every link's output queue, arrays of shape (n_links,)."""

    queue_bytes: FloatArray
    """Present queue, including the unsent part of the packet being sent."""
    queue_byte_s: FloatArray
    """Integral of the queue over time; a difference divided by the elapsed time is the mean queue."""
    queue_max_bytes: FloatArray
    """Largest queue since the last ``clear_maxima``."""
    sent_bytes: FloatArray
    """Bytes put on the wire; those waiting in the queue are not counted."""
    accepted_packets: IntArray
    marked_packets: IntArray
    dropped_packets: IntArray
    dropped_bytes: IntArray
    lost_packets: IntArray
    """Packets lost on the link by faults; ``dropped_packets`` includes them."""
    pauses: IntArray
    """Number of times that flow control has paused a class of the port."""
    paused_s: FloatArray
    """Total time for which flow control has paused the port's classes, summed over the classes."""


class ClassCounters(NamedTuple):
    """Counters of every class of every output queue, arrays of shape (n_links, n_classes).

    Without classes and flow control, ports do not distinguish packets, and there are no columns.
    """

    waiting_bytes: IntArray
    """Present queue, without the packet being sent."""
    accepted_bytes: IntArray
    """Bytes that were queued; trimmed packets count with their headers only."""
    accepted_packets: IntArray
    marked_packets: IntArray
    dropped_packets: IntArray
    dropped_bytes: IntArray
    trimmed_packets: IntArray
    """Data packets of this class that were trimmed to their headers, which then joined the highest class."""
    trimmed_bytes: IntArray
    """Bytes removed by trimming."""
    pauses: IntArray
    paused_s: FloatArray


class HostCounters(NamedTuple):
    """Counters of every host, arrays of shape (n_hosts,)."""

    sent_bytes: IntArray
    """Bytes passed to the NIC, including headers and retransmissions."""
    sent_packets: IntArray
    delivered_bytes: IntArray
    """Payload that the host's flows have delivered in order."""
    received_bytes: IntArray
    """Payload that the host has received in order."""
    acked_packets: IntArray
    rtt_sum_s: FloatArray
    rtt_samples: IntArray
    marked_packets: IntArray
    """ACKs that echo a mark."""
    retransmitted_packets: IntArray
    timeouts: IntArray
    active_flows: IntArray
    """Flows with unacknowledged data now."""


Counters = TypeVar("Counters", PortCounters, HostCounters)


class FlowTable(NamedTuple):
    """Counters of every flow of the schedule, arrays of shape (n_flows,), by start time."""

    src: IntArray
    dst: IntArray
    size_bytes: IntArray
    """Payload; -1 for a long-lived flow."""
    group: IntArray
    """Incast round; -1 for none."""
    started: NDArray[np.bool_]
    start_s: FloatArray
    finish_s: FloatArray
    """Time of delivery of the last byte; nan before that."""
    ideal_fct_s: FloatArray
    """Completion time on an empty network, sent at line rate; nan for a long-lived flow."""
    delivered_bytes: IntArray
    acked_packets: IntArray
    marked_packets: IntArray
    retransmitted_packets: IntArray
    timeouts: IntArray
    rtt_mean_s: FloatArray
    """Mean round trip; nan without a sample."""
    rtt_min_s: FloatArray
    """Shortest round trip of the connection, which flows may share."""

    @property
    def slowdown(self) -> FloatArray:
        """Completion time divided by the ideal one; nan while unfinished."""
        return (self.finish_s - self.start_s) / self.ideal_fct_s


def counters(world_address: int, n_links: int, n_hosts: int) -> tuple[PortCounters, HostCounters]:
    """Read all counters of ports and hosts at the present time."""
    ports, hosts = np.empty((N_PORT_COUNTERS, n_links)), np.empty((N_HOST_COUNTERS, n_hosts))
    read_counters(world_address, ports, hosts)
    return _as_counters(PortCounters, ports), _as_counters(HostCounters, hosts)


def class_counters(state: State) -> ClassCounters:
    """Return the counters of all classes of all ports."""
    n_classes = int(state.world["n_classes"][0])
    queues = state.class_queues[:, :n_classes] if n_classes else np.zeros((len(state.links), 0), CLASS_QUEUE)
    going_on_ns = np.where(queues["paused"] > 0, state.world["now_ns"][0] - queues["paused_since_ns"], 0)
    counts = {name: queues[name].copy() for name in ClassCounters._fields if name != "paused_s"}
    return ClassCounters(**counts, paused_s=(queues["paused_ns"] + going_on_ns) * _NS)


def _as_counters(kind: type[Counters], rows: FloatArray) -> Counters:
    """Return rows as counters; counts, unlike measured values, become integers again."""
    measured = {"queue_bytes", "queue_byte_s", "queue_max_bytes", "paused_s", "rtt_sum_s"}
    measured |= {"sent_bytes"} if kind is PortCounters else set()
    return kind(
        *(
            row if name in measured else row.astype(np.int64)
            for name, row in zip(kind._fields, rows, strict=True)
        )
    )


def flow_table(state: State, size_bytes: IntArray, group: IntArray, ideal_fct_s: FloatArray) -> FlowTable:
    """Return the counters of all flows."""
    flows = state.flows
    finished = flows["finish_ns"] >= 0
    sampled = flows["rtt_samples"] > 0
    rtt_mean_s = np.full(len(flows), np.nan)
    np.divide(flows["rtt_sum_ns"] * _NS, flows["rtt_samples"], out=rtt_mean_s, where=sampled)
    return FlowTable(
        src=flows["src"].astype(np.int64),
        dst=flows["dst"].astype(np.int64),
        size_bytes=size_bytes,
        group=group,
        started=flows["begun"] > 0,
        start_s=np.where(flows["waits_for"] > 0, np.nan, flows["start_ns"] * _NS),
        finish_s=np.where(finished, flows["finish_ns"] * _NS, np.nan),
        ideal_fct_s=ideal_fct_s,
        delivered_bytes=delivered_bytes(state),
        acked_packets=flows["acked_packets"].copy(),
        marked_packets=flows["marked_packets"].copy(),
        retransmitted_packets=flows["retransmitted_packets"].copy(),
        timeouts=flows["timeouts"].copy(),
        rtt_mean_s=rtt_mean_s,
        rtt_min_s=np.where(sampled, flows["min_rtt_ns"] * _NS, np.nan),
    )


def delivered_bytes(state: State, flow_ids: IntArray | slice = slice(None)) -> IntArray:
    """Return the payload that all or some flows have delivered in order."""
    flows = state.flows
    packets = flows["rcv_nxt"][flow_ids] - flows["first_packet"][flow_ids]
    payload_bytes = int(state.world["payload_bytes"][0])
    short_bytes = payload_bytes - flows["last_packet_bytes"][flow_ids]
    delivered: IntArray = packets * payload_bytes
    return delivered - np.where(flows["rcv_nxt"][flow_ids] == flows["n_packets"][flow_ids], short_bytes, 0)


def queue_quantile_bytes(state: State, quantile: float) -> FloatArray:
    """Return the time-weighted quantile of every queue, from regular samples, shape (n_links,).

    It is exact to one part in sixteen.
    """
    samples = state.world["queue_samples"][0]
    n_buckets = state.queue_histogram.shape[1]
    n_below = np.cumsum(state.queue_histogram, axis=1, dtype=np.int64)
    n_below += samples - n_below[:, -1:]  # samples that found the queue empty
    reached = n_below >= max(quantile * samples, 1)
    bucket = np.where(reached.any(axis=1), reached.argmax(axis=1), 0)
    middle_ns = _bucket_middles_ns(n_buckets)[bucket]
    first_ns_per_byte_q20 = state.links["ns_per_byte_q20"]
    if len(state.ports) == len(state.links):
        first_ns_per_byte_q20 = first_ns_per_byte_q20 * state.ports["drain_scale"]
    return middle_ns * 2.0**FIXED_POINT_BITS / first_ns_per_byte_q20


def _bucket_middles_ns(n_buckets: int) -> FloatArray:
    """Return the middle of every histogram bucket; the inverse of ``queue_bucket``."""
    sub_buckets = 1 << SUB_BUCKET_BITS
    bucket = np.arange(n_buckets)
    octave = np.maximum(bucket // sub_buckets - 1, 0)
    low = (bucket - octave * sub_buckets).astype(np.float64) * 2.0**octave
    return np.where(octave > 0, low + 0.5 * (2.0**octave - 1.0), low)


def ideal_completion_s(
    routes: NDArray[np.int32],
    packet_bytes: int,
    n_packets: IntArray,
    last_packet_bytes: IntArray,
    topology: Topology,
) -> FloatArray:
    """Return the time from the first bit sent to the last bit received on empty routes, s, shape (n_flows,).

    Args:
        routes: Link ids, shape (n_flows, max_hops), padded with -1.
        packet_bytes: Wire size of every packet but a flow's last.
        n_packets: Shape (n_flows,).
        last_packet_bytes: Wire size of the last packet, shape (n_flows,).
        topology: Network of these links.
    """
    stored, shaped = (0.0, 1.0) if topology.shaped else (1.0, 0.0)
    arrival_s = np.zeros(len(routes))  # of the last packet at the present node
    first_s = np.zeros(len(routes))  # of the first packet
    slowest_s = np.zeros(len(routes))
    for hop_links in routes.T:
        used = hop_links != NOBODY
        rate_bps = topology.link_rate_bps[hop_links]
        full_s = np.where(used, packet_bytes * 8 / rate_bps, 0.0)
        last_s = np.where(used, last_packet_bytes * 8 / rate_bps, 0.0)
        delay_s = np.where(used, topology.link_delay_s[hop_links], 0.0)
        slowest_s = np.maximum(slowest_s, full_s)
        previous_gone_s = np.where(n_packets > 1, first_s + full_s + (n_packets - 2) * slowest_s, 0.0)
        previous_gone_s -= shaped * shaper_burst_s(full_s)
        begins_s = np.maximum(arrival_s, previous_gone_s)
        arrival_s = np.where(used, begins_s + stored * last_s + delay_s, arrival_s)
        first_s += stored * full_s + delay_s
    return arrival_s
