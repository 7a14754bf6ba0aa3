"""New Vegas: delay-based control that keeps at most about ten packets of each flow in the queue.

This is the algorithm of Lawrence Brakmo's TCP-NV (Linux 4.8 and later), written independently from its
description and constants. It compares the window with the window needed for the best delivery rate of the
last round trip at the minimum RTT.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import (
    Transport,
    multiplicative_decrease,
    restart_from_one,
)
from sysgym.emulator.packets.transports.slow_start import slow_start

PAD_PACKETS = 10.0  # allowed to queue
GROWTH_GAP_PACKETS = 2.0
DECREASE = 38.0 / 128.0  # of the excess, at a congestion decision
LOSS_FACTOR = 819.0 / 1024.0
MIN_SAMPLES_TO_SHRINK = 60.0
MIN_SAMPLES_TO_LEAVE_SLOW_START = 30.0
MIN_SAMPLES_TO_GROW = 20.0
MIN_ROUNDS_BETWEEN_DECISIONS = 2.0
ROUNDS_WITHOUT_SAMPLES = 10.0
MIN_CWND = 2.0
FIRST_MIN_RTT_RESET_NS = 2e9
MIN_RTT_RESET_NS = 5e9
SLOW_START_FOREVER = 1e15

# Slots of flow.state.
AVG_RTT_NS = 0
MIN_RTT_NS = 1
NEXT_MIN_RTT_NS = 2
MIN_RTT_RESET_AT_NS = 3
MAX_RATE = 4  # packets/ns, in this round trip
ROUND_END = 5
SAMPLES = 6  # since the last decision
ROUNDS = 7  # since the last decision
GROWTH_ALLOWED = 8
GROWTH_SHIFT = 9  # >= 0: Reno's growth divided by 2^shift
RESETS = 10


def on_start(flow: Any, event: Any) -> None:
    """Allow growth from the start."""
    flow.state[GROWTH_ALLOWED] = 1.0
    flow.state[MIN_RTT_RESET_AT_NS] = event.now_ns + FIRST_MIN_RTT_RESET_NS


@njit(forceinline=True)
def take_sample(flow: Any, event: Any) -> None:
    """Update the smoothed RTT, its minimum over about 5 s, and the round's best rate."""
    state = flow.state
    if state[AVG_RTT_NS] == 0.0:
        state[AVG_RTT_NS] = event.rtt_ns
        state[MIN_RTT_NS] = 2.0 * event.rtt_ns
        state[NEXT_MIN_RTT_NS] = 2.0 * event.rtt_ns
    else:
        state[AVG_RTT_NS] = 0.5 * (state[AVG_RTT_NS] + event.rtt_ns)
    avg_rtt_ns = state[AVG_RTT_NS]
    state[MIN_RTT_NS] = min(state[MIN_RTT_NS], avg_rtt_ns)
    state[NEXT_MIN_RTT_NS] = min(state[NEXT_MIN_RTT_NS], avg_rtt_ns)
    state[MAX_RATE] = max(state[MAX_RATE], event.in_flight_packets / avg_rtt_ns)
    state[SAMPLES] += 1.0
    if event.now_ns >= state[MIN_RTT_RESET_AT_NS]:
        state[MIN_RTT_NS] = state[NEXT_MIN_RTT_NS]
        state[NEXT_MIN_RTT_NS] = avg_rtt_ns * 2.0
        # Spread by the golden ratio over 0.75 to 1.25 of the period, so that flows do not reset together.
        state[RESETS] += 1.0
        spread = (0.618033988749895 * (state[RESETS] + flow.start_ns % 1009)) % 1.0
        state[MIN_RTT_RESET_AT_NS] = event.now_ns + MIN_RTT_RESET_NS * (0.75 + 0.5 * spread)


@njit(forceinline=True)
def decide_congested(flow: Any, max_window: float) -> None:
    """Reduce a window that exceeds the path's capacity plus the pad, if there are enough samples."""
    state = flow.state
    if state[ROUNDS] < MIN_ROUNDS_BETWEEN_DECISIONS:
        return
    needed = MIN_SAMPLES_TO_SHRINK if flow.ssthresh < SLOW_START_FOREVER else MIN_SAMPLES_TO_LEAVE_SLOW_START
    if state[SAMPLES] < needed:
        if state[ROUNDS] > ROUNDS_WITHOUT_SAMPLES:
            state[GROWTH_ALLOWED] = 0.0
        return
    excess = flow.cwnd - max_window
    flow.ssthresh = max(max_window, MIN_CWND)
    flow.cwnd = flow.cwnd - max(2.0, DECREASE * excess) if excess > 2.0 else max_window
    flow.cwnd = max(flow.cwnd, MIN_CWND)
    state[GROWTH_ALLOWED] = 0.0
    state[SAMPLES] = 0.0
    state[ROUNDS] = 0.0


@njit(forceinline=True)
def end_round(flow: Any) -> None:
    """Decide, once per round trip, whether the window fits the path."""
    state = flow.state
    state[ROUNDS] += 1.0
    max_window = state[MAX_RATE] * state[MIN_RTT_NS] + PAD_PACKETS
    if flow.cwnd > max_window:
        decide_congested(flow, max_window)
    elif flow.cwnd <= max_window - GROWTH_GAP_PACKETS and state[SAMPLES] >= MIN_SAMPLES_TO_GROW:
        state[GROWTH_ALLOWED] = 1.0
        state[GROWTH_SHIFT] = max(state[GROWTH_SHIFT] - 1.0, 0.0)
        state[SAMPLES] = 0.0
        state[ROUNDS] = 0.0
    state[MAX_RATE] = 0.0
    state[ROUND_END] = flow.nxt


def on_ack(flow: Any, event: Any) -> None:
    """Take a sample, decide once per round trip, and grow where allowed."""
    if event.rtt_sampled:
        take_sample(flow, event)
        if flow.una > flow.state[ROUND_END]:
            end_round(flow)
    if flow.in_recovery or event.duplicate or not event.window_limited:
        return
    if flow.state[GROWTH_ALLOWED] == 0.0:
        return
    if flow.cwnd < flow.ssthresh:
        slow_start(flow, event)
    else:
        flow.cwnd += event.acked_packets / (flow.cwnd * 2.0 ** flow.state[GROWTH_SHIFT])


def on_loss(flow: Any, event: Any) -> None:
    """Reduce the window to 80 %."""
    multiplicative_decrease(flow, event, LOSS_FACTOR)


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet, and grow more slowly from then on."""
    flow.state[GROWTH_SHIFT] = min(flow.state[GROWTH_SHIFT] + 1.0, 8.0)
    restart_from_one(flow, event, LOSS_FACTOR)


NEWVEGAS = Transport(
    name="newvegas",
    summary="TCP New Vegas: delay based, about ten packets of a flow in the queue",
    reference="Brakmo, TCP-NV (Linux tcp_nv), constants of its documentation",
    on_start=on_start,
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_timeout,
)
