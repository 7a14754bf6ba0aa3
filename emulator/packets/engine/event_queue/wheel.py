"""Timing wheel: the event queue of networks with thousands of busy links.

A slot of the wheel holds the sources of the events in a short span of time, unordered, so that adding an
event takes no comparison (Varghese and Lauck, SOSP 1987). The events of the next slots are sorted into a
short list of due events. The list also determines the links, packets and flows that are needed next; they are
prefetched, because a large network spends most of its time waiting for memory. Events after the last slot
stay in the tournament.

The wheel is used only while the loop runs; at the end of the loop all events return to the tournament.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sysgym.emulator.packets.engine.event_queue.tournament import ROOT, remove
from sysgym.emulator.packets.engine.event_queue.tournament import add as add_to_tournament
from sysgym.emulator.packets.engine.events import NO_EVENT, SOURCE_MASK
from sysgym.emulator.packets.memory.flow_record import prefetch_flow
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    entry_at,
    link_at,
    packet_at,
    prefetch_link,
    prefetch_packet,
    prefetch_segment,
    route_hop_at,
    slot_at,
    word_at,
)
from sysgym.emulator.packets.topology import Topology

EMPTY = SOURCE_MASK
"""End of a slot's list of sources."""
STAGE = 4
"""Events between two stages of prefetching: enough time for a cache line to arrive."""
LOOK_AHEAD = 3 * STAGE + 1
"""Number of due events at which all stages of prefetching have one."""
HANDLED = 64
"""Number of handled events at the front of the list at which the due events are moved to the front."""
DENSE_PER_NS = 1.0
"""Packet-hops per ns of simulated time above which a wheel is worthwhile."""
PACKETS_WAITING = 16
"""Length of a queue, in full packets, whose last packet still arrives within the wheel's reach."""
MOST_SLOTS_LOG2 = 14


class WheelArrays(NamedTuple):
    """Arrays of a world's wheel; each has one entry in a world without a wheel."""

    wheel: NDArray[np.int32]
    wheel_bits: NDArray[np.uint64]
    waiting: NDArray[np.int64]
    due: NDArray[np.int64]


def wheel_form(topology: Topology, routes: NDArray[np.int32], mtu_bytes: int) -> tuple[int, int]:
    """Return the number of slots of a network's wheel, 0 for none, and the bits of a slot's width in ns.

    Args:
        topology: The network.
        routes: Data and ACK route of each flow, shape (n_flows, 2, longest route), padded with NOBODY.
        mtu_bytes: Size of a full packet.
    """
    out = routes[:, 0]
    n_flows = np.bincount(out[out != NOBODY], minlength=topology.n_links)
    share_bps = np.append(topology.link_rate_bps / np.maximum(n_flows, 1), np.inf)
    fair_bps = share_bps[out].min(axis=1, initial=np.inf)  # NOBODY, -1, selects the last entry
    hops_per_ns = 2e-9 * float((fair_bps / (8.0 * mtu_bytes) * (out != NOBODY).sum(axis=1)).sum())
    if hops_per_ns < DENSE_PER_NS:
        return 0, 0
    packet_s = 8.0 * mtu_bytes / topology.link_rate_bps
    reach_ns = 1e9 * float((topology.link_delay_s + PACKETS_WAITING * packet_s).max())
    slots = 1 << min(max(math.ceil(math.log2(2 * topology.n_links)), 6), MOST_SLOTS_LOG2)
    return slots, max(math.ceil(math.log2(reach_ns / slots)), 0)


