"""Event loop of the packet simulator, compiled once and cached.

Transports are called by the addresses of their compiled callbacks, so the loop is not compiled again for a
user's transport.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba import njit, types

from sysgym.emulator.compiling import c_function
from sysgym.emulator.packets.engine.discipline import Q31, random_below, stamp_telemetry
from sysgym.emulator.packets.engine.event_queue.queue import begin, end, next_key, push, replace, take
from sysgym.emulator.packets.engine.event_queue.tournament import remove
from sysgym.emulator.packets.engine.events import (
    FLOW_SENDS,
    FLOW_START,
    MAX_TIME_NS,
    N_CLOCKS,
    NO_EVENT,
    SAMPLE_TICK,
    SOURCE_BITS,
    SOURCE_MASK,
    SOURCES_PER_FLOW,
    TIMER_TICK,
    TRANSPORT_TICK,
    event_key,
)
from sysgym.emulator.packets.engine.forwarding import ARRIVED, next_link
from sysgym.emulator.packets.engine.hosts import (
    check_timers,
    receive_ack,
    release_successors,
    send_round_robin,
    start_flows,
    tick_transports,
    wake_flow,
)
from sysgym.emulator.packets.engine.ports import enqueue, following_link, sample_queues
from sysgym.emulator.packets.engine.queues.admission import end_transmission
from sysgym.emulator.packets.engine.queues.class_queue import integrate_queue
from sysgym.emulator.packets.engine.queues.pfc import take_control_frame
from sysgym.emulator.packets.engine.receiver import expire_ack_timer, receive_data
from sysgym.emulator.packets.engine.receivers.entry import MESSAGE, PULL, TICK, call_receivers
from sysgym.emulator.packets.engine.receivers.handler import receivers_address
from sysgym.emulator.packets.engine.wire import integrate_backlog, refuse, release_packet
from sysgym.emulator.packets.memory.flow_record import flow_at
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_IS_ACK,
    PACKET_PAUSE,
    PACKET_RESUME,
    cap_at,
    host_at,
    link_at,
    note_at,
    packet_at,
    port_at,
    world_at,
)

PACKET_CONTROL = PACKET_PAUSE | PACKET_RESUME


@njit(forceinline=True)
def arrive(world: Any, link_id: int, now_ns: int, extras: Any) -> None:
    """Handle the first packet on a link at its far end: pass it to the next link, or to the host."""
    link = link_at(world.links, link_id)
    slot = link.head
    packet = packet_at(world.packets, slot)
    link.head = packet.next
    # The code has no branch, because it is hard to predict whether a packet follows.
    following_ns = packet_at(world.packets, max(packet.next, 0)).arrival_ns
    replace(world, link_id, event_key(following_ns, link_id) if packet.next != NOBODY else int(NO_EVENT))
    if extras is not None:
        arrive_extended(world, link_id, slot, now_ns, extras)
        return
    is_ack = packet.flags & PACKET_IS_ACK
    next_link_id = following_link(world, packet)
    if next_link_id != NOBODY:
        enqueue(world, next_link_id, slot, now_ns, extras)
    elif is_ack:
        receive_ack(world, slot, now_ns, extras)
    else:
        receive_data(world, slot, now_ns, extras)


@njit
def arrive_extended(world: Any, link_id: int, slot: int, now_ns: int, extras: Any) -> None:
    """Handle an arrival as :func:`arrive`, with losses, per-packet routing and flow-control frames."""
    packet = packet_at(world.packets, slot)
    if packet.flags & PACKET_CONTROL:
        take_control_frame(world, link_id, note_at(world.notes, slot).priority, packet.flags, now_ns)
        release_packet(world, slot)
        return
    if world.keeps_stamps:
        stamp_telemetry(world, link_id, slot, now_ns)
    next_link_id = next_link(world, link_id, packet, now_ns)
    if next_link_id == NOBODY or is_lost(world, link_id):
        port_at(world.ports, link_id).lost_packets += 1
        refuse(world, link_at(world.links, link_id), slot)
    elif next_link_id != ARRIVED:
        note_at(world.notes, slot).came_by = link_id
        enqueue(world, next_link_id, slot, now_ns, extras)
    elif packet.flags & PACKET_IS_ACK:
        receive_ack(world, slot, now_ns, extras)
    else:
        flow_id = packet.flow
        note_at(world.notes, slot).came_by = NOBODY
        if world.receivers and flow_at(world.flows, flow_id).needs_credit:
            call_receivers(world.receivers, world, MESSAGE, slot)
        else:
            receive_data(world, slot, now_ns, extras)
        end_flow_if_over(world, flow_id, now_ns)


@njit(forceinline=True)
def is_lost(world: Any, link_id: int) -> bool:
    """Return whether a packet is lost on a link: because the link is down, or by random loss."""
    if world.links_fail and port_at(world.ports, link_id).down:
        return True
    return world.loss_q31 > 0 and random_below(world, Q31) < world.loss_q31


@njit(forceinline=True)
def end_flow_if_over(world: Any, flow_id: int, now_ns: int) -> None:
    """Release the flows that wait for a flow whose last byte has just arrived."""
    flow = flow_at(world.flows, flow_id)
    if flow.n_successors > 0 and flow.finish_ns == now_ns:
        release_successors(world, flow, now_ns)
        flow.n_successors = 0


@njit
def on_timer(world: Any, clock: int, now_ns: int, extras: Any) -> None:
    """Handle one of the world's own clocks: flow starts, time-outs, queue samples or transport timers."""
    source = world.n_links + world.n_hosts + clock
    if clock == FLOW_START:
        next_ns = start_flows(world, now_ns, extras)
        if next_ns <= MAX_TIME_NS:
            push(world, event_key(next_ns, source))
    elif clock == TIMER_TICK:
        check_timers(world, now_ns, extras)
        push(world, event_key(now_ns + world.timer_tick_ns, source))
    elif clock == SAMPLE_TICK:
        sample_queues(world, now_ns, extras)
        push(world, event_key(now_ns + world.sample_tick_ns, source))
    elif extras is not None and clock == TRANSPORT_TICK:
        tick_transports(world, now_ns, extras)
        if world.receivers:
            call_receivers(world.receivers, world, TICK, NOBODY)
        push(world, event_key(now_ns + world.transport_tick_ns, source))


