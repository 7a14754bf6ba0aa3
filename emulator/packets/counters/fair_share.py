"""Max-min fair send rates of all hosts, computed by compiled code from the current state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.memory.flow_record import flow_at
from sysgym.emulator.packets.memory.records import LONG_LIVED_PACKETS, NOBODY, host_at, route_hop_at
from sysgym.emulator.packets.topology.max_min_fairness import fill

_DATA, _ACKS = 0, 1


@njit
def active_flows(world: Any) -> Any:
    """Return the flows with unsent or unacknowledged data, ascending."""
    n_active = 0
    for host_id in range(world.n_hosts):
        n_active += host_at(world.hosts, host_id).active_flows
    flow_ids = np.empty(n_active, np.int64)
    place = 0
    for host_id in range(world.n_hosts):
        flow_id = host_at(world.hosts, host_id).first_active
        while flow_id != NOBODY:
            flow_ids[place] = flow_id
            place += 1
            flow_id = flow_at(world.flows, flow_id).next_active
    flow_ids.sort()
    return flow_ids


@njit
def _routes_of(world: Any, flow_ids: Any, direction: int) -> Any:
    stride = world.route_stride
    routes = np.empty((len(flow_ids), stride), np.int32)
    for row in range(len(flow_ids)):
        first = (2 * flow_ids[row] + direction) * stride
        for hop in range(stride):
            routes[row, hop] = route_hop_at(world.routes, first + hop).link
    return routes


@njit
def _room_left_by_acks(world: Any, ack_routes: Any, link_rate_bps: Any) -> Any:
    """Return the rates of all links, minus the capacity that ACKs take if the data links are full."""
    room_bps = link_rate_bps.copy()
    share = world.ack_bytes / (world.payload_bytes + world.header_bytes)
    carries_acks = np.zeros(len(room_bps), np.bool_)
    for link in ack_routes.ravel():
        if link != NOBODY and not carries_acks[link]:
            carries_acks[link] = True
            room_bps[link] /= 1.0 + share
    return room_bps


@njit
def fair_host_rates(world: Any, link_rate_bps: Any, out: Any) -> None:
    """Compute the max-min fair rates of active flows, with room for ACKs, summed by host, bit/s.

    Args:
        world: The world.
        link_rate_bps: Rates of all links, shape (n_links,).
        out: Output, shape (n_hosts,).
    """
    flow_ids = active_flows(world)
    room_bps = _room_left_by_acks(world, _routes_of(world, flow_ids, _ACKS), link_rate_bps)
    no_limit = np.full(len(flow_ids), np.inf)
    rates_bps = fill(_routes_of(world, flow_ids, _DATA), room_bps, no_limit, np.arange(len(flow_ids)))
    out[:] = 0.0
    for row in range(len(flow_ids)):
        out[flow_at(world.flows, flow_ids[row]).src] += rates_bps[row]


@njit
def undelivered_bytes(world: Any, out: Any) -> None:
    """Compute the undelivered payload of every host's started flows, bytes; ``inf`` if one never ends.

    Args:
        world: The world.
        out: Output, shape (n_hosts,).
    """
    for host_id in range(world.n_hosts):
        out[host_id] = 0.0
        flow_id = host_at(world.hosts, host_id).first_active
        while flow_id != NOBODY:
            flow = flow_at(world.flows, flow_id)
            if flow.n_packets == LONG_LIVED_PACKETS:
                out[host_id] = np.inf
            elif flow.finish_ns < 0:
                missing = flow.n_packets - flow.rcv_nxt
                out[host_id] += (missing - 1) * world.payload_bytes + flow.last_packet_bytes
            flow_id = flow.next_active
