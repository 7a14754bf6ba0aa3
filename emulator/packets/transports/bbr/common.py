"""Common parts of all versions of BBR: rounds, send quanta, aggregated ACKs, the window before losses.

Sources: draft-cardwell-iccrg-bbr-congestion-control-00 (version 1), draft-ietf-ccwg-bbr-06 (version 3) and
Linux. The versions share the first slots of ``flow.state``; their own begin at :data:`FIRST_OWN`.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

STARTUP_GROWTH = 1.25  # the pipe is full after three rounds of less growth
FULL_PIPE_ROUNDS = 3.0
MIN_RTT_WINDOW_NS = 10e9
PROBE_RTT_NS = 200e6
MIN_CWND = 4.0
QUANTA = 3.0  # send quanta in flight that keep end hosts busy

# Linux: a quantum is the data of 2^-10 s at the pacing rate, at least two packets and at most one offload.
QUANTA_PER_S = 1024.0
LEAST_QUANTUM = 2.0
LARGEST_QUANTUM_BYTES = 65_215.0
EXTRA_ROUNDS = 5.0  # length of the two windows of the maximum of packets acknowledged early, rounds
LONGEST_EXTRA_NS = 100e6

STARTUP = 0.0
DRAIN = 1.0
PROBE_BW = 2.0  # version 1; version 3 has four modes in its place
PROBE_RTT = 3.0

# Slots of flow.state. Bandwidths are in packets per ns.
MODE = 0
ROUND_END = 1  # delivered packets
MIN_RTT_NS = 2
MIN_RTT_AT_NS = 3
FULL_BANDWIDTH = 4
FULL_ROUNDS = 5
PIPE_IS_FULL = 6
PRIOR_CWND = 7
REPAIRS = 8  # 1: losses are being repaired
FIRST_CWND = 9
EXTRA_ACKED = 10  # most packets acknowledged early, in this window of rounds ...
EXTRA_ACKED_BEFORE = 11  # ... and in the one before
EXTRA_AGE = 12  # rounds of this window that have begun
EPOCH_AT_NS = 13  # since then, ...
EPOCH_ACKED = 14  # ... so many packets were acknowledged
FIRST_OWN = 15


@njit(forceinline=True)
def in_flight(flow: Any, event: Any) -> float:
    """Return the sender's estimate of the packets in flight before this ACK."""
    return float(event.in_flight_packets - flow.sacked - flow.lost)


@njit(forceinline=True)
def delivery_rate(event: Any) -> float:
    """Return the ACK's sample of the delivery rate, in packets per ns; 0 if it has none."""
    if event.delivery_interval_ns <= 0:
        return 0.0
    return (event.delivered_packets - event.delivered_at_send) / float(event.delivery_interval_ns)


@njit(forceinline=True)
def begins_round(flow: Any, event: Any) -> bool:
    """Return whether a packet sent in the present round is acknowledged; if so, begin the next round."""
    if event.delivered_at_send < flow.state[ROUND_END]:
        return False
    flow.state[ROUND_END] = event.delivered_packets
    return True


@njit(forceinline=True)
def offload_quantum(flow: Any) -> float:
    """Return the packets that segmentation offload sends at once."""
    quantum_bytes = min(flow.pacing_rate_bps / 8.0 / QUANTA_PER_S, LARGEST_QUANTUM_BYTES)
    return max(math.floor(quantum_bytes / flow.packet_bytes), LEAST_QUANTUM)


@njit(forceinline=True)
def update_aggregation(
    flow: Any, event: Any, bandwidth: float, new_round: bool, window_rounds: float
) -> None:
    """Update the number of packets that aggregated ACKs acknowledge ahead of the bandwidth.

    The maximum is kept for one to two windows of ``window_rounds`` rounds.
    """
    state = flow.state
    if event.acked_packets == 0 or event.delivery_interval_ns <= 0:
        return
    if new_round:
        state[EXTRA_AGE] += 1.0
        if state[EXTRA_AGE] >= window_rounds:
            state[EXTRA_AGE] = 0.0
            state[EXTRA_ACKED_BEFORE] = state[EXTRA_ACKED]
            state[EXTRA_ACKED] = 0.0
    expected = bandwidth * (event.now_ns - state[EPOCH_AT_NS])
    if state[EPOCH_ACKED] <= expected:
        state[EPOCH_ACKED] = 0.0
        state[EPOCH_AT_NS] = event.now_ns
        expected = 0.0
    state[EPOCH_ACKED] += event.acked_packets
    state[EXTRA_ACKED] = max(state[EXTRA_ACKED], min(state[EPOCH_ACKED] - expected, flow.cwnd))


@njit(forceinline=True)
def extra_packets(flow: Any, bandwidth: float) -> float:
    """Return the allowance for aggregated ACKs, in packets in flight."""
    extra = max(flow.state[EXTRA_ACKED], flow.state[EXTRA_ACKED_BEFORE])
    return min(extra, bandwidth * LONGEST_EXTRA_NS)


@njit(forceinline=True)
def spread(flow: Any, now_ns: int) -> float:
    """Return a number from 0 to 1 that differs from flow to flow and in time, in place of a random one."""
    seed = flow.start_ns % 1009 + 37 * flow.src + 101 * flow.dst + now_ns % 997
    return (0.618033988749895 * seed) % 1.0


@njit(forceinline=True)
def ignore_low_samples(flow: Any, event: Any) -> None:
    """Mark the samples of all packets in flight as limited by the application."""
    flow.app_limited_until = max(flow.delivered_packets + int(in_flight(flow, event)), 1)


@njit(forceinline=True)
def save_window(flow: Any) -> None:
    """Save the window before losses and PROBE_RTT."""
    state = flow.state
    if not state[REPAIRS] and state[MODE] != PROBE_RTT:
        state[PRIOR_CWND] = flow.cwnd
    else:
        state[PRIOR_CWND] = max(state[PRIOR_CWND], flow.cwnd)


@njit(forceinline=True)
def restore_window(flow: Any) -> None:
    """Restore the saved window."""
    flow.cwnd = max(flow.cwnd, flow.state[PRIOR_CWND])


@njit(forceinline=True)
def ends_repairs(flow: Any) -> bool:
    """Return whether the last loss has just been repaired; if so, restore the saved window."""
    if not flow.state[REPAIRS] or flow.in_recovery or flow.una < flow.recover:
        return False
    flow.state[REPAIRS] = 0.0
    restore_window(flow)
    return True


@njit(forceinline=True)
def set_pacing_rate(flow: Any, gain: float, bandwidth: float) -> None:
    """Set the pacing rate to a multiple of the bandwidth; it does not fall until the pipe is full."""
    rate_bps = 8e9 * flow.packet_bytes * gain * bandwidth
    if flow.state[PIPE_IS_FULL] or rate_bps > flow.pacing_rate_bps:
        flow.pacing_rate_bps = rate_bps


@njit(forceinline=True)
def pace_first_window(flow: Any, gain: float) -> None:
    """Pace the first window over a fraction of the empty path's round trip."""
    flow.pacing_rate_bps = 8e9 * flow.packet_bytes * gain * flow.cwnd / flow.base_rtt_ns
