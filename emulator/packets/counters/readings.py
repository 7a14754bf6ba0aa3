"""Counters of a world at its present time, read by compiled code into plain arrays.

A row of an array is one counter of all ports or hosts; see :mod:`sysgym.emulator.packets.counters.rows`.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.counters.fair_share import fair_host_rates
from sysgym.emulator.packets.counters.rows import HOST_ROW, PORT_ROW
from sysgym.emulator.packets.engine.wire import FIXED_POINT_BITS
from sysgym.emulator.packets.memory.records import class_queue_at, host_at, link_at, port_at, world_at

N_PORT_COUNTERS = len(PORT_ROW)
N_HOST_COUNTERS = len(HOST_ROW)

_S = 1e-9
_BYTE = 2.0**FIXED_POINT_BITS


@njit(forceinline=True)
def backlog_ns(world: Any, link_id: int) -> int:
    """Return the time that a port needs to send its present queue."""
    link = link_at(world.links, link_id)
    backlog: int = max(link.busy_until_ns - world.now_ns, 0)
    if world.n_classes:
        port = port_at(world.ports, link_id)
        backlog += ((port.queued_bytes - port.sending_bytes) * link.ns_per_byte_q20) >> FIXED_POINT_BITS
    return backlog


@njit
def clear_maxima(world: Any) -> None:
    """Reset the largest queues, at the beginning of a new interval."""
    for link_id in range(world.n_links):
        link_at(world.links, link_id).max_backlog_ns = backlog_ns(world, link_id)


@njit
def read_ports(world: Any, out: Any) -> None:
    """Read the counters of all ports, shape (N_PORT_COUNTERS, n_links)."""
    for link_id in range(world.n_links):
        link = link_at(world.links, link_id)
        bytes_per_ns = _BYTE / link.ns_per_byte_q20
        queue_bytes = backlog_ns(world, link_id) * bytes_per_ns
        out[PORT_ROW.queue_bytes, link_id] = queue_bytes
        out[PORT_ROW.queue_byte_s, link_id] = link.backlog_integral_ns2 * bytes_per_ns * _S
        out[PORT_ROW.queue_max_bytes, link_id] = link.max_backlog_ns * bytes_per_ns
        out[PORT_ROW.sent_bytes, link_id] = link.sent_bytes - queue_bytes
        out[PORT_ROW.accepted_packets, link_id] = link.sent_packets
        out[PORT_ROW.marked_packets, link_id] = link.marked_packets
        out[PORT_ROW.dropped_packets, link_id] = link.dropped_packets
        out[PORT_ROW.dropped_bytes, link_id] = link.dropped_bytes
        out[PORT_ROW.lost_packets, link_id] = 0.0
        out[PORT_ROW.pauses, link_id] = 0.0
        out[PORT_ROW.paused_s, link_id] = 0.0
        if world.extended:
            port = port_at(world.ports, link_id)
            out[PORT_ROW.lost_packets, link_id] = port.lost_packets
        for number in range(world.n_classes):
            queue = class_queue_at(world.class_queues, link_id * world.n_classes + number)
            going_on_ns = world.now_ns - queue.paused_since_ns if queue.paused > 0 else 0
            out[PORT_ROW.pauses, link_id] += queue.pauses
            out[PORT_ROW.paused_s, link_id] += (queue.paused_ns + going_on_ns) * _S


@njit
def read_hosts(world: Any, out: Any) -> None:
    """Read the counters of all hosts, shape (N_HOST_COUNTERS, n_hosts)."""
    for host_id in range(world.n_hosts):
        host = host_at(world.hosts, host_id)
        out[HOST_ROW.sent_bytes, host_id] = host.sent_bytes
        out[HOST_ROW.sent_packets, host_id] = host.sent_packets
        out[HOST_ROW.delivered_bytes, host_id] = host.delivered_bytes
        out[HOST_ROW.received_bytes, host_id] = host.received_bytes
        out[HOST_ROW.acked_packets, host_id] = host.acked_packets
        out[HOST_ROW.rtt_sum_s, host_id] = host.rtt_sum_ns * _S
        out[HOST_ROW.rtt_samples, host_id] = host.rtt_samples
        out[HOST_ROW.marked_packets, host_id] = host.marked_packets
        out[HOST_ROW.retransmitted_packets, host_id] = host.retransmitted_packets
        out[HOST_ROW.timeouts, host_id] = host.timeouts
        out[HOST_ROW.active_flows, host_id] = host.active_flows


@cached_kernel()
def read_counters(world_address: int, ports: Any, hosts: Any) -> None:
    """Read all counters of ports and hosts; see the module's docstring for the arrays."""
    world = world_at(world_address, 0)
    read_ports(world, ports)
    read_hosts(world, hosts)


@cached_kernel()
def read_fair_rates(world_address: int, link_rate_bps: Any, out: Any) -> None:
    """Call :func:`~sysgym.emulator.packets.counters.fair_share.fair_host_rates` for a world."""
    fair_host_rates(world_at(world_address, 0), link_rate_bps, out)


@cached_kernel()
def clear_all_maxima(world_address: int) -> None:
    """Call :func:`clear_maxima` for a world."""
    clear_maxima(world_at(world_address, 0))
