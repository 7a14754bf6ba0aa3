"""All counters of a world at its present time, read by compiled code into plain arrays.

The rows of an array are the fields of :class:`~sysgym.emulator.packets.statistics.PortCounters` and
``HostCounters``, in their order, so that a row is one counter of all ports or hosts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from sysgym.emulator.compiling import compiled
from sysgym.emulator.packets.ideal import fair_host_rates
from sysgym.emulator.packets.layout import host_at, link_at, port_at, world_at
from sysgym.emulator.packets.single_flows import source_digest
from sysgym.emulator.packets.wire import FIXED_POINT_BITS

N_PORT_COUNTERS = 11
N_HOST_COUNTERS = 11

_S = 1e-9
_BYTE = 2.0**FIXED_POINT_BITS


@njit(forceinline=True)
def backlog_ns(world: Any, link_id: int) -> int:
    """Time that a port needs to send what is in its queue now."""
    link = link_at(world.links, link_id)
    backlog: int = max(link.busy_until_ns - world.now_ns, 0)
    if world.lossless:
        port = port_at(world.ports, link_id)
        backlog += ((port.queued_bytes - port.sending_bytes) * link.ns_per_byte_q20) >> FIXED_POINT_BITS
    return backlog


@njit
def clear_maxima(world: Any) -> None:
    """Begins a new interval for the largest queues."""
    for link_id in range(world.n_links):
        link_at(world.links, link_id).max_backlog_ns = backlog_ns(world, link_id)


@njit
def read_ports(world: Any, out: Any) -> None:
    """Reads the counters of all ports, shape (N_PORT_COUNTERS, n_links)."""
    for link_id in range(world.n_links):
        link = link_at(world.links, link_id)
        bytes_per_ns = _BYTE / link.ns_per_byte_q20
        queue_bytes = backlog_ns(world, link_id) * bytes_per_ns
        out[0, link_id] = queue_bytes
        out[1, link_id] = link.backlog_integral_ns2 * bytes_per_ns * _S
        out[2, link_id] = link.max_backlog_ns * bytes_per_ns
        out[3, link_id] = link.sent_bytes - queue_bytes
        out[4, link_id] = link.sent_packets
        out[5, link_id] = link.marked_packets
        out[6, link_id] = link.dropped_packets
        out[7, link_id] = link.dropped_bytes
        out[8, link_id] = 0.0
        out[9, link_id] = 0.0
        out[10, link_id] = 0.0
        if world.extended:
            port = port_at(world.ports, link_id)
            going_on_ns = world.now_ns - port.paused_since_ns if port.paused > 0 else 0
            out[8, link_id] = port.lost_packets
            out[9, link_id] = port.pauses
            out[10, link_id] = (port.paused_ns + going_on_ns) * _S


@njit
def read_hosts(world: Any, out: Any) -> None:
    """Reads the counters of all hosts, shape (N_HOST_COUNTERS, n_hosts)."""
    for host_id in range(world.n_hosts):
        host = host_at(world.hosts, host_id)
        out[0, host_id] = host.sent_bytes
        out[1, host_id] = host.sent_packets
        out[2, host_id] = host.delivered_bytes
        out[3, host_id] = host.received_bytes
        out[4, host_id] = host.acked_packets
        out[5, host_id] = host.rtt_sum_ns * _S
        out[6, host_id] = host.rtt_samples
        out[7, host_id] = host.marked_packets
        out[8, host_id] = host.retransmitted_packets
        out[9, host_id] = host.timeouts
        out[10, host_id] = host.active_flows


def _compiled(digest: str) -> tuple[Callable[..., Any], ...]:
    @compiled
    def read_counters(world_address: int, ports: Any, hosts: Any) -> None:
        """Reads everything; see the module for the arrays."""
        digest  # noqa: B018  (part of the cache key)
        world = world_at(world_address, 0)
        read_ports(world, ports)
        read_hosts(world, hosts)

    @compiled
    def read_fair_rates(world_address: int, link_rate_bps: Any, out: Any) -> None:
        """:func:`~sysgym.emulator.packets.ideal.fair_host_rates` of a world."""
        digest  # noqa: B018
        fair_host_rates(world_at(world_address, 0), link_rate_bps, out)

    @compiled
    def clear_all_maxima(world_address: int) -> None:
        """:func:`clear_maxima` of a world."""
        digest  # noqa: B018
        clear_maxima(world_at(world_address, 0))

    return read_counters, read_fair_rates, clear_all_maxima


read_counters, read_fair_rates, clear_all_maxima = _compiled(source_digest())