@njit
def handle_own_event(world: Any, number: int, now_ns: int, extras: Any) -> None:
    """Handle an event of a flow, a port or a host's clock of pulls (extended loop)."""
    n_flow_sources = SOURCES_PER_FLOW * world.n_flows
    if number < n_flow_sources:
        flow_id = number // SOURCES_PER_FLOW
        what = number % SOURCES_PER_FLOW
        if what == FLOW_SENDS:
            wake_flow(world, flow_id, now_ns, extras)
        else:
            expire_ack_timer(world, flow_id, what, now_ns, extras)
    elif number >= n_flow_sources + world.n_links:
        call_receivers(world.receivers, world, PULL, number - n_flow_sources - world.n_links)
    else:
        host_id = end_transmission(world, number - n_flow_sources, now_ns)
        if host_id != NOBODY and host_at(world.hosts, host_id).awake == 0:
            send_round_robin(world, host_id, now_ns, extras)


@njit
def forget_changing_hosts(world: Any) -> None:
    """Remove the events of hosts whose cap is about to change."""
    for host_id in range(world.n_hosts):
        if changes(world, host_id):
            remove(world, world.n_links + host_id)


@njit(forceinline=True)
def changes(world: Any, host_id: int) -> bool:
    """Return whether a host's cap is about to change."""
    return bool(
        host_at(world.hosts, host_id).cap_ns_per_byte_q20 != cap_at(world.caps, host_id).ns_per_byte_q20
    )


