"""Swift: window control that keeps the fabric delay around a target (Kumar et al., SIGCOMM 2020).

The window increases additively while the delay is below the target, and decreases in proportion to the excess
at most once per round trip (section 3.2, algorithm 1). Windows below one packet are paced (3.4). The target
grows with the length of the path and for flows with small windows (3.5).

Google published only one of the constants, the smallest window (3.4). The others are the defaults of htsim,
guesses of its authors. They are the transport's parameters, so a search over them needs no compilation. The
target's base, the delay of the empty path, is known exactly here: ``flow.base_rtt_ns``. The paper's second
window, for delay in the hosts (3.3), is left out, because simulated hosts have no such delay. The time for
which a receiver delays an ACK does not indicate congestion and is subtracted from the delay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import Transport, parameter, slow_line_stretch
from sysgym.emulator.packets.transports.constants import Constant, checked_values

CONSTANTS = (
    Constant("additive_increase", 1.0, 0.05, 8.0, "ai, packets a round trip"),
    Constant("beta", 0.8, 0.05, 2.0, "decrease over the relative excess"),
    Constant("max_decrease", 0.5, 0.05, 0.9, "max_mdf, largest decrease"),
    Constant(
        "per_hop_ns",
        20_000.0 / 6.55,
        50.0,
        40_000.0,
        "h-bar, queueing allowed at a hop, ns; htsim: a base of 20 us / 6.55",
    ),
    Constant(
        "flow_scaling_range_ns",
        100_000.0,
        500.0,
        1e6,
        "fs_range, most that small windows add to the target, ns; htsim: five times the base",
    ),
    Constant("flow_scaling_min_cwnd", 0.1, 0.01, 4.0, "fs_min_cwnd, packets, at which they add all of it"),
    Constant(
        "flow_scaling_max_cwnd", 100.0, 8.0, 2000.0, "fs_max_cwnd, packets, from which they add nothing"
    ),
)
"""Constants of the law, in the order of the transport's parameters."""

(
    ADDITIVE_INCREASE, BETA, MAX_DECREASE, PER_HOP_NS, FLOW_SCALING_RANGE_NS, FLOW_SCALING_MIN_CWND,
    FLOW_SCALING_MAX_CWND,
) = range(len(CONSTANTS))  # fmt: skip

MIN_CWND = 0.001  # packets (3.4)
TIMEOUTS_TO_RESET = 5.0  # RETX_RESET_THRESHOLD

# Slots of flow.state.
CWND = 0  # may be a fraction of a packet; flow.cwnd is at least one
DECREASED_AT_NS = 1
TIMEOUTS = 2  # in a row
FABRIC_DELAY_NS = 3  # of the last ACK


@njit(forceinline=True)
def target_delay_ns(flow: Any, event: Any) -> float:
    """Return the target: the empty path's delay, a share per hop, and more for small windows (3.5)."""
    range_ns = parameter(event, FLOW_SCALING_RANGE_NS)
    least = 1.0 / math.sqrt(parameter(event, FLOW_SCALING_MAX_CWND))
    alpha_ns = range_ns / (1.0 / math.sqrt(parameter(event, FLOW_SCALING_MIN_CWND)) - least)
    beta_ns = -alpha_ns / math.sqrt(parameter(event, FLOW_SCALING_MAX_CWND))
    scaling_ns = alpha_ns / math.sqrt(flow.state[CWND]) + beta_ns
    scaling_ns = max(min(scaling_ns, range_ns), 0.0)
    hops_ns = event.hops * parameter(event, PER_HOP_NS)
    return float(flow.base_rtt_ns + slow_line_stretch(flow) * (hops_ns + scaling_ns))


