"""DCTCP: window reduction by the fraction of marked packets (RFC 8257; Alizadeh et al., SIGCOMM 2010)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import (
    Transport,
    multiplicative_decrease,
    reno_increase,
    restart_from_one,
)
from sysgym.emulator.packets.transports.reno import on_loss_linux, on_timeout_linux

GAIN = 1.0 / 16.0  # g, RFC 8257, 4.2

# Slots of flow.state.
ALPHA = 0
ACKED = 1
MARKED = 2
WINDOW_END = 3  # alpha is updated when this number is acknowledged
REDUCED_UP_TO = 4  # at most one reduction per window


def on_start(flow: Any, event: Any) -> None:
    """Start with an alpha of 1, so that the first mark halves the window (RFC 8257)."""
    flow.state[ALPHA] = 1.0


@njit(forceinline=True)
def estimate_marked_fraction(flow: Any, event: Any) -> None:
    """Update alpha once per window (RFC 8257, 3.3, steps 1 to 7)."""
    state = flow.state
    state[ACKED] += event.acked_packets
    if event.marked:
        state[MARKED] += event.acked_packets
    if flow.una > state[WINDOW_END]:
        if state[ACKED] > 0.0:
            state[ALPHA] += GAIN * (state[MARKED] / state[ACKED] - state[ALPHA])
        state[ACKED] = 0.0
        state[MARKED] = 0.0
        state[WINDOW_END] = flow.nxt


@njit(forceinline=True)
def must_reduce(flow: Any, event: Any) -> bool:
    """Return whether a mark calls for a reduction: once per window, and not during a recovery."""
    if not event.marked or flow.in_recovery or flow.una <= flow.state[REDUCED_UP_TO]:
        return False
    flow.state[REDUCED_UP_TO] = flow.nxt
    return True


def on_ack(flow: Any, event: Any) -> None:
    """Reduce the window by half the marked fraction, or grow as Reno (RFC 8257, 3.3)."""
    estimate_marked_fraction(flow, event)
    if must_reduce(flow, event):
        flow.cwnd = max(flow.cwnd * (1.0 - 0.5 * flow.state[ALPHA]), 2.0)
        flow.ssthresh = flow.cwnd
    elif not event.marked:
        reno_increase(flow, event)


def on_loss(flow: Any, event: Any) -> None:
    """Halve the window, as in Reno (RFC 8257, 3.5)."""
    multiplicative_decrease(flow, event, 0.5)


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet."""
    restart_from_one(flow, event, 0.5)


def on_ack_linux(flow: Any, event: Any) -> None:
    """Reduce the window by half the marked fraction, rounded down to whole packets, or grow as Reno."""
    estimate_marked_fraction(flow, event)
    if must_reduce(flow, event):
        packets = int(flow.cwnd)
        flow.cwnd = max(float(packets - int(0.5 * flow.state[ALPHA] * packets)), 2.0)
        flow.ssthresh = flow.cwnd
    elif not event.marked:
        reno_increase(flow, event)


DCTCP = Transport(
    name="dctcp",
    summary="Data Center TCP: reduction in proportion to the fraction of ECN marks",
    reference="RFC 8257",
    on_start=on_start,
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_timeout,
    ecn_capable=True,
)
DCTCP = replace(
    DCTCP,
    linux=replace(DCTCP, on_ack=on_ack_linux, on_loss=on_loss_linux, on_timeout=on_timeout_linux),
)
