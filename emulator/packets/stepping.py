"""Worlds moved by compiled code: what an environment that steps many of them at once calls.

The world's record holds the addresses of the engine's entry points: nothing of it is compiled into the
caller. Python is needed now and then: to give packets more memory, to let links fail, to record. Then the
caller hands the world back, and goes on when Python has moved it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sysgym.emulator.packets.layout import cap_at, world_at
from sysgym.emulator.packets.memory import call_entry_point
from sysgym.emulator.packets.wire import FIXED_POINT_BITS


@njit(forceinline=True)
def reaches(world_address: int, until_ns: int) -> bool:
    """Moves a world to a time; False: ``PacketNetwork.advance_to`` has to."""
    world = world_at(world_address, 0)
    if world.halted:
        return False
    if world.now_ns >= until_ns:
        return True
    if until_ns >= world.python_needed_ns:
        return False
    return bool(call_entry_point(world.run_until, world_address, until_ns) != 0)


@njit(forceinline=True)
def cap_rate(world_address: int, host_id: int, rate_bps: float) -> None:
    """Caps one host from the next packet on; ``inf``: no cap."""
    world = world_at(world_address, 0)
    cap_at(world.caps, host_id).ns_per_byte_q20 = int(np.rint(8e9 / rate_bps * 2.0**FIXED_POINT_BITS))
    call_entry_point(world.cap_hosts, world_address, 0)
