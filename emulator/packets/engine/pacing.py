"""The sender's rates, for transports that ask: pacing, samples of the delivery rate, telemetry of the path.

Part of the extended event loop only. Samples follow Cheng, Cardwell, Hassas Yeganeh and Jacobson,
draft-cheng-iccrg-delivery-rate-estimation, in packets.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.events import FLOW_SENDS, event_key, flow_source, push
from sysgym.emulator.packets.engine.wire import FIXED_POINT_BITS, ns_per_byte_q20
from sysgym.emulator.packets.memory.records import (
    PACKET_CNP,
    TRANSPORT_FAILED,
    flow_at,
    note_at,
    packet_at,
    segment_at,
    stamps_at,
)

_FRACTION_MASK = (1 << FIXED_POINT_BITS) - 1
CATCH_UP_PACKETS = 4
"""What a paced flow may make good of turns that it missed, in packets; more is forgotten."""

_SLOWEST_Q20 = float(1 << 46)
"""About 119 bit/s: a packet of 9216 bytes then still lasts less than the largest time."""


@njit
def halt_for_transport(world: Any, flow: Any, callback: int, raised: int) -> None:
    """Stops the world because a callback raised or wrote what cannot be; the first such one is kept."""
    if world.halted & TRANSPORT_FAILED:
        return
    world.halted |= TRANSPORT_FAILED
    world.failed_callback = callback
    world.raised = raised
    flow.failed = 1


@njit(forceinline=True)
def bring_pace_into_force(world: Any, flow: Any, callback: int) -> None:
    """Takes over the pacing rate that a callback may have written; 0: none.

    The packet that waits is spaced anew, as a network card's rate limiter does: a cut in the rate that came
    one packet late would be no cut for a flow that sends one packet in several round trips.
    """
    rate_bps = flow.pacing_rate_bps
    if rate_bps == flow.pace_in_force_bps:
        return
    if not 0.0 <= rate_bps < math.inf:
        halt_for_transport(world, flow, callback, 0)
        return
    flow.pace_in_force_bps = rate_bps
    if rate_bps > 0.0:
        flow.pace_ns_per_byte_q20 = int(min(ns_per_byte_q20(rate_bps), _SLOWEST_Q20))
        lasts_ns = (flow.paced_bytes * flow.pace_ns_per_byte_q20) >> FIXED_POINT_BITS
        flow.next_send_ns = flow.paced_since_ns + lasts_ns
    else:
        flow.pace_ns_per_byte_q20 = 0


@njit(forceinline=True)
def space_next_packet(flow: Any, size_bytes: int, has_more: bool, now_ns: int) -> None:
    """The next packet leaves when this one is over at the pacing rate; fractions of a ns add up.

    If this one was late because others of its host had their turn, the next ones are due from when it was due
    itself, up to four packets' time ago: a bounded burst, as Linux's fair queueing allows one (less than a
    packet's time, net/sched/sch_fq.c). What was late for want of data or of a window is not made good.
    """
    if flow.pace_ns_per_byte_q20 == 0:
        return
    lasts_q20 = size_bytes * flow.pace_ns_per_byte_q20 + flow.pace_fraction_q20
    lasts_ns = lasts_q20 >> FIXED_POINT_BITS
    flow.paced_since_ns = now_ns
    if flow.has_more:
        flow.paced_since_ns = min(max(flow.next_send_ns, now_ns - CATCH_UP_PACKETS * lasts_ns), now_ns)
    flow.has_more = 1 if has_more else 0
    flow.pace_fraction_q20 = lasts_q20 & _FRACTION_MASK
    flow.paced_bytes = size_bytes
    flow.next_send_ns = flow.paced_since_ns + lasts_ns


@njit(forceinline=True)
def waits_for_pace(world: Any, flow_id: int, now_ns: int) -> bool:
    """Whether the flow's pace keeps it from sending now; if so, sees to it that it is woken."""
    flow = flow_at(world.flows, flow_id)
    if flow.pace_ns_per_byte_q20 == 0 or flow.next_send_ns <= now_ns:
        return False
    if not flow.pace_armed:
        flow.pace_armed = 1
        push(world, event_key(flow.next_send_ns, flow_source(world, flow_id, FLOW_SENDS)))
    return True


@njit(forceinline=True)
def begin_sample(world: Any, flow: Any, slot: int, alone: bool, now_ns: int) -> None:
    """Notes on a packet that is sent what has been delivered so far (the draft's 3.2)."""
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
    note.endpoint_delay_ns = 0
    note.covers = 1
    if world.keeps_stamps:
        stamps_at(world.stamps, slot).hops = 0


@njit(forceinline=True)
def finish_sample(world: Any, flow: Any, event: Any, slot: int, now_ns: int) -> None:
    """Fills in what an ACK says about the rate (the draft's 3.3)."""
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
    if sent_ns > flow.first_sent_ns:
        flow.first_sent_ns = sent_ns


@njit
def read_telemetry(world: Any, event: Any, slot: int) -> None:
    """Copies what the switches have stamped."""
    stamps = stamps_at(world.stamps, slot)
    event.int_hops = stamps.hops
    for hop in range(stamps.hops):
        event.int_queue_bytes[hop] = stamps.queue_bytes[hop]
        event.int_tx_bytes[hop] = stamps.tx_bytes[hop]
        event.int_time_ns[hop] = stamps.time_ns[hop]
        event.int_rate_bps[hop] = stamps.rate_bps[hop]
