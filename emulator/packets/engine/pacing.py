"""Pacing, delivery-rate samples and path telemetry, for transports that use them.

Part of the extended event loop only. Samples follow Cheng, Cardwell, Hassas Yeganeh and Jacobson,
draft-cheng-iccrg-delivery-rate-estimation, in packets.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.event_queue.queue import push
from sysgym.emulator.packets.engine.events import FLOW_SENDS, event_key, flow_source
from sysgym.emulator.packets.engine.recovery.flight import losses, pipe_packets
from sysgym.emulator.packets.engine.wire import FIXED_POINT_BITS, ns_per_byte_q20
from sysgym.emulator.packets.memory.flow_record import flow_at
from sysgym.emulator.packets.memory.records import (
    PACKET_CNP,
    TRANSPORT_FAILED,
    note_at,
    packet_at,
    segment_at,
    stamps_at,
)

_FRACTION_MASK = (1 << FIXED_POINT_BITS) - 1
CATCH_UP_PACKETS = 4
"""Largest burst with which a paced flow catches up on missed turns, in packets."""

_SLOWEST_Q20 = float(1 << 46)
"""Longest time of a byte (about 119 bit/s); a packet of 9216 bytes still lasts less than the largest time."""


@njit
def halt_for_transport(world: Any, flow: Any, callback: int, raised: int) -> None:
    """Stop the world because a callback raised or wrote an invalid value; the first failure is kept."""
    if world.halted & TRANSPORT_FAILED:
        return
    world.halted |= TRANSPORT_FAILED
    world.failed_callback = callback
    world.raised = raised
    flow.failed = 1


@njit(forceinline=True)
def space_waiting_packet(flow: Any, rate_bps: float) -> None:
    """Set the spacing of a pacing rate, and when the next packet is due by it."""
    flow.pace_ns_per_byte_q20 = int(min(ns_per_byte_q20(rate_bps), _SLOWEST_Q20))
    lasts_ns = (flow.paced_bytes * flow.pace_ns_per_byte_q20) >> FIXED_POINT_BITS
    flow.next_send_ns = flow.paced_since_ns + lasts_ns


@njit(forceinline=True)
def bring_pace_into_force(world: Any, flow: Any, callback: int) -> None:
    """Apply the pacing rate that a callback may have written; 0 means none.

    The waiting packet is rescheduled, as in a network card's rate limiter. Otherwise a rate cut would take
    effect one packet late, which is several round trips for a very slow flow. After a raise the next packet
    leaves at the time that was scheduled before, because the event queue cannot move an event forward while
    it runs.
    """
    rate_bps = flow.pacing_rate_bps
    if rate_bps == flow.pace_in_force_bps:
        return
    if not 0.0 <= rate_bps < math.inf:
        halt_for_transport(world, flow, callback, 0)
        return
    flow.pace_in_force_bps = rate_bps
    if rate_bps > 0.0:
        space_waiting_packet(flow, rate_bps)
    else:
        flow.pace_ns_per_byte_q20 = 0


@njit(forceinline=True)
def space_next_packet(flow: Any, size_bytes: int, continues: bool, has_more: bool, now_ns: int) -> None:
    """Schedule the next packet one packet's time at the pacing rate after this one.

    Fractions of a nanosecond are carried over. If this packet was late because other flows of its host had
    their turn, the next ones are scheduled from the time at which it was due, at most four packets' time ago.
    The result is a bounded burst; Linux's fair queueing allows one of less than a packet's time
    (net/sched/sch_fq.c). Delay for lack of data or of window is not made up for. A packet that continues a
    burst prolongs the pause after the burst.
    """
    if flow.pace_ns_per_byte_q20 == 0:
        return
    lasts_q20 = size_bytes * flow.pace_ns_per_byte_q20 + flow.pace_fraction_q20
    lasts_ns = lasts_q20 >> FIXED_POINT_BITS
    flow.pace_fraction_q20 = lasts_q20 & _FRACTION_MASK
    if continues:
        flow.has_more = 1 if has_more else 0
        flow.paced_bytes += size_bytes
        flow.next_send_ns += lasts_ns
        return
    flow.paced_since_ns = now_ns
    if flow.has_more:
        flow.paced_since_ns = min(max(flow.next_send_ns, now_ns - CATCH_UP_PACKETS * lasts_ns), now_ns)
    flow.has_more = 1 if has_more else 0
    flow.paced_bytes = size_bytes
    flow.next_send_ns = flow.paced_since_ns + lasts_ns


@njit(forceinline=True)
def waits_for_pace(world: Any, flow_id: int, now_ns: int) -> bool:
    """Return whether the flow's pace prevents sending now; if so, schedule its wake-up."""
    flow = flow_at(world.flows, flow_id)
    if flow.pace_ns_per_byte_q20 == 0 or flow.burst_left > 0 or flow.next_send_ns <= now_ns:
        return False
    if not flow.pace_armed:
        flow.pace_armed = 1
        push(world, event_key(flow.next_send_ns, flow_source(world, flow_id, FLOW_SENDS)))
    return True


