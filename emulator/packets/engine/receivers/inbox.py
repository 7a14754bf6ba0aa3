"""Receiving end of receiver-driven flows: messages, their grants, and the paced pulls of a host.

A receiver's law runs on every arrival. Its immediate grants travel with the ACK of the arriving packet or,
for other messages, in separate packets. Pulls wait for the host's clock, which grants them one by one, a full
packet's time apart, to the messages in order of rank and in turn among equal ranks.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.event_queue.queue import push
from sysgym.emulator.packets.engine.events import event_key, pull_source
from sysgym.emulator.packets.engine.pacing import halt_for_transport
from sysgym.emulator.packets.engine.receiver import accept_data, report_arrivals, send_back
from sysgym.emulator.packets.engine.receivers.credit import control_packet
from sysgym.emulator.packets.engine.receivers.ranking import (
    list_message,
    move_behind_equals,
    unlist_message,
)
from sysgym.emulator.packets.engine.wire import release_packet, serialisation_ns
from sysgym.emulator.packets.memory.callbacks import (
    N_ENTRIES,
    N_PARAMETERS,
    ON_DATA,
    ON_RECEIVER_TICK,
    PARAMETERS,
)
from sysgym.emulator.packets.memory.flow_record import flow_at
from sysgym.emulator.packets.memory.message_records import (
    ARRIVAL,
    INBOX,
    MESSAGE,
    arrival_at,
    credit_at,
    inbox_at,
    message_at,
)
from sysgym.emulator.packets.memory.numba_records import callback_caller
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_CE,
    PACKET_DUPLICATE,
    PACKET_IS_ACK,
    PACKET_TRIMMED,
    callback_at,
    link_at,
    note_at,
    packet_at,
    place_at,
    segment_at,
)

call_receiver = callback_caller(MESSAGE, INBOX, ARRIVAL)


@njit
def notify_receiver(world: Any, message: Any, what: int, event: Any) -> None:
    """Call the law of a message's receiver; halt the world if it raises."""
    flow = flow_at(world.flows, message.index)
    first = flow.transport * N_ENTRIES
    event.parameters = callback_at(world.callbacks, first + PARAMETERS).address
    event.n_parameters = callback_at(world.callbacks, first + N_PARAMETERS).address
    host = inbox_at(world.inboxes, flow.dst)
    raised = call_receiver(callback_at(world.callbacks, first + what).address, message, host, event)
    if raised != 0:
        halt_for_transport(world, flow, what, raised)


@njit(forceinline=True)
def describe_arrival(event: Any, seq: int, flags: int, now_ns: int) -> None:
    """Fill in the event of a packet that has arrived, or of the clock."""
    event.now_ns = now_ns
    event.seq = seq
    event.is_new = 0
    event.trimmed = 1 if flags & PACKET_TRIMMED else 0
    event.marked = 1 if flags & PACKET_CE else 0


@njit
def begin_message(world: Any, flow: Any, message: Any, now_ns: int) -> None:
    """Begin a message at the arrival of its first packet or request."""
    message.first_arrival_ns = now_ns
    message.last_arrival_ns = now_ns
    message.first_window_packets = flow.credit_packets  # no grant has changed it yet
    message.granted_packets = flow.credit_packets
    message.told_packets = flow.credit_packets
    list_message(inbox_at(world.inboxes, flow.dst), message)


@njit
def count_arrival(world: Any, flow: Any, message: Any, seq: int, event: Any) -> None:
    """Count a data packet, and deliver its payload unless the packet is trimmed or a duplicate."""
    message.arrived_packets += 1
    message.last_arrival_ns = event.now_ns
    if event.trimmed:
        flow.trimmed_packets += 1
        message.trimmed_packets += 1
        message.wanted_packets += 1
    elif accept_data(world, flow, seq, event.now_ns):
        event.is_new = 1
        message.received_packets += 1
        message.remaining_packets -= 1
        last = seq == message.n_packets - 1
        message.remaining_bytes -= flow.last_packet_bytes if last else world.payload_bytes