@njit(forceinline=True)
def set_window(flow: Any, cwnd: float, delay_ns: float) -> None:
    """Set the window; below one packet, send one at a time with gaps of RTT / cwnd (3.4)."""
    cwnd = max(cwnd, MIN_CWND)
    flow.state[CWND] = cwnd
    flow.cwnd = max(cwnd, 1.0)
    flow.pacing_rate_bps = 8e9 * flow.packet_bytes * cwnd / delay_ns if cwnd < 1.0 else 0.0


@njit(forceinline=True)
def may_decrease(flow: Any, event: Any) -> bool:
    """Return whether a round trip has passed since the last decrease."""
    return event.now_ns - flow.state[DECREASED_AT_NS] >= max(flow.srtt_ns, flow.base_rtt_ns)


@njit(forceinline=True)
def decrease(flow: Any, event: Any, factor: float) -> None:
    """Multiply the window, unless it decreased within the last round trip."""
    if may_decrease(flow, event):
        flow.state[DECREASED_AT_NS] = event.now_ns
        set_window(flow, flow.state[CWND] * factor, max(flow.state[FABRIC_DELAY_NS], flow.base_rtt_ns))


def on_start(flow: Any, event: Any) -> None:
    """Start with the scenario's initial window."""
    flow.state[CWND] = flow.cwnd
    flow.state[DECREASED_AT_NS] = -1e18


def on_ack(flow: Any, event: Any) -> None:
    """Apply algorithm 1, on receiving an ACK."""
    state = flow.state
    if event.rtt_sampled:
        state[FABRIC_DELAY_NS] = float(event.rtt_ns - event.endpoint_delay_ns)
    delay_ns = state[FABRIC_DELAY_NS] if event.rtt_sampled else max(state[FABRIC_DELAY_NS], flow.base_rtt_ns)
    if event.acked_packets > 0:
        state[TIMEOUTS] = 0.0
    target_ns = target_delay_ns(flow, event)
    if delay_ns < target_ns:
        if event.window_limited or state[CWND] < 1.0:
            share = event.acked_packets / state[CWND] if state[CWND] >= 1.0 else float(event.acked_packets)
            set_window(flow, state[CWND] + parameter(event, ADDITIVE_INCREASE) * share, delay_ns)
    else:
        factor = 1.0 - parameter(event, BETA) * (delay_ns - target_ns) / delay_ns
        decrease(flow, event, max(factor, 1.0 - parameter(event, MAX_DECREASE)))


def on_loss(flow: Any, event: Any) -> None:
    """Apply algorithm 1, on fast recovery."""
    flow.state[TIMEOUTS] = 0.0
    decrease(flow, event, 1.0 - parameter(event, MAX_DECREASE))


def on_timeout(flow: Any, event: Any) -> None:
    """Apply algorithm 1, on a retransmission time-out; the fifth in a row sets the smallest window."""
    flow.state[TIMEOUTS] += 1.0
    if flow.state[TIMEOUTS] >= TIMEOUTS_TO_RESET:
        flow.state[DECREASED_AT_NS] = event.now_ns
        set_window(flow, MIN_CWND, max(flow.state[FABRIC_DELAY_NS], flow.base_rtt_ns))
    else:
        decrease(flow, event, 1.0 - parameter(event, MAX_DECREASE))


def swift_transport(parameters: Iterable[float], name: str = "swift") -> Transport:
    """Return the transport with the given constants.

    Args:
        parameters: A value for each of :data:`CONSTANTS`.
        name: Name of the transport.

    Raises:
        SysgymError: If their number is wrong, or one is outside its bounds.
    """
    return Transport(
        name=name,
        summary=(
            "Swift: delay around a target that grows with hops and for small windows; paces below one packet"
        ),
        reference="Kumar et al., SIGCOMM 2020, algorithm 1",
        on_start=on_start,
        on_ack=on_ack,
        on_loss=on_loss,
        on_timeout=on_timeout,
        overwrites_window=True,
        parameters=checked_values(name, CONSTANTS, parameters),
        constants=CONSTANTS,
    )


SWIFT = swift_transport(constant.value for constant in CONSTANTS)
