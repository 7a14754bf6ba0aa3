"""Rounds of laws that decide once per round trip, with windows that may be fractions of a packet.

The kernel's form is ``emulator/linux/bpf/rounds.h``, with ``decisions/rtt_change.h``. A law that uses these
functions keeps the slots below in ``flow.state``; its own slots begin at :data:`OWN`.
"""

from __future__ import annotations

from typing import Any

from numba import njit

LEAST_WINDOW = 0.01  # packets

WINDOW = 0  # packets; may be a fraction of one, flow.cwnd is at least one
ALPHA = 1  # moving average of the marked fraction
ROUND_END = 2  # the round ends when this number is acknowledged
ACKED = 3  # of the round, like the next five
MARKED = 4
RTT_SUM_NS = 5
RTT_SAMPLES = 6
RTT_LEAST_NS = 7
LOST = 8
DELIVERED = 9  # so far, packets
RTT_BEFORE_NS = 10  # previous sample, for laws that call note_rtt_change()
RTT_CHANGE_NS = 11  # average change from one sample to the next
OWN = 12

RTT_CHANGE_GAIN = 1.0 / 16.0


@njit(forceinline=True)
def begin_round(flow: Any) -> None:
    """Reset the measurements for the next round."""
    state = flow.state
    state[ROUND_END] = flow.nxt
    state[ACKED] = 0.0
    state[MARKED] = 0.0
    state[RTT_SUM_NS] = 0.0
    state[RTT_SAMPLES] = 0.0
    state[RTT_LEAST_NS] = 0.0
    state[LOST] = 0.0


@njit(forceinline=True)
def count_ack(flow: Any, event: Any) -> None:
    """Add an ACK to the measurements of the round; a mark ends slow start."""
    state = flow.state
    state[ACKED] += event.acked_packets
    state[DELIVERED] += event.acked_packets
    if event.rtt_sampled:
        state[RTT_SUM_NS] += event.rtt_ns
        state[RTT_SAMPLES] += 1.0
        if state[RTT_LEAST_NS] == 0.0 or event.rtt_ns < state[RTT_LEAST_NS]:
            state[RTT_LEAST_NS] = event.rtt_ns
    if event.marked:
        state[MARKED] += event.acked_packets
        flow.ssthresh = min(flow.ssthresh, state[WINDOW])


@njit(forceinline=True)
def note_rtt_change(flow: Any, event: Any) -> None:
    """Update the average change of the round-trip time from one sample to the next."""
    state = flow.state
    if state[RTT_BEFORE_NS] > 0.0:
        change_ns = abs(event.rtt_ns - state[RTT_BEFORE_NS])
        state[RTT_CHANGE_NS] += RTT_CHANGE_GAIN * (change_ns - state[RTT_CHANGE_NS])
    state[RTT_BEFORE_NS] = event.rtt_ns


@njit(forceinline=True)
def rtt_change_packets(flow: Any) -> float:
    """Return the average change of the round-trip time, in packets at line rate."""
    return float(line_packets_per_ns(flow) * flow.state[RTT_CHANGE_NS])


@njit(forceinline=True)
def round_is_over(flow: Any) -> bool:
    """Return whether all packets of the round are acknowledged, with at least one RTT sample."""
    return bool(flow.una > flow.state[ROUND_END] and flow.state[RTT_SAMPLES] > 0.0)


@njit(forceinline=True)
def marked_share(flow: Any) -> float:
    """Return the marked fraction of the round's packets."""
    return float(flow.state[MARKED] / max(flow.state[ACKED], 1.0))


@njit(forceinline=True)
def line_packets_per_ns(flow: Any) -> float:
    """Return the line rate of the flow in packets per nanosecond."""
    return float(flow.line_rate_bps * 1e-9 / (8.0 * flow.packet_bytes))


@njit(forceinline=True)
def path_packets(flow: Any) -> float:
    """Return the bandwidth-delay product of the empty path at line rate, in packets."""
    return float(line_packets_per_ns(flow) * flow.base_rtt_ns)


@njit(forceinline=True)
def present_queue(flow: Any, event: Any) -> float:
    """Return the queue that corresponds to the ACK's round-trip time, in packets at line rate."""
    return float(line_packets_per_ns(flow) * max(event.rtt_ns - float(flow.base_rtt_ns), 0.0))


@njit(forceinline=True)
def present_rtt_ns(flow: Any) -> float:
    """Return the smoothed round-trip time, at least that of the empty path."""
    return max(flow.srtt_ns, float(flow.base_rtt_ns))


@njit(forceinline=True)
def pacing_rtt_ns(flow: Any, event: Any) -> float:
    """Return the round-trip time for pacing after an ACK: that of the empty path without an RTT sample.

    ACKs have no sample while losses are repaired without timestamps. After a time-out, the smoothed
    round-trip time is still that of the queue before the time-out.
    """
    return present_rtt_ns(flow) if event.rtt_sampled else float(flow.base_rtt_ns)


@njit(forceinline=True)
def bound_window(flow: Any, window: float, most: float, together: int = 1) -> None:
    """Set the window within its bounds; at least ``together`` packets may be in flight."""
    flow.state[WINDOW] = min(max(window, LEAST_WINDOW), most)
    flow.cwnd = max(flow.state[WINDOW], together)


@njit(forceinline=True)
def pace_window(flow: Any, pace: float, rtt_ns: float, together: int = 1) -> None:
    """Pace at ``pace`` windows per round trip; below ``together`` packets, at one window per round trip.

    Below ``together`` packets, that many packets leave together.
    """
    small = flow.state[WINDOW] < together
    if small:
        pace = 1.0
    flow.pacing_burst_packets = together if small else 1
    flow.pacing_rate_bps = pace * 8e9 * flow.packet_bytes * flow.state[WINDOW] / rtt_ns


@njit(forceinline=True)
def grow_window(flow: Any, event: Any, growth: float) -> None:
    """Double in slow start, else grow by ``growth`` packets per round trip, if window-limited."""
    window = flow.state[WINDOW]
    if flow.in_recovery or event.duplicate or not (event.window_limited or window < 1.0):
        return
    if window < flow.ssthresh:
        flow.state[WINDOW] = window + min(event.acked_packets, 2)
    else:
        flow.state[WINDOW] = window + growth * min(event.acked_packets / max(window, 1.0), 1.0)