def new_wheel(size: int, n_sources: int) -> WheelArrays:
    """Return the arrays of an empty wheel with a number of slots; 0: no wheel."""
    return WheelArrays(
        wheel=np.full(max(size, 1), EMPTY, np.int32),
        wheel_bits=np.zeros(max(size // 64, 1), np.uint64),
        waiting=np.zeros(n_sources if size else 1, np.int64),
        due=np.zeros(n_sources + HANDLED + LOOK_AHEAD if size else 1, np.int64),
    )


@intrinsic
def _lowest_bit(typing_context: Any, bits: Any) -> Any:
    """``lowest_bit(bits)``: the number of the lowest set bit; there must be one."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


lowest_bit: Any = _lowest_bit


@njit(forceinline=True)
def add(world: Any, key: int) -> None:
    """Add an event to its slot, to the due events if the slot has been opened, or to the tournament."""
    ahead = np.uint64(key - world.opened_key) >> np.uint64(world.wheel_shift)
    if ahead < np.uint64(world.wheel_slots - 1):  # as unsigned numbers: keys before opened_key are large
        place = (key >> world.wheel_shift) & (world.wheel_slots - 1)
        source = key & SOURCE_MASK
        slot = slot_at(world.wheel, place)
        entry_at(world.waiting, source).key = (key & ~SOURCE_MASK) | slot.first
        slot.first = source
        word_at(world.wheel_bits, place >> 6).bits |= np.uint64(1) << np.uint64(place & 63)
        world.n_waiting += 1
    else:
        add_elsewhere(world, key)


@njit
def add_elsewhere(world: Any, key: int) -> None:
    """Add an event that lies before or after the unopened slots."""
    if key < world.opened_key:
        insert(world, key)
    else:
        add_to_tournament(world, key & SOURCE_MASK, key)


@njit
def insert(world: Any, key: int) -> None:
    """Insert an event into the list of due events."""
    due = world.due
    place = world.due_end
    world.due_end = place + 1
    while place > world.due_first and entry_at(due, place - 1).key > key:
        entry_at(due, place).key = entry_at(due, place - 1).key
        place -= 1
    entry_at(due, place).key = key


@njit(forceinline=True)
def next_due(world: Any) -> int:
    """Return the key of the next event; open a slot if there are too few due events to look ahead."""
    if world.due_first >= HANDLED:
        move_to_front(world)
    n_due = world.due_end - world.due_first
    if n_due == 0 or (n_due < LOOK_AHEAD and world.n_waiting > 0):
        open_slot(world)
    if world.due_first == world.due_end:
        return int(NO_EVENT)
    return int(entry_at(world.due, world.due_first).key)


@njit
def open_slot(world: Any) -> None:
    """Sort the events of the next non-empty span of time into the due events."""
    shift = world.wheel_shift
    slot_key, place = NO_EVENT, 0
    if world.n_waiting > 0:
        place = next_place(world)
        ahead = (place - (world.opened_key >> shift)) & (world.wheel_slots - 1)
        slot_key = ((world.opened_key >> shift) + ahead) << shift
    first_key = min(slot_key, (entry_at(world.tournament, ROOT).key >> shift) << shift)
    if first_key >= (NO_EVENT >> shift) << shift:
        return
    world.opened_key = first_key + (1 << shift)
    if first_key == slot_key:
        empty_slot(world, place)
    key = entry_at(world.tournament, ROOT).key
    while key < world.opened_key:
        remove(world, key & SOURCE_MASK)
        insert(world, key)
        key = entry_at(world.tournament, ROOT).key


@njit(forceinline=True)
def move_to_front(world: Any) -> None:
    """Move the due events to the front of their list."""
    n_due = world.due_end - world.due_first
    for event in range(n_due):
        entry_at(world.due, event).key = entry_at(world.due, world.due_first + event).key
    world.due_first = 0
    world.due_end = n_due


@njit(forceinline=True)
def next_place(world: Any) -> int:
    """Return the first slot with events, from the next slot on; there must be one."""
    place = (world.opened_key >> world.wheel_shift) & (world.wheel_slots - 1)
    word = place >> 6
    bits = word_at(world.wheel_bits, word).bits >> np.uint64(place & 63) << np.uint64(place & 63)
    while bits == np.uint64(0):
        word = (word + 1) & ((world.wheel_slots >> 6) - 1)
        bits = word_at(world.wheel_bits, word).bits
    return (word << 6) + lowest_bit(bits)


@njit(forceinline=True)
def empty_slot(world: Any, place: int) -> None:
    """Move the events of a slot to the due events."""
    slot = slot_at(world.wheel, place)
    word_at(world.wheel_bits, place >> 6).bits &= ~(np.uint64(1) << np.uint64(place & 63))
    source = slot.first
    slot.first = EMPTY
    while source != EMPTY:
        key = entry_at(world.waiting, source).key
        insert(world, (key & ~SOURCE_MASK) | source)
        world.n_waiting -= 1
        source = key & SOURCE_MASK


@njit
def start(world: Any) -> None:
    """Begin to use the wheel, which takes its events from the tournament."""
    world.wheel_slots = world.wheel_size
    world.opened_key = (entry_at(world.tournament, ROOT).key >> world.wheel_shift) << world.wheel_shift
    world.due_first = 0
    world.due_end = 0


@njit
def stop(world: Any) -> None:
    """Return all events to the tournament."""
    while world.n_waiting > 0:
        empty_slot(world, next_place(world))
    world.wheel_slots = 0
    for event in range(world.due_first, world.due_end):
        key = entry_at(world.due, event).key
        add_to_tournament(world, key & SOURCE_MASK, key)


@njit(forceinline=True)
def due_link(world: Any, ahead: int) -> int:
    """Return the link of the due event ``ahead`` places from now; any link if its source is not a link."""
    return min(entry_at(world.due, world.due_first + ahead).key & SOURCE_MASK, world.n_links - 1)


@njit(forceinline=True)
def look_ahead(world: Any) -> None:
    """Prefetch the memory of coming events, stage by stage: the link, its packet, and the packet's needs.

    Entries after the last due event are old; their prefetches are unnecessary but harmless.
    """
    links, packets = world.links, world.packets
    prefetch_link(links, due_link(world, 3 * STAGE))
    prefetch_packet(packets, max(link_at(links, due_link(world, 2 * STAGE)).head, 0))
    slot = max(link_at(links, due_link(world, STAGE)).head, 0)
    packet = packet_at(packets, slot)
    prefetch_packet(packets, max(packet.next, 0))
    next_link = route_hop_at(world.routes, packet.route + 1).link
    if next_link != NOBODY:
        prefetch_link(links, next_link)
    else:
        prefetch_segment(world.segments, slot)
        prefetch_flow(world.flows, packet.flow)
