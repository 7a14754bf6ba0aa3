"""Calls of the event loop into the code for receiver-driven flows.

Few networks have such flows, and their code would be a third of the extended loop. It is therefore a separate
function (:mod:`~sysgym.emulator.packets.engine.receivers.handler`), compiled for the first network that needs
it; the world's record holds its address.
"""

from __future__ import annotations

import numba
from numba import types

from sysgym.emulator.packets.memory.numba_records import function_caller
from sysgym.emulator.packets.memory.records import WORLD

ANSWER, MESSAGE, PULL, TICK = range(4)
"""Events: an ACK or grant reaches its sender, a packet reaches its receiver, a pull is due, a tick is due."""

HANDLER = types.void(numba.from_dtype(WORLD), types.int64, types.int64)
"""Signature of the handler: the world, the event, and a packet's slot, a host or nothing."""

call_receivers = function_caller(HANDLER)
"""``call_receivers(world.receivers, world, event, number)``."""
