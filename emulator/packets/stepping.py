"""Control of worlds by compiled code: caps of hosts, and time that passes.

The world's record holds the addresses of the engine's entry points: nothing of it is compiled into the
caller. Python is needed now and then: to give packets more memory, to let links fail, to record. Then the
caller hands the world back, and goes on when Python has moved it.
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
    """Return the moment that is so much later, to the nearest ns."""
    return time_ns + int(np.rint(duration_s * 1e9))


@njit(forceinline=True)
def reaches(world_address: int, until_ns: int) -> bool:
    """Move a world to a time; False: ``PacketNetwork.advance_to`` has to."""
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
    """Ask for a host's cap, ``inf`` for none; :func:`enforce_caps` brings it into force."""
    cap = cap_at(world_at(world_address, 0).caps, host_id)
    cap.ns_per_byte_q20 = int(ns_per_byte_q20(rate_bps))


@njit(forceinline=True)
def enforce_caps(world_address: int) -> None:
    """Bring the caps that were asked for into force, from each host's next packet on."""
    call_entry_point(world_at(world_address, 0).cap_hosts, world_address, 0)


@cached_kernel()
def cap_hosts(world_address: int, rates_bps: Any) -> None:
    """Cap all hosts of a world, shape (n_hosts,), bit/s; ``inf``: no cap."""
    for host_id in range(len(rates_bps)):
        request_cap(world_address, host_id, rates_bps[host_id])
    enforce_caps(world_address)
