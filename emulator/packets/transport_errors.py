"""Error messages for transports that have halted a world."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.memory.numba_records import RAISED_UNKNOWN, raise_known
from sysgym.emulator.packets.memory.records import STATE_SLOTS
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.transports import Transport
from sysgym.scenarios.errors import TransportError

_raise_known: Any = raise_known

CALLBACKS = ("on_start", "on_ack", "on_loss", "on_timeout", "on_tick")
"""Names by number, as the event loop has them."""


def transport_failure(state: State, topology: Topology, transports: tuple[Transport, ...]) -> TransportError:
    """Says what halted a world.

    Args:
        state: The world, of which one flow's transport has failed. What it knows of an exception is used up.
        topology: Its network.
        transports: The common transport, then flows' own.
    """
    flow_id = int(np.flatnonzero(state.flows["failed"])[0])
    flow, names = state.flows[flow_id], topology.node_names
    transport = transports[flow["transport"]]
    callback = CALLBACKS[state.world["failed_callback"][0]]
    code = getattr(transport, callback).__code__
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
    """What is wrong with a flow's window or rate, and what would be right."""
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
    """The exception that numba has kept for whoever called the callback, with the line that raised it."""
    if known == RAISED_UNKNOWN:
        return None
    try:
        _raise(known)
    except Exception as error:  # whatever a user's function raises
        return error
    raise AssertionError("what a callback has raised was not raised again")


@njit
def _raise_compiled(known: int) -> None:
    _raise_known(known)


_raise: Any = _raise_compiled
