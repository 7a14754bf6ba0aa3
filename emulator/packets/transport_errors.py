"""Error messages for transports that halted a world."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.memory.flow_record import STATE_SLOTS
from sysgym.emulator.packets.memory.numba_records import RAISED_UNKNOWN, raise_known
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.transports import Transport
from sysgym.scenarios.errors import TransportError

_raise_known: Any = raise_known

CALLBACKS = (
    "on_start",
    "on_ack",
    "on_loss",
    "on_timeout",
    "on_tick",
    "on_restart",
    "on_grant",
    "receiver.on_data",
    "receiver.on_tick",
)
"""Names of the callbacks by their number in the event loop."""


def transport_failure(state: State, topology: Topology, transports: tuple[Transport, ...]) -> TransportError:
    """Return the error for a transport that halted a world.

    Args:
        state: World in which one flow's transport has failed; its record of an exception is consumed.
        topology: Network of the world.
        transports: The common transport, then the flows' own.
    """
    flow_id = int(np.flatnonzero(state.flows["failed"])[0])
    flow, names = state.flows[flow_id], topology.node_names
    transport = transports[flow["transport"]]
    callback = CALLBACKS[state.world["failed_callback"][0]]
    code = attrgetter(callback)(transport).__code__
    known, state.world["raised"] = int(state.world["raised"][0]), 0
    cause = _exception(known) if known != 0 else None
    got, expected = _wrote(flow) if known == 0 else (_words(cause), "a callback that raises nothing")
    failure = TransportError(
        transport.name,
        flow=flow_id,
        ends=f"{names[flow['src']]} to {names[flow['dst']]}",
        callback=f"{callback} ({code.co_filename}:{code.co_firstlineno})",
        time_s=float(state.world["now_ns"][0]) * 1e-9,
        got=got,
        expected=expected,
    )
    failure.__cause__ = cause
    return failure


def _wrote(flow: Any) -> tuple[str, str]:
    """Return the invalid window or rate of a flow, and the valid range, in words."""
    if not (np.isfinite(flow["cwnd"]) and flow["cwnd"] >= 0.0):
        return f"flow.cwnd = {flow['cwnd']}", "a finite window of 0 packets or more"
    if not flow["ssthresh"] >= 0.0:
        return f"flow.ssthresh = {flow['ssthresh']}", "a threshold of 0 packets or more; inf: none"
    return f"flow.pacing_rate_bps = {flow['pacing_rate_bps']}", "a finite rate, 0 bit/s or more"


def _words(error: BaseException | None) -> str:
    if error is None:
        return "an exception"
    hint = f" (flow.state has {STATE_SLOTS} numbers)" if isinstance(error, IndexError) else ""
    return type(error).__name__ + (f": {error}" if str(error) else "") + hint


def _exception(known: int) -> BaseException | None:
    """Return the exception that numba kept for the caller of the callback, with the line that raised it."""
    if known == RAISED_UNKNOWN:
        return None
    try:
        _raise(known)
    except Exception as error:  # a user's function may raise anything
        return error
    raise AssertionError("what a callback has raised was not raised again")


@njit
def _raise_compiled(known: int) -> None:
    _raise_known(known)


_raise: Any = _raise_compiled
