"""Hosts: which of a host's flows sends when.

An uncapped host pushes: whatever a flow's window allows goes into the NIC's queue at once. A capped host pulls: its flows take
turns, one packet each, at the pace of the cap, so the cap holds for the host as a whole whatever its transports do.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.events import event_key, push
from sysgym.emulator.packets.layout import NEVER_NS, NOBODY, event_at, flow_at, host_at, packet_at
from sysgym.emulator.packets.ports import release_packet, serialisation_ns
from sysgym.emulator.packets.sender import (
    ON_START,
    ack_flow,
    next_sequence,
    notify,
    time_out,
    transmit,
)


@njit
def activate(world: Any, flow_id: int) -> None:
    """Puts a flow at the head of its host's list of active flows."""
    flow = flow_at(world.flows, flow_id)
    host = host_at(world.hosts, flow.src)
    flow.active = 1
    flow.previous_active = NOBODY
    flow.next_active = host.first_active
    if host.first_active != NOBODY:
        flow_at(world.flows, host.first_active).previous_active = flow_id
    host.first_active = flow_id
    host.active_flows += 1


@njit
def deactivate(world: Any, flow_id: int) -> None:
    """Takes a finished flow off its host's list."""
    flow = flow_at(world.flows, flow_id)
    host = host_at(world.hosts, flow.src)
    flow.active = 0
    flow.rto_deadline_ns = NEVER_NS
    if flow.next_active != NOBODY:
        flow_at(world.flows, flow.next_active).previous_active = flow.previous_active
    if flow.previous_active == NOBODY:
        host.first_active = flow.next_active
    else:
        flow_at(world.flows, flow.previous_active).next_active = flow.next_active
    if host.turn == flow_id:
        host.turn = flow.next_active
    host.active_flows -= 1


@njit
def wake_host(world: Any, host_id: int, now_ns: int) -> None:
    """Sees to it that a capped host looks for a packet to send as soon as its cap allows."""
    host = host_at(world.hosts, host_id)
    if host.awake:
        return
    host.awake = 1
    earliest_ns = host.last_sent_ns + serialisation_ns(host.last_size_bytes, host.cap_ns_per_byte_q20)
    push(world, event_key(max(now_ns, earliest_ns), world.n_links + host_id))


@njit
def send(world: Any, flow_id: int, now_ns: int) -> None:
    """Lets a flow send what it may."""
    flow = flow_at(world.flows, flow_id)
    if host_at(world.hosts, flow.src).cap_ns_per_byte_q20 > 0:
        wake_host(world, flow.src, now_ns)
        return
    while True:
        seq = next_sequence(world, flow)
        if seq == NOBODY:
            return
        if world.free_packets == 0:
            world.out_of_packets = 1
            return
        transmit(world, flow_id, seq, now_ns)


@njit
def pull(world: Any, host_id: int, now_ns: int) -> None:
    """A capped host's turn: one packet of the next flow that has one."""
    host = host_at(world.hosts, host_id)
    host.awake = 0
    flow_id = host.turn
    for _ in range(host.active_flows + 1):
        if flow_id == NOBODY:
            flow_id = host.first_active
        flow = flow_at(world.flows, flow_id)
        seq = next_sequence(world, flow)
        if seq != NOBODY:
            if world.free_packets == 0:
                world.out_of_packets = 1
                return
            host.last_size_bytes = transmit(world, flow_id, seq, now_ns)
            host.last_sent_ns = now_ns
            host.turn = flow.next_active
            wake_host(world, host_id, now_ns)
            return
        flow_id = flow.next_active


@njit
def start_flows(world: Any, now_ns: int) -> int:
    """Starts every flow that is due; returns when the next one is."""
    while world.next_flow < world.n_flows:
        flow_id = world.next_flow
        flow = flow_at(world.flows, flow_id)
        if flow.start_ns > now_ns:
            return int(flow.start_ns)
        world.next_flow = flow_id + 1
        event = event_at(world.event, 0)
        event.now_ns = now_ns
        notify(world, flow, ON_START, event)
        activate(world, flow_id)
        send(world, flow_id, now_ns)
    return int(NEVER_NS)


@njit
def receive_ack(world: Any, slot: int, now_ns: int) -> None:
    """Takes an ACK in and lets its flow send."""
    flow_id = packet_at(world.packets, slot).flow
    flow = flow_at(world.flows, flow_id)
    if flow.active:
        ack_flow(world, slot, now_ns)
    release_packet(world, slot)
    if not flow.active:
        return
    if flow.una >= flow.n_packets:
        deactivate(world, flow_id)
    else:
        send(world, flow_id, now_ns)


@njit
def check_timers(world: Any, now_ns: int) -> None:
    """Times out every active flow whose deadline has passed; timers have the granularity of the tick (RFC 6298's G)."""
    for host_id in range(world.n_hosts):
        flow_id = host_at(world.hosts, host_id).first_active
        while flow_id != NOBODY:
            flow = flow_at(world.flows, flow_id)
            if flow.rto_deadline_ns <= now_ns:
                time_out(world, flow, now_ns)
                send(world, flow_id, now_ns)
            flow_id = flow.next_active