@njit(forceinline=True)
def begin_sample(world: Any, flow: Any, slot: int, alone: bool, now_ns: int) -> None:
    """Store the delivery state of the flow with a packet that is sent (the draft's 3.2)."""
    note = note_at(world.notes, slot)
    if alone:  # nothing else is in flight: a new flight begins
        flow.first_sent_ns = now_ns
        flow.delivered_ns = now_ns
    if flow.nxt >= flow.n_packets and flow.lost == 0:
        flow.app_limited_until = flow.delivered_packets + max(flow.nxt - flow.una, 1)
    note.delivered_packets = flow.delivered_packets
    note.delivered_ns = flow.delivered_ns
    note.first_sent_ns = flow.first_sent_ns
    note.app_limited = 1 if flow.app_limited_until > 0 else 0
    note.in_flight = pipe_packets(flow)
    note.losses = losses(flow)
    note.endpoint_delay_ns = 0
    note.covers = 1
    if world.keeps_stamps:
        stamps_at(world.stamps, slot).hops = 0


@njit(forceinline=True)
def finish_sample(world: Any, flow: Any, event: Any, slot: int, now_ns: int) -> None:
    """Fill in the delivery-rate sample of an ACK (the draft's 3.3)."""
    note = note_at(world.notes, slot)
    packet = packet_at(world.packets, slot)
    sent_ns = segment_at(world.segments, slot).sent_ns
    if event.acked_packets > 0:
        flow.delivered_packets += event.acked_packets
        flow.delivered_ns = now_ns
    if flow.app_limited_until > 0 and flow.delivered_packets > flow.app_limited_until:
        flow.app_limited_until = 0
    event.hops = flow.hops
    event.endpoint_delay_ns = note.endpoint_delay_ns
    event.cnp = 1 if packet.flags & PACKET_CNP else 0
    event.delivered_packets = flow.delivered_packets
    event.delivered_at_send = note.delivered_packets
    event.delivery_interval_ns = max(sent_ns - note.first_sent_ns, now_ns - note.delivered_ns)
    event.app_limited = note.app_limited
    event.in_flight_at_send = note.in_flight
    event.lost_since_send = max(losses(flow) - note.losses, 0)
    if sent_ns > flow.first_sent_ns:
        flow.first_sent_ns = sent_ns


@njit
def read_telemetry(world: Any, event: Any, slot: int) -> None:
    """Copy the telemetry of the switches from the ACK into the event."""
    stamps = stamps_at(world.stamps, slot)
    event.int_hops = stamps.hops
    for hop in range(stamps.hops):
        event.int_queue_bytes[hop] = stamps.queue_bytes[hop]
        event.int_tx_bytes[hop] = stamps.tx_bytes[hop]
        event.int_time_ns[hop] = stamps.time_ns[hop]
        event.int_rate_bps[hop] = stamps.rate_bps[hop]
