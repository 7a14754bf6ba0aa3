"""DCTCP: window reduction by the fraction of marked packets (RFC 8257; Alizadeh et al., SIGCOMM 2010)."""

from __future__ import annotations

from typing import Any

from sysgym.emulator.packets.transports.base import (
    Transport,
    multiplicative_decrease,
    reno_increase,
    restart_from_one,
)

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


def on_ack(flow: Any, event: Any) -> None:
    """Update the marked fraction once per window, and reduce the window at most once per window.

    Otherwise grow as Reno (RFC 8257, 3.3).
    """
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
    if not event.marked:
        reno_increase(flow, event)
    elif flow.una > state[REDUCED_UP_TO] and not flow.in_recovery:
        flow.cwnd = max(flow.cwnd * (1.0 - 0.5 * state[ALPHA]), 2.0)
        flow.ssthresh = flow.cwnd
        state[REDUCED_UP_TO] = flow.nxt


def on_loss(flow: Any, event: Any) -> None:
    """Halve the window, as in Reno (RFC 8257, 3.5)."""
    multiplicative_decrease(flow, event, 0.5)


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet."""
    restart_from_one(flow, event, 0.5)


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