@njit
def receive_in_message(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Receive a packet of a receiver-driven flow; send it back as an ACK or, for a request, as a grant."""
    packet = packet_at(world.packets, slot)
    flow_id = packet.flow
    flow = flow_at(world.flows, flow_id)
    message = message_at(world.messages, flow_id)
    segment = segment_at(world.segments, slot)
    event = arrival_at(world.arrival, 0)
    describe_arrival(event, segment.seq, packet.flags, now_ns)
    if message.first_arrival_ns < 0:
        begin_message(world, flow, message, now_ns)
    repeated = 0
    if segment.seq == NOBODY:
        message.control_arrived += 1
        message.control_sent += 1
    else:
        count_arrival(world, flow, message, segment.seq, event)
        repeated = 0 if event.is_new or event.trimmed else PACKET_DUPLICATE
    message.wanted_packets = max(message.wanted_packets, credit_at(world.credits, slot).packets)
    if message.listed:
        if message.remaining_packets == 0:
            unlist_message(inbox_at(world.inboxes, flow.dst), message)
        notify_receiver(world, message, ON_DATA, event)
    packet.flags = PACKET_IS_ACK | (packet.flags & (PACKET_CE | PACKET_TRIMMED)) | repeated
    packet.size_bytes = world.ack_bytes
    if event.trimmed:
        note_at(world.notes, slot).covers = 0
    if world.loses_at_random and segment.seq != NOBODY:
        report_arrivals(world, flow, slot, segment.seq)
    send_answer(world, message, slot, now_ns, extras)
    tell_senders(world, flow.dst, now_ns, extras)
    send_pulls(world, flow.dst, now_ns, extras)


@njit
def send_answer(world: Any, message: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Send an ACK or a grant with the present credit and requests of its message."""
    flow = flow_at(world.flows, message.index)
    segment_at(world.segments, slot).ack = flow.rcv_nxt
    credit = credit_at(world.credits, slot)
    credit.packets = message.granted_packets
    credit.priority = message.priority
    credit.ask_below = min(flow.n_packets, message.granted_packets) if message.asks_again else 0
    message.asks_again = 0
    message.told_packets = message.granted_packets
    send_back(world, flow, message.index, slot, now_ns, extras)


@njit
def send_grant(world: Any, message: Any, now_ns: int, extras: Any) -> None:
    """Send a grant in a separate packet; without a free slot, the next answer carries it."""
    slot = control_packet(world, message.index, 1, now_ns)
    if slot != NOBODY:
        send_answer(world, message, slot, now_ns, extras)


@njit
def tell_senders(world: Any, host_id: int, now_ns: int, extras: Any) -> None:
    """Send the grants of the law that no ACK has carried yet."""
    host = inbox_at(world.inboxes, host_id)
    while host.first_to_tell != NOBODY:
        message = message_at(world.messages, host.first_to_tell)
        host.first_to_tell = message.told_next
        message.to_tell = 0
        if message.told_packets < message.granted_packets or message.asks_again:
            send_grant(world, message, now_ns, extras)


@njit
def send_pulls(world: Any, host_id: int, now_ns: int, extras: Any) -> None:
    """Grant the pull that is due, and set the clock for the next one."""
    host = inbox_at(world.inboxes, host_id)
    if host.armed or host.pulls == 0:
        return
    if host.next_pull_ns <= now_ns:
        downlink = link_at(world.links, place_at(world.places, host_id).downlink)
        packet_ns = serialisation_ns(world.payload_bytes + world.header_bytes, downlink.ns_per_byte_q20)
        host.next_pull_ns = now_ns + int(packet_ns * world.pull_spacing)
        message = first_with_pulls(host)
        message.pulls -= 1
        host.pulls -= 1
        message.granted_packets += 1
        move_behind_equals(host, message)
        send_grant(world, message, now_ns, extras)
    if host.pulls > 0:
        host.armed = 1
        push(world, event_key(host.next_pull_ns, pull_source(world, host_id)))


@njit(forceinline=True)
def first_with_pulls(host: Any) -> Any:
    """Return the first message of a host with a queued pull; there must be one."""
    message = message_at(host.messages, host.first)
    while message.pulls == 0:
        message = message_at(host.messages, message.next)
    return message


@njit
def wake_inbox(world: Any, host_id: int, now_ns: int, extras: Any) -> None:
    """Handle the clock of a host's pulls."""
    inbox_at(world.inboxes, host_id).armed = 0
    send_pulls(world, host_id, now_ns, extras)


@njit
def tick_receivers(world: Any, now_ns: int, extras: Any) -> None:
    """Call the receiver's ``on_tick`` for every message that has begun and is not complete."""
    event = arrival_at(world.arrival, 0)
    for host_id in range(world.n_hosts):
        host = inbox_at(world.inboxes, host_id)
        index = host.first
        while index != NOBODY:
            message = message_at(world.messages, index)
            index = message.next
            if message.ticked_ns == now_ns:  # its law has moved it behind others
                continue
            message.ticked_ns = now_ns
            describe_arrival(event, NOBODY, 0, now_ns)
            notify_receiver(world, message, ON_RECEIVER_TICK, event)
        tell_senders(world, host_id, now_ns, extras)
        send_pulls(world, host_id, now_ns, extras)


@njit
def release_control(world: Any, slot: int) -> None:
    """Free a grant that has reached its sender."""
    message_at(world.messages, packet_at(world.packets, slot).flow).control_arrived += 1
    release_packet(world, slot)