class Loop:
    """Entry points of the event loop, for Python and for compiled code that steps many worlds.

    Each is a C function of two int64, compiled when it is first used. Compiled code calls it by its address,
    which the world's record holds; Python calls it through ``ctypes``, which releases the interpreter lock.

    Args:
        extras: None compiles the plain loop, without the features that only some worlds need, such as pacing,
            telemetry and faults: numba removes the branches that are guarded by ``extras is not None``.
    """

    def __init__(self, extras: bool | None) -> None:
        self._extras = extras

    @cached_property
    def run_until(self) -> Any:
        """``(world_address, until_ns)``: handle all events before that time; 0 if the world halted."""
        extras = self._extras

        def run_until(world_address: int, until_ns: int) -> int:
            world = world_at(world_address, 0)
            n_links = world.n_links
            n_links_and_hosts = n_links + world.n_hosts
            hops = 0
            begin(world)
            while world.halted == 0:
                key = next_key(world)
                now_ns = key >> SOURCE_BITS
                if now_ns >= until_ns:
                    break
                world.now_ns = now_ns
                source = key & SOURCE_MASK
                take(world, source)
                if source < n_links:
                    hops += 1
                    arrive(world, source, now_ns, extras)
                elif source < n_links_and_hosts:
                    send_round_robin(world, source - n_links, now_ns, extras)
                elif extras is None or source < n_links_and_hosts + N_CLOCKS:
                    on_timer(world, source - n_links_and_hosts, now_ns, extras)
                else:
                    handle_own_event(world, source - n_links_and_hosts - N_CLOCKS, now_ns, extras)
            world.hops += hops
            end(world)
            if world.halted:
                return 0
            world.now_ns = until_ns
            for link_id in range(n_links):
                if extras is not None and world.n_classes:
                    integrate_queue(link_at(world.links, link_id), port_at(world.ports, link_id), until_ns)
                else:
                    integrate_backlog(link_at(world.links, link_id), until_ns)
            return 1

        return _entry_point(run_until)

    @cached_property
    def resume_senders(self) -> Any:
        """``(world_address, 0)``: resume sending at every host after the packet pool has grown."""
        extras = self._extras

        def resume_senders(world_address: int, _unused: int) -> int:
            world = world_at(world_address, 0)
            world.halted = 0
            for host_id in range(world.n_hosts):
                if host_at(world.hosts, host_id).awake == 0:
                    send_round_robin(world, host_id, world.now_ns, extras)
            return 1

        return _entry_point(resume_senders)

    @cached_property
    def cap_hosts(self) -> Any:
        """``(world_address, 0)``: enforce the world's ``caps``, from the next packet on.

        A host whose cap does not change is not affected, so setting the same cap again has no effect.
        """
        extras = self._extras

        def cap_hosts(world_address: int, _unused: int) -> int:
            world = world_at(world_address, 0)
            forget_changing_hosts(world)
            for host_id in range(world.n_hosts):
                if changes(world, host_id):
                    cap_ns_per_byte_q20 = cap_at(world.caps, host_id).ns_per_byte_q20
                    host_at(world.hosts, host_id).cap_ns_per_byte_q20 = cap_ns_per_byte_q20
                    send_round_robin(world, host_id, world.now_ns, extras)
            return 1

        return _entry_point(cap_hosts)


def _entry_point(function: Callable[[int, int], int]) -> Any:
    return c_function(types.int64(types.int64, types.int64), function)


def compile_loops() -> None:
    """Compile the functions that are not in the cache, so that processes started later find them there."""
    receivers_address()
    for loop in (PLAIN, EXTENDED):
        for entry_point in ("run_until", "cap_hosts", "resume_senders"):
            getattr(loop, entry_point)


PLAIN = Loop(None)
"""Plain loop, for worlds with nothing but tail-drop queues, a step mark and one ACK per packet."""

EXTENDED = Loop(True)
"""Extended loop, for all other worlds. With all of its features off it equals the plain loop."""
