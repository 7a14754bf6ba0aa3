"""Queue disciplines beyond drop tail: random early detection, telemetry and capture.

Part of the extended event loop only. Random draws come from the world's own generator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.memory.flow_record import flow_at
from sysgym.emulator.packets.memory.records import (
    INT_HOPS,
    NOBODY,
    PACKET_CE,
    PACKET_ECN_CAPABLE,
    PACKET_IS_ACK,
    SYN,
    captured_at,
    link_at,
    packet_at,
    port_at,
    segment_at,
    stamps_at,
)

NOT_MARKED = 0
MARKED = 1
REFUSED = 2

Q31 = (1 << 31) - 1
"""Bound of the integer draws that are compared with a probability."""


@njit(forceinline=True)
def random_below(world: Any, bound: int) -> int:
    """Return a uniform integer in [0, bound), for a bound below 2^31, from the world's own generator.

    The generator is Marsaglia's xorshift (2003).
    """
    bits = world.random_state
    bits ^= bits << np.uint64(13)
    bits ^= bits >> np.uint64(7)
    bits ^= bits << np.uint64(17)
    world.random_state = bits
    return (int(bits >> np.uint64(33)) * bound) >> 31


@njit(forceinline=True)
def chance(world: Any, probability: float) -> bool:
    """Return True with the given probability, which is resolved in steps of 2^-31."""
    return random_below(world, Q31) < int(probability * float(Q31))


@njit
def red_probability(average: Any, low: Any, high: Any, largest: Any, gentle: Any) -> Any:
    """Return the probability of a mark: 0 below ``low``, rising to ``largest`` at ``high``, 1 beyond it.

    With ``gentle`` it rises from ``largest`` to 1 between ``high`` and twice that (Floyd, "Recommendation on
    using the gentle_ variant of RED", 2000).
    """
    if average < low:
        return 0.0
    if average < high:
        return largest * (average - low) / (high - low)
    if gentle and average < 2.0 * high:
        return largest + (1.0 - largest) * (average - high) / high
    return 1.0


@njit
def red_verdict(
    world: Any,
    link: Any,
    port: Any,
    queue: Any,
    busy_until_ns: int,
    packet: Any,
    backlog_ns: int,
    now_ns: int,
) -> int:
    """Apply random early detection (Floyd and Jacobson, ToN 1993) with independent draws (their method 1).

    While the queue is empty, the average decays as if small packets had arrived at an empty queue, one per
    transmission time of a full packet (equation 3 of the paper).

    Args:
        world: The world.
        link: The link.
        port: Its port, with the limits.
        queue: Record that keeps the average: the port, or its class queue.
        busy_until_ns: Time at which the queue was or will be empty.
        packet: The packet that arrives.
        backlog_ns: The queue, as a drain time.
        now_ns: Present time.
    """
    if port.red_max_ns <= 0.0:
        return NOT_MARKED
    weight = world.red_weight
    if weight < 1.0 and backlog_ns == 0:
        full_packet_ns = float((world.payload_bytes + world.header_bytes) * link.ns_per_byte_q20 >> 20)
        idle_ns = now_ns - max(busy_until_ns, queue.red_until_ns)
        queue.red_average_ns *= (1.0 - weight) ** (max(float(idle_ns), 0.0) / max(full_packet_ns, 1.0))
    queue.red_average_ns += weight * (backlog_ns - queue.red_average_ns)
    queue.red_until_ns = now_ns
    probability = red_probability(
        queue.red_average_ns,
        port.red_min_ns,
        port.red_max_ns,
        world.red_max_probability,
        world.red_gentle != 0,
    )
    if probability <= 0.0 or (probability < 1.0 and not chance(world, probability)):
        return NOT_MARKED
    if world.red_marks:
        return MARKED if packet.flags & PACKET_ECN_CAPABLE else NOT_MARKED
    return REFUSED


@njit
def stamp_telemetry(world: Any, link_id: int, slot: int, now_ns: int) -> None:
    """Add the switch's queue, bytes sent, clock and link rate to a packet (Li et al., HPCC, 2019).

    The queue is the one at the packet's departure, not at its arrival, which would be out of date by the
    packet's own queueing delay. It is read when the packet reaches the far end of the link, which is later
    than the departure by the link's delay. The ports of hosts do not stamp.
    """
    packet = packet_at(world.packets, slot)
    stamps = stamps_at(world.stamps, slot)
    port = port_at(world.ports, link_id)
    if packet.flags & PACKET_IS_ACK or port.sends_for_host != NOBODY or stamps.hops >= INT_HOPS:
        return
    link = link_at(world.links, link_id)
    hop = stamps.hops
    queue_bytes = (max(link.busy_until_ns - now_ns, 0) << 20) // link.ns_per_byte_q20
    queue_bytes += port.queued_bytes - port.sending_bytes  # of class queues
    stamps.queue_bytes[hop] = queue_bytes
    stamps.tx_bytes[hop] = link.sent_bytes - queue_bytes
    stamps.time_ns[hop] = now_ns
    stamps.rate_bps[hop] = port.rate_bps
    stamps.hops = hop + 1


@njit
def capture(world: Any, link_id: int, slot: int, marked: bool, time_ns: int) -> None:
    """Record a packet that enters a recorded link, with the time at which its first bit is sent."""
    if not port_at(world.ports, link_id).recorded:
        return
    if world.n_captured >= world.capture_size:
        world.n_missed += 1
        return
    packet = packet_at(world.packets, slot)
    segment = segment_at(world.segments, slot)
    captured = captured_at(world.captured, world.n_captured)
    world.n_captured += 1
    captured.time_ns = time_ns
    captured.flow = packet.flow
    captured.link = link_id
    first_packet = flow_at(world.flows, packet.flow).first_packet
    captured.seq = segment.seq if segment.seq == SYN else segment.seq - first_packet
    captured.ack = segment.ack - first_packet
    captured.size_bytes = packet.size_bytes
    captured.flags = packet.flags
    if marked and packet.flags & PACKET_ECN_CAPABLE:
        captured.flags |= PACKET_CE
