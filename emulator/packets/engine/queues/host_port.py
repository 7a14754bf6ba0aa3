"""Room in the port of a host: flows wait in the host until the port has room for their class.

A host's card accepts a few packets of each class ahead of time, so a class that is paused, or yields to
others, does not delay other classes. Part of the extended event loop.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.queues.class_queue import existing_class, queue_of
from sysgym.emulator.packets.engine.wire import serialisation_ns
from sysgym.emulator.packets.memory.records import host_at, link_at, port_at


@njit(forceinline=True)
def waits_for_port(world: Any, flow: Any) -> bool:
    """Return whether a flow's class waits until its host's port has room again."""
    if world.n_classes == 0:
        return False
    uplink = host_at(world.hosts, flow.src).uplink
    return bool(queue_of(world, uplink, existing_class(world, flow.priority)).wakes_host)


@njit(forceinline=True)
def fills_port(world: Any, flow: Any) -> bool:
    """Return whether the port has no room for a flow's class; if so, it wakes the host later."""
    if world.n_classes == 0:
        return False
    host = host_at(world.hosts, flow.src)
    number = existing_class(world, flow.priority)
    if held_ns(world, host.uplink, number) <= host.backlog_limit_ns:
        return False
    queue_of(world, host.uplink, number).wakes_host = 1
    return True


@njit(forceinline=True)
def wakes_host(world: Any, link_id: int, number: int) -> bool:
    """Return once whether a class is at most half full, if a host waits for room in the class."""
    queue = queue_of(world, link_id, number)
    if queue.wakes_host == 0:
        return False
    host = host_at(world.hosts, port_at(world.ports, link_id).sends_for_host)
    if held_ns(world, link_id, number) > host.backlog_limit_ns >> 1:
        return False
    queue.wakes_host = 0
    return True


@njit(forceinline=True)
def held_ns(world: Any, link_id: int, number: int) -> int:
    """Return the transmission time of a class's packets, including the whole packet being sent."""
    port = port_at(world.ports, link_id)
    held_bytes = queue_of(world, link_id, number).waiting_bytes
    if port.sending_class == number:
        held_bytes += port.sending_bytes
    return serialisation_ns(held_bytes, link_at(world.links, link_id).ns_per_byte_q20)
