"""CUBIC: the window is a cubic function of the time since the last loss (RFC 9438)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import (
    Transport,
    multiplicative_decrease,
    reduce_whole_packets,
    restart_from_one,
    restart_in_whole_packets,
)
from sysgym.emulator.packets.transports.slow_start import hystart, slow_start

C = 0.4  # packets/s^3, RFC 9438, 5.1
BETA = 0.7  # multiplicative decrease, RFC 9438, 4.6
BETA_LINUX = 717.0 / 1024.0  # the same in Linux, which reduces 10 packets to 7
ALPHA = 3.0 * (1.0 - BETA) / (1.0 + BETA)  # Reno-friendly increase, RFC 9438, 4.3

# Slots of flow.state. Times in seconds, windows in packets.
W_MAX = 0
K_S = 1
EPOCH_START_NS = 2  # 0: congestion avoidance has not begun
W_EST = 3
CWND_PRIOR = 4
LAST_ACK_NS = 5


@njit(forceinline=True)
def w_cubic(flow: Any, elapsed_s: float) -> float:
    """Return the cubic window (RFC 9438, figure 1)."""
    distance_s = elapsed_s - flow.state[K_S]
    return C * distance_s * distance_s * distance_s + flow.state[W_MAX]


@njit(forceinline=True)
def begin_epoch(flow: Any, now_ns: int) -> None:
    """Begin a congestion avoidance stage at the present window (RFC 9438, 4.2)."""
    state = flow.state
    state[EPOCH_START_NS] = now_ns
    state[W_EST] = flow.cwnd
    state[W_MAX] = max(state[W_MAX], flow.cwnd)
    state[K_S] = ((state[W_MAX] - flow.cwnd) / C) ** (1.0 / 3.0)


@njit(forceinline=True)
def grow(flow: Any, event: Any, alpha_at_prior: float) -> None:
    """Grow as in slow start, then to the larger of the cubic and the Reno window (RFC 9438, 4.2 to 4.5).

    Args:
        flow: The flow.
        event: The ACK.
        alpha_at_prior: Growth of the Reno window once it reaches the window before the last loss, packets per
            round trip.
    """
    state = flow.state
    since_last_ack_ns = event.now_ns - state[LAST_ACK_NS]
    state[LAST_ACK_NS] = event.now_ns
    if flow.in_recovery or event.duplicate or event.acked_packets == 0:
        return
    hystart(flow, event)
    if not event.window_limited:
        if state[EPOCH_START_NS] > 0.0:  # app-limited time does not count (RFC 9438, 5.8)
            state[EPOCH_START_NS] += since_last_ack_ns
        return
    if flow.cwnd < flow.ssthresh:
        slow_start(flow, event)
        return
    if state[EPOCH_START_NS] == 0.0:
        begin_epoch(flow, event.now_ns)
    elapsed_s = (event.now_ns - state[EPOCH_START_NS]) * 1e-9
    alpha = ALPHA if state[W_EST] < state[CWND_PRIOR] else alpha_at_prior
    state[W_EST] += alpha * event.acked_packets / flow.cwnd
    if w_cubic(flow, elapsed_s) < state[W_EST]:
        flow.cwnd = max(flow.cwnd, state[W_EST])
    else:
        target = w_cubic(flow, elapsed_s + flow.srtt_ns * 1e-9)
        target = min(max(target, flow.cwnd), 1.5 * flow.cwnd)
        flow.cwnd += event.acked_packets * (target - flow.cwnd) / flow.cwnd


def on_ack(flow: Any, event: Any) -> None:
    """Grow; beyond the window before the last loss, the Reno window grows by a packet (RFC 9438, 4.3)."""
    grow(flow, event, 1.0)


@njit(forceinline=True)
def remember_congestion(flow: Any) -> None:
    """Apply fast convergence and end the epoch (RFC 9438, 4.6 and 4.7)."""
    state = flow.state
    state[CWND_PRIOR] = flow.cwnd
    state[W_MAX] = flow.cwnd * (1.0 + BETA) / 2.0 if flow.cwnd < state[W_MAX] else flow.cwnd
    state[EPOCH_START_NS] = 0.0


def on_loss(flow: Any, event: Any) -> None:
    """Reduce the window to 70 %."""
    remember_congestion(flow)
    multiplicative_decrease(flow, event, BETA)


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet; the next stage begins at the plateau of its curve (RFC 9438, 4.8)."""
    remember_congestion(flow)
    flow.state[W_MAX] = 0.0
    restart_from_one(flow, event, BETA)


def on_ack_linux(flow: Any, event: Any) -> None:
    """Grow; the Reno window keeps its growth beyond the window before the last loss, as in Linux."""
    grow(flow, event, ALPHA)


def on_loss_linux(flow: Any, event: Any) -> None:
    """Reduce the window to 70 %, in whole packets."""
    remember_congestion(flow)
    reduce_whole_packets(flow, BETA_LINUX)


def on_timeout_linux(flow: Any, event: Any) -> None:
    """Start again from one packet; the threshold is a number of whole packets."""
    remember_congestion(flow)
    flow.state[W_MAX] = 0.0
    restart_in_whole_packets(flow, BETA_LINUX)


def on_restart(flow: Any, event: Any) -> None:
    """Exclude the idle time from the curve, like app-limited time (RFC 9438, 5.8)."""
    state = flow.state
    if state[EPOCH_START_NS] > 0.0:
        state[EPOCH_START_NS] = min(
            state[EPOCH_START_NS] + event.now_ns - flow.idle_since_ns, float(event.now_ns)
        )
    state[LAST_ACK_NS] = event.now_ns


CUBIC = Transport(
    name="cubic",
    summary="CUBIC, the default of Linux: cubic growth around the last loss",
    reference="RFC 9438",
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_timeout,
    on_restart=on_restart,
)
CUBIC = replace(
    CUBIC, linux=replace(CUBIC, on_ack=on_ack_linux, on_loss=on_loss_linux, on_timeout=on_timeout_linux)
)
