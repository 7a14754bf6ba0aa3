"""Operations common to all queue disciplines: time, free slots, the queue's integral and the wire."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

from sysgym.emulator.packets.engine.discipline import random_below
from sysgym.emulator.packets.engine.event_queue.queue import push
from sysgym.emulator.packets.engine.events import event_key
from sysgym.emulator.packets.memory.records import NOBODY, packet_at

FIXED_POINT_BITS = 20

RateT = TypeVar("RateT", float, NDArray[np.float64])


@register_jitable(forceinline=True)
def ns_per_byte_q20(rate_bps: RateT) -> RateT:
    """Return the time of a byte at a rate, in ns, in fixed point: a whole number, 0 for an infinite rate.

    From Python, it also accepts arrays.
    """
    nearest: RateT = np.rint(8e9 / rate_bps * 2.0**FIXED_POINT_BITS)
    return nearest


@njit(forceinline=True)
def serialisation_ns(size_bytes: int, ns_per_byte_q20: int) -> int:
    """Return the serialisation time of a packet, to the nearest ns."""
    return (size_bytes * ns_per_byte_q20 + (1 << (FIXED_POINT_BITS - 1))) >> FIXED_POINT_BITS


@njit(forceinline=True)
def release_packet(world: Any, slot: int) -> None:
    """Free a packet's slot; the last one freed is reused first, while it is still in the cache."""
    packet_at(world.packets, slot).next = world.first_free_packet
    world.first_free_packet = slot
    world.free_packets += 1


@njit(forceinline=True)
def integrate_backlog(link: Any, now_ns: int) -> int:
    """Update the queue's time integral (in drain time) to the present, and return the queue.

    The queue falls linearly from one backlog to the other, so the area is half the difference of their
    squares. The code has no branch, because it is hard to predict whether a queue is empty.
    """
    before_ns = max(link.busy_until_ns - link.integrated_until_ns, 0)
    backlog_ns = max(link.busy_until_ns - now_ns, 0)
    link.integrated_until_ns = now_ns
    link.backlog_integral_ns2 += 0.5 * float(before_ns - backlog_ns) * float(before_ns + backlog_ns)
    return backlog_ns


@njit(forceinline=True)
def jittered_arrival_ns(world: Any, link: Any, arrival_ns: int) -> int:
    """Return an arrival time delayed by the jitter of the host or switch that sends, in FIFO order.

    Hosts of real networks are never synchronised. Without jitter, flows with equal round trips lock into
    phase, and drop-tail or step-marking queues repeatedly hit the same flow (Floyd and Jacobson, "On Traffic
    Phase Effects", 1991).
    """
    arrival_ns = max(arrival_ns + random_below(world, link.jitter_ns), link.last_arrival_ns)
    link.last_arrival_ns = arrival_ns
    return arrival_ns


@njit(forceinline=True)
def refuse(world: Any, link: Any, slot: int) -> None:
    """Drop a packet that finds no room in a queue, or is lost on the link."""
    link.dropped_packets += 1
    link.dropped_bytes += packet_at(world.packets, slot).size_bytes
    release_packet(world, slot)


@njit(forceinline=True)
def put_on_wire(world: Any, link: Any, link_id: int, packet: Any, slot: int, arrival_ns: int) -> None:
    """Append a packet to the FIFO of packets in flight to the link's far end."""
    packet.arrival_ns = arrival_ns
    packet.next = NOBODY
    if link.head == NOBODY:
        link.head = slot
        push(world, event_key(arrival_ns, link_id))
    else:
        packet_at(world.packets, link.tail).next = slot
    link.tail = slot
