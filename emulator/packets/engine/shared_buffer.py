"""Memory that all ports of a switch share, with dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 1998).

A port accepts a packet if its queue is at most ``alpha`` times the free memory, and the packet fits into the
free memory. Thus n equally loaded ports hold ``alpha / (1 + n alpha)`` of the memory each: a single busy port
may hold much, and some memory always remains for ports that were idle. Memory is counted in bytes, not in
cells, and a byte is free when it has been sent. The ports of hosts have no part in it. Part of the extended
event loop only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.packets.engine.wire import FIXED_POINT_BITS
from sysgym.emulator.packets.memory.records import (
    MEMORY,
    NOBODY,
    link_at,
    memory_at,
    port_at,
    route_hop_at,
)
from sysgym.emulator.packets.topology import Topology


def switch_memories(topology: Topology) -> tuple[NDArray[np.void], NDArray[np.int32]]:
    """Return the memory of every switch, shape (n_switches,), and the links from switches, by switch."""
    ports = topology.switch_ports[np.argsort(topology.link_source[topology.switch_ports], kind="stable")]
    memories = np.zeros(topology.n_switches, MEMORY)
    n_ports = np.bincount(topology.link_source[ports] - topology.n_hosts, minlength=topology.n_switches)
    memories["n_ports"] = n_ports
    memories["first_port"] = np.cumsum(n_ports) - n_ports
    return memories, ports.astype(np.int32)


@njit(forceinline=True)
def bytes_of(drain_ns: int, link: Any) -> int:
    """Return the length of a queue with a given drain time, bytes."""
    return int((drain_ns << FIXED_POINT_BITS) // link.ns_per_byte_q20)


@njit
def held_bytes(world: Any, memory: Any, now_ns: int) -> int:
    """Return the bytes in the queues of a switch now."""
    total_bytes = 0
    for place in range(memory.first_port, memory.first_port + memory.n_ports):
        link = link_at(world.links, route_hop_at(world.memory_ports, place).link)
        total_bytes += bytes_of(max(link.busy_until_ns - now_ns, 0), link)
    return total_bytes


@njit(forceinline=True)
def allows(world: Any, queue_bytes: int, size_bytes: int, held_bytes: int) -> bool:
    """Return whether a queue may take a packet while the switch holds ``held_bytes``."""
    free_bytes = world.shared_buffer_bytes - held_bytes
    return size_bytes <= free_bytes and queue_bytes <= world.shared_buffer_alpha * free_bytes


@njit
def takes_memory(world: Any, link: Any, link_id: int, backlog_ns: int, size_bytes: int, now_ns: int) -> bool:
    """Reserve memory of the switch for a packet that joins a queue; return whether the port may have it.

    Between two accepted packets the bytes in a switch only decrease, so the last count plus the bytes
    accepted since is an upper bound. The ports are recounted only when the bound would refuse a packet.
    """
    number = port_at(world.ports, link_id).memory
    if number == NOBODY:
        return True
    memory = memory_at(world.memories, number)
    queue_bytes = bytes_of(backlog_ns, link)
    if not allows(world, queue_bytes, size_bytes, memory.bound_bytes):
        memory.bound_bytes = held_bytes(world, memory, now_ns)
        if not allows(world, queue_bytes, size_bytes, memory.bound_bytes):
            return False
    memory.bound_bytes += size_bytes
    return True
