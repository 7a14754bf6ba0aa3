"""Stepping of worlds by compiled code: rate caps of hosts, and the passage of time.

The world's record holds the addresses of the engine's entry points, so the engine is not compiled into the
caller. Python is needed occasionally: to enlarge the packet memory, to change links, to record. Then the
caller returns control, and continues when Python has advanced the world.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.engine.wire import ns_per_byte_q20
from sysgym.emulator.packets.memory.numba_records import call_entry_point
from sysgym.emulator.packets.memory.records import cap_at, world_at


@njit(forceinline=True)
def now_ns(world_address: int) -> int:
    """Return a world's simulated time."""
    time_ns: int = world_at(world_address, 0).now_ns
    return time_ns


@njit(forceinline=True)
def after_ns(time_ns: int, duration_s: float) -> int:
    """Return the time ``duration_s`` later, to the nearest ns."""
    return time_ns + int(np.rint(duration_s * 1e9))


@njit(forceinline=True)
def reaches(world_address: int, until_ns: int) -> bool:
    """Advance a world to a time; return False if ``PacketNetwork.advance_to`` has to do it."""
    world = world_at(world_address, 0)
    if world.halted:
        return False
    if world.now_ns >= until_ns:
        return True
    if until_ns >= world.python_needed_ns:
        return False
    return bool(call_entry_point(world.run_until, world_address, until_ns) != 0)


@njit(forceinline=True)
def request_cap(world_address: int, host_id: int, rate_bps: float) -> None:
    """Request a host's cap, ``inf`` for none; :func:`enforce_caps` brings it into force."""
    cap = cap_at(world_at(world_address, 0).caps, host_id)
    cap.ns_per_byte_q20 = int(ns_per_byte_q20(rate_bps))


@njit(forceinline=True)
def enforce_caps(world_address: int) -> None:
    """Bring the requested caps into force, from each host's next packet on."""
    call_entry_point(world_at(world_address, 0).cap_hosts, world_address, 0)


@cached_kernel()
def cap_hosts(world_address: int, rates_bps: Any) -> None:
    """Set the caps of all hosts of a world, shape (n_hosts,), bit/s; ``inf``: no cap."""
    for host_id in range(len(rates_bps)):
        request_cap(world_address, host_id, rates_bps[host_id])
    enforce_caps(world_address)
