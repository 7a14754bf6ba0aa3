"""Handler of the events of receiver-driven flows, compiled for networks that have such flows."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit

from sysgym.emulator.compiling import address_of, compile_for
from sysgym.emulator.packets.engine.hosts import deactivate, send, wait_for_credit
from sysgym.emulator.packets.engine.receivers.credit import take_credit
from sysgym.emulator.packets.engine.receivers.entry import ANSWER, HANDLER, MESSAGE, PULL
from sysgym.emulator.packets.engine.receivers.inbox import (
    receive_in_message,
    release_control,
    tick_receivers,
    wake_inbox,
)
from sysgym.emulator.packets.engine.sender import ack_flow, notify
from sysgym.emulator.packets.engine.wire import release_packet
from sysgym.emulator.packets.memory.callbacks import ON_GRANT
from sysgym.emulator.packets.memory.flow_record import flow_at
from sysgym.emulator.packets.memory.records import NOBODY, event_at, packet_at, segment_at


@cache
def receivers_address() -> int:
    """Return the address of the handler, which is compiled if it is not in the cache."""
    return address_of(compile_for(HANDLER, handle), HANDLER)


def handle(world: Any, event: int, number: int) -> None:
    """Handle one of the events of :mod:`~sysgym.emulator.packets.engine.receivers.entry`."""
    if event == ANSWER:
        receive_answer(world, number, world.now_ns, True)
    elif event == MESSAGE:
        receive_in_message(world, number, world.now_ns, True)
    elif event == PULL:
        wake_inbox(world, number, world.now_ns, True)
    else:
        tick_receivers(world, world.now_ns, True)


@njit
def receive_answer(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Process an ACK or a grant of a receiver-driven flow, then send the packets that the flow may send."""
    flow_id = packet_at(world.packets, slot).flow
    flow = flow_at(world.flows, flow_id)
    segment = segment_at(world.segments, slot)
    is_ack = segment.seq != NOBODY
    if flow.active:
        if is_ack:
            ack_flow(world, slot, now_ns, extras)
        elif segment.ack >= flow.n_packets:  # the last ACKs were lost, and nothing more is granted
            flow.una = flow.n_packets
            flow.sacked = 0
            flow.lost = 0
        event = event_at(world.event, 0)
        event.now_ns = now_ns
        event.granted_packets = take_credit(world, slot)
        if event.granted_packets > 0:
            notify(world, flow, ON_GRANT, event, extras)
    if is_ack:
        release_packet(world, slot)
    else:
        release_control(world, slot)
    if not flow.active:
        return
    if flow.una >= flow.n_packets:
        deactivate(world, flow_id)
    else:
        send(world, flow_id, now_ns, extras)
        wait_for_credit(world, flow_id, now_ns, extras)
