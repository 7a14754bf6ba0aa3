"""Rounds of laws that decide once per round trip, over a window that may be a fraction of a packet.

The kernel's form is ``emulator/linux/bpf/rounds.h``, with ``decisions/rtt_change.h``. A law that uses these
functions keeps the slots below in ``flow.state``, and its own from :data:`OWN` on.
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
RTT_BEFORE_NS = 10  # the last sample, for laws that ask for changes
RTT_CHANGE_NS = 11  # average of changes from a sample to the next
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
    """Average the change of the round trip since the last sample."""
    state = flow.state
    if state[RTT_BEFORE_NS] > 0.0:
        change_ns = abs(event.rtt_ns - state[RTT_BEFORE_NS])
        state[RTT_CHANGE_NS] += RTT_CHANGE_GAIN * (change_ns - state[RTT_CHANGE_NS])
    state[RTT_BEFORE_NS] = event.rtt_ns


@njit(forceinline=True)
def rtt_change_packets(flow: Any) -> float:
    """Return the average change of the round trip, in packets of the line."""
    return float(line_packets_per_ns(flow) * flow.state[RTT_CHANGE_NS])


@njit(forceinline=True)
def round_is_over(flow: Any) -> bool:
    """Return whether all packets of the round are acknowledged, and one of them gave a round trip."""
    return bool(flow.una > flow.state[ROUND_END] and flow.state[RTT_SAMPLES] > 0.0)


@njit(forceinline=True)
def marked_share(flow: Any) -> float:
    """Return the marked fraction of the round's packets."""
    return float(flow.state[MARKED] / max(flow.state[ACKED], 1.0))


@njit(forceinline=True)
def line_packets_per_ns(flow: Any) -> float:
    """Return the packets that the flow's line sends in a nanosecond."""
    return float(flow.line_rate_bps * 1e-9 / (8.0 * flow.packet_bytes))


@njit(forceinline=True)
def path_packets(flow: Any) -> float:
    """Return the packets of the flow's line that the empty path holds."""
    return float(line_packets_per_ns(flow) * flow.base_rtt_ns)


@njit(forceinline=True)
def present_queue(flow: Any, event: Any) -> float:
    """Return the queue, in packets of the line, that the ACK's round trip tells of."""
    return float(line_packets_per_ns(flow) * max(event.rtt_ns - float(flow.base_rtt_ns), 0.0))


@njit(forceinline=True)
def present_rtt_ns(flow: Any) -> float:
    """Return the smoothed round trip, or that of the empty path if it is longer."""
    return max(flow.srtt_ns, float(flow.base_rtt_ns))


@njit(forceinline=True)
def pacing_rtt_ns(flow: Any, event: Any) -> float:
    """Return the round trip by which to pace after an ACK: that of the empty path if the ACK gives none.

    So it is while losses are repaired without timestamps. After a time-out the smoothed round trip is that of
    the queue before it.
    """
    return present_rtt_ns(flow) if event.rtt_sampled else float(flow.base_rtt_ns)


@njit(forceinline=True)
def bound_window(flow: Any, window: float, most: float, together: int = 1) -> None:
    """Set the window within its bounds; at least ``together`` packets are in flight at a time."""
    flow.state[WINDOW] = min(max(window, LEAST_WINDOW), most)
    flow.cwnd = max(flow.state[WINDOW], together)


@njit(forceinline=True)
def pace_window(flow: Any, pace: float, rtt_ns: float, together: int = 1) -> None:
    """Pace the window at so many windows per round trip; below ``together`` packets, at the window's rate.

    So many packets then leave together.
    """
    small = flow.state[WINDOW] < together
    if small:
        pace = 1.0
    flow.pacing_burst_packets = together if small else 1
    flow.pacing_rate_bps = pace * 8e9 * flow.packet_bytes * flow.state[WINDOW] / rtt_ns


@njit(forceinline=True)
def grow_window(flow: Any, event: Any, growth: float) -> None:
    """Double in slow start, else grow by so many packets per round trip, if the flow is window-limited."""
    window = flow.state[WINDOW]
    if flow.in_recovery or event.duplicate or not (event.window_limited or window < 1.0):
        return
    if window < flow.ssthresh:
        flow.state[WINDOW] = window + min(event.acked_packets, 2)
    else:
        flow.state[WINDOW] = window + growth * min(event.acked_packets / max(window, 1.0), 1.0)
