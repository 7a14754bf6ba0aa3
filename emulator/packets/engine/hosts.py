"""Packet scheduling of hosts: round robin among the host's flows, and rate caps.

A host passes its network card a few packets at a time, one from each flow in turn, as Linux does with fair
queueing and TCP small queues. Data that the card cannot accept yet waits in the flows, not in a queue in
front of the card. A rate cap applies at the same point: it spaces the packets of the whole host, whatever its
transports do.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.bursts import waits_for_burst
from sysgym.emulator.packets.engine.connections.handshake import begin_handshake, end_handshake
from sysgym.emulator.packets.engine.connections.reuse import (
    continue_connection,
    keep_connection,
    take_idle_connection,
)
from sysgym.emulator.packets.engine.event_queue.queue import push
from sysgym.emulator.packets.engine.events import FLOW_SENDS, event_key, flow_source
from sysgym.emulator.packets.engine.pacing import waits_for_pace
from sysgym.emulator.packets.engine.queues.host_port import fills_port, waits_for_port
from sysgym.emulator.packets.engine.receivers.credit import request_if_short
from sysgym.emulator.packets.engine.receivers.entry import ANSWER, call_receivers
from sysgym.emulator.packets.engine.sender import (
    ack_flow,
    expire_timer,
    next_sequence,
    notify,
    transmit,
    update_rtt,
)
from sysgym.emulator.packets.engine.wire import release_packet, serialisation_ns
from sysgym.emulator.packets.memory.callbacks import ON_RESTART, ON_START, ON_TICK
from sysgym.emulator.packets.memory.flow_record import CONNECTING, RETRANSMISSION, flow_at
from sysgym.emulator.packets.memory.records import (
    NEVER_NS,
    NOBODY,
    OUT_OF_PACKETS,
    SYN,
    event_at,
    host_at,
    link_at,
    packet_at,
    segment_at,
    successor_at,
)


@njit
def activate(world: Any, flow_id: int) -> None:
    """Put a flow at the head of its host's list of active flows."""
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
    """Remove a finished flow from its host's list."""
    flow = flow_at(world.flows, flow_id)
    host = host_at(world.hosts, flow.src)
    flow.active = 0
    flow.timer_deadline_ns = NEVER_NS
    if flow.next_active != NOBODY:
        flow_at(world.flows, flow.next_active).previous_active = flow.previous_active
    if flow.previous_active == NOBODY:
        host.first_active = flow.next_active
    else:
        flow_at(world.flows, flow.previous_active).next_active = flow.next_active
    if host.turn == flow_id:
        host.turn = flow.next_active
    host.active_flows -= 1


@njit(forceinline=True)
def ready_ns(world: Any, host: Any, now_ns: int) -> int:
    """Return the earliest time at which the host may send its next packet."""
    capped_ns = now_ns
    if host.cap_ns_per_byte_q20 > 0:
        since_ns = serialisation_ns(host.last_size_bytes, host.cap_ns_per_byte_q20)
        capped_ns = max(now_ns, host.last_sent_ns + since_ns)
    # Below the cap the card can still be busy: ACKs use it, too, and its rate may change.
    busy_until_ns = link_at(world.links, host.uplink).busy_until_ns
    if busy_until_ns - now_ns <= host.backlog_limit_ns:
        return capped_ns
    return max(capped_ns, busy_until_ns - (host.backlog_limit_ns >> 1))


@njit(forceinline=True)
def may_send_now(world: Any, host_id: int, now_ns: int, extras: Any) -> bool:
    """Return whether the host may send now; if not, schedule its wake-up."""
    host = host_at(world.hosts, host_id)
    if extras is not None and world.free_packets <= world.reserved_packets:
        world.halted |= OUT_OF_PACKETS
        return False
    if world.free_packets == 0:
        world.halted |= OUT_OF_PACKETS
        return False
    at_ns = ready_ns(world, host, now_ns)
    if at_ns > now_ns:
        host.awake = 1
        push(world, event_key(at_ns, world.n_links + host_id))
        return False
    return True


