"""DCQCN: rate control by congestion notifications (Zhu et al., SIGCOMM 2015).

A receiver of marked packets sends a notification (CNP), at most one in 50 us. The sender, the paper's
reaction point, cuts its rate by half of alpha, an estimate of the frequency of notifications. Without
notifications it increases the rate: halfway to the old rate (fast recovery), then beyond it (additive, later
hyper increase), on two clocks, a timer and a byte counter. Parameters are the paper's for 40 Gb/s.

Switches should mark by RED (5 kB, 200 kB, 1 % at 40 Gb/s), and flow control should prevent losses. With a
step mark and without flow control DCQCN also works, with larger oscillations. The paper's increments are for
40 Gb/s and taken here as fractions of the line rate. The paper does not treat losses; here a loss has the
same effect as a notification.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.memory.flow_record import NO_WINDOW_PACKETS
from sysgym.emulator.packets.transports.base import Transport, slow_line_stretch

CNP_INTERVAL_NS = 50_000  # N, least time between two notifications of a flow
GAIN = 1.0 / 256.0  # g
ALPHA_TIMER_NS = 55_000.0  # K, longer than N
RATE_TIMER_NS = 55_000.0  # T
BYTE_COUNTER_BYTES = 10e6  # B
FAST_RECOVERY_STEPS = 5.0  # F
ADDITIVE_FRACTION = 1e-3  # R_AI of the line rate: 40 Mb/s at 40 Gb/s
HYPER_FRACTION = 1e-2  # R_HAI of the line rate: ten times R_AI, as in the authors' later simulations
MIN_RATE_FRACTION = 1e-3  # of the line rate
TICK_S = 11e-6  # a fifth of the timers, which are also checked on every ACK

# Slots of flow.state.
RATE_BPS = 0  # R_C
TARGET_BPS = 1  # R_T
ALPHA = 2
ALPHA_DUE_NS = 3
RATE_DUE_NS = 4
TIMER_STEPS = 5  # since the last notification
BYTE_STEPS = 6
BYTES = 7  # since the counter's last step


@njit(forceinline=True)
def set_rate(flow: Any, rate_bps: float) -> None:
    """Set the rate, within the line rate and a thousandth of it."""
    flow.state[RATE_BPS] = min(max(rate_bps, MIN_RATE_FRACTION * flow.line_rate_bps), flow.line_rate_bps)
    flow.pacing_rate_bps = flow.state[RATE_BPS]


@njit
def increase(flow: Any) -> None:
    """Increase the rate by one step of either clock: fast recovery, additive or hyper increase."""
    state = flow.state
    steps = max(state[TIMER_STEPS], state[BYTE_STEPS])
    both = min(state[TIMER_STEPS], state[BYTE_STEPS])
    if both > FAST_RECOVERY_STEPS:
        state[TARGET_BPS] += HYPER_FRACTION * flow.line_rate_bps
    elif steps >= FAST_RECOVERY_STEPS:
        state[TARGET_BPS] += ADDITIVE_FRACTION * flow.line_rate_bps
    state[TARGET_BPS] = min(state[TARGET_BPS], flow.line_rate_bps)
    set_rate(flow, 0.5 * (state[TARGET_BPS] + state[RATE_BPS]))


@njit
def decrease(flow: Any, now_ns: int) -> None:
    """Reduce the rate by half of alpha, and restart all clocks."""
    state = flow.state
    state[TARGET_BPS] = state[RATE_BPS]
    set_rate(flow, state[RATE_BPS] * (1.0 - 0.5 * state[ALPHA]))
    state[ALPHA] += GAIN * (1.0 - state[ALPHA])
    state[TIMER_STEPS] = 0.0
    state[BYTE_STEPS] = 0.0
    state[BYTES] = 0.0
    state[ALPHA_DUE_NS] = now_ns + slow_line_stretch(flow) * ALPHA_TIMER_NS
    state[RATE_DUE_NS] = now_ns + slow_line_stretch(flow) * RATE_TIMER_NS


@njit
def run_timers(flow: Any, now_ns: int) -> None:
    """Run the timer steps that have become due, in the order of their times."""
    state = flow.state
    while state[ALPHA_DUE_NS] <= now_ns:
        state[ALPHA_DUE_NS] += slow_line_stretch(flow) * ALPHA_TIMER_NS
        state[ALPHA] *= 1.0 - GAIN
    while state[RATE_DUE_NS] <= now_ns:
        state[RATE_DUE_NS] += slow_line_stretch(flow) * RATE_TIMER_NS
        state[TIMER_STEPS] += 1.0
        increase(flow)


def on_start(flow: Any, event: Any) -> None:
    """Start at line rate, with an alpha of 1, so that the first notification halves the rate."""
    flow.cwnd = NO_WINDOW_PACKETS
    state = flow.state
    state[ALPHA] = 1.0
    state[TARGET_BPS] = flow.line_rate_bps
    state[ALPHA_DUE_NS] = event.now_ns + slow_line_stretch(flow) * ALPHA_TIMER_NS
    state[RATE_DUE_NS] = event.now_ns + slow_line_stretch(flow) * RATE_TIMER_NS
    set_rate(flow, flow.line_rate_bps)


def on_ack(flow: Any, event: Any) -> None:
    """Run the timers, react to a notification if there is one, and count bytes."""
    run_timers(flow, event.now_ns)
    if event.cnp:
        decrease(flow, event.now_ns)
        return
    state = flow.state
    state[BYTES] += event.acked_packets * flow.packet_bytes
    while state[BYTES] >= BYTE_COUNTER_BYTES:
        state[BYTES] -= BYTE_COUNTER_BYTES
        state[BYTE_STEPS] += 1.0
        increase(flow)


def on_tick(flow: Any, event: Any) -> None:
    """Run the timers of a flow that receives no ACKs."""
    run_timers(flow, event.now_ns)


def on_loss(flow: Any, event: Any) -> None:
    """React as to a notification (not in the paper)."""
    run_timers(flow, event.now_ns)
    decrease(flow, event.now_ns)


DCQCN = Transport(
    name="dcqcn",
    summary="DCQCN: the rate is cut by congestion notifications and climbs back by timer and byte counter",
    reference="Zhu et al., SIGCOMM 2015",
    on_start=on_start,
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_loss,
    on_tick=on_tick,
    tick_s=TICK_S,
    cnp_interval_ns=CNP_INTERVAL_NS,
    ecn_capable=True,
)