@njit(forceinline=True)
def transmit_in_turn(world: Any, flow_id: int, seq: int, now_ns: int, extras: Any) -> None:
    """Send a packet and pass the turn to the host's next flow."""
    flow = flow_at(world.flows, flow_id)
    host = host_at(world.hosts, flow.src)
    host.last_size_bytes = transmit(world, flow_id, seq, now_ns, extras)
    host.last_sent_ns = now_ns
    host.turn = flow.next_active
    if extras is not None and flow.burst_left > 0:
        host.turn = flow_id  # the card receives a burst as a whole


@njit(forceinline=True)
def is_held_back(world: Any, flow_id: int, now_ns: int) -> bool:
    """Return whether a flow with a packet to send waits for its port, for a burst or for its pace."""
    flow = flow_at(world.flows, flow_id)
    return bool(
        waits_for_port(world, flow)
        or waits_for_burst(world, flow, now_ns)
        or waits_for_pace(world, flow_id, now_ns)
    )


@njit
def send(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Send all packets that a flow may send, unless flows of its host already wait for their turn."""
    flow = flow_at(world.flows, flow_id)
    while host_at(world.hosts, flow.src).awake == 0:
        seq = next_sequence(world, flow, extras)
        if seq == NOBODY:
            return
        if extras is not None and is_held_back(world, flow_id, now_ns):
            return
        if extras is not None and fills_port(world, flow):
            return
        if not may_send_now(world, flow.src, now_ns, extras):
            return
        transmit_in_turn(world, flow_id, seq, now_ns, extras)


@njit
def next_in_turn(world: Any, host: Any, now_ns: int, extras: Any) -> int:
    """Return the first flow with a packet to send, starting with the flow whose turn it is, or NOBODY."""
    flow_id = host.turn
    for _ in range(host.active_flows + 1):
        if flow_id == NOBODY:
            flow_id = host.first_active
            if flow_id == NOBODY:
                return NOBODY
        flow = flow_at(world.flows, flow_id)
        if next_sequence(world, flow, extras) != NOBODY and (
            extras is None or not is_held_back(world, flow_id, now_ns)
        ):
            return flow_id
        flow_id = flow.next_active
    return NOBODY


@njit
def send_round_robin(world: Any, host_id: int, now_ns: int, extras: Any) -> None:
    """Send packets of a host's flows in turn, after the host waited for its card or its cap."""
    host = host_at(world.hosts, host_id)
    host.awake = 0
    while True:
        flow_id = next_in_turn(world, host, now_ns, extras)
        if flow_id == NOBODY:
            return
        flow = flow_at(world.flows, flow_id)
        if extras is not None and fills_port(world, flow):
            continue
        if not may_send_now(world, host_id, now_ns, extras):
            return
        seq = next_sequence(world, flow, extras)
        transmit_in_turn(world, flow_id, seq, now_ns, extras)


@njit
def begin_flow(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Start a flow now, on an idle connection between its hosts or on a new one."""
    flow = flow_at(world.flows, flow_id)
    flow.begun = 1
    event = event_at(world.event, 0)
    event.now_ns = now_ns
    last_id = take_idle_connection(world, flow)
    if last_id == NOBODY:
        notify(world, flow, ON_START, event, extras)
    else:
        continue_connection(world, flow_id, last_id, now_ns)
        notify(world, flow, ON_RESTART, event, extras)
    flow.credit_packets = min(flow.credit_packets, flow.n_packets)
    activate(world, flow_id)
    if world.handshake and last_id == NOBODY:
        begin_handshake(world, flow_id, now_ns, extras)
    else:
        send(world, flow_id, now_ns, extras)
    if extras is not None and flow.needs_credit:
        wait_for_credit(world, flow_id, now_ns, extras)


@njit
def start_flows(world: Any, now_ns: int, extras: Any) -> int:
    """Start every flow that is due, and return the time of the next start."""
    while world.next_flow < world.n_scheduled:
        flow_id = world.next_flow
        flow = flow_at(world.flows, flow_id)
        if flow.start_ns > now_ns:
            return int(flow.start_ns)
        world.next_flow = flow_id + 1
        begin_flow(world, flow_id, now_ns, extras)
    return int(NEVER_NS)


@njit
def wake_flow(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Handle a flow's own event: the flows that it waited for have ended, or its pace permits a packet."""
    flow = flow_at(world.flows, flow_id)
    flow.pace_armed = 0
    if not flow.begun:
        begin_flow(world, flow_id, now_ns, extras)
    elif flow.active and host_at(world.hosts, flow.src).awake == 0:
        send_round_robin(world, flow.src, now_ns, extras)  # in turn, so that no flow is preferred


@njit
def release_successors(world: Any, flow: Any, now_ns: int) -> None:
    """Start, after their delays, the flows that waited only for a flow that has just ended."""
    for position in range(flow.first_successor, flow.first_successor + flow.n_successors):
        successor_id = successor_at(world.successors, position).flow
        successor = flow_at(world.flows, successor_id)
        successor.waits_for -= 1
        if successor.waits_for == 0:
            successor.start_ns = now_ns + successor.after_delay_ns
            successor.pace_armed = 1
            push(world, event_key(successor.start_ns, flow_source(world, successor_id, FLOW_SENDS)))


@njit
def tick_transports(world: Any, now_ns: int, extras: Any) -> None:
    """Call every active flow's ``on_tick``, for transports with timers."""
    for host_id in range(world.n_hosts):
        flow_id = host_at(world.hosts, host_id).first_active
        while flow_id != NOBODY:
            flow = flow_at(world.flows, flow_id)
            event = event_at(world.event, 0)
            event.now_ns = now_ns
            event.in_flight_packets = flow.nxt - flow.una
            notify(world, flow, ON_TICK, event, extras)
            send(world, flow_id, now_ns, extras)
            flow_id = flow.next_active


@njit
def receive_ack(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Process an ACK, then send the packets that its flow may send."""
    flow_id = packet_at(world.packets, slot).flow
    flow = flow_at(world.flows, flow_id)
    if extras is not None and flow.needs_credit:
        call_receivers(world.receivers, world, ANSWER, slot)
        return
    segment = segment_at(world.segments, slot)
    sent_ns = segment.sent_ns
    if segment.seq == SYN:
        if flow.timer == CONNECTING:
            update_rtt(world, flow, now_ns - sent_ns)
            end_handshake(world, flow)
    elif flow.active:
        ack_flow(world, slot, now_ns, extras)
    release_packet(world, slot)
    if not flow.active:
        return
    if flow.una >= flow.n_packets:
        deactivate(world, flow_id)
        if flow.pool != NOBODY:
            keep_connection(world, flow_id, sent_ns)
    else:
        send(world, flow_id, now_ns, extras)


@njit
def wait_for_credit(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Keep the timer of an unfinished flow running; request credit if the receiver expects to grant none."""
    flow = flow_at(world.flows, flow_id)
    if flow.timer_deadline_ns == NEVER_NS:
        flow.timer = RETRANSMISSION
        flow.timer_deadline_ns = now_ns + flow.rto_ns
    request_if_short(world, flow_id, now_ns, extras)


@njit
def check_timers(world: Any, now_ns: int, extras: Any) -> None:
    """Expire the timer of every active flow whose deadline has passed.

    Timers have the granularity of the tick (RFC 6298's G). As in Linux's timer wheel, a timer whose deadline
    coincides with a tick expires at the next tick.
    """
    ended_ns = now_ns - world.as_linux
    for host_id in range(world.n_hosts):
        flow_id = host_at(world.hosts, host_id).first_active
        while flow_id != NOBODY:
            flow = flow_at(world.flows, flow_id)
            if flow.timer_deadline_ns <= ended_ns:
                expire_timer(world, flow_id, now_ns, extras)
                send(world, flow_id, now_ns, extras)
                if extras is not None and flow.needs_credit:
                    request_if_short(world, flow_id, now_ns, extras)
            flow_id = flow.next_active
