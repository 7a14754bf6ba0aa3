"""Slow start, and two rules that end it before packets are lost: HyStart and HyStart++.

Sources: RFC 5681, 3.1, and RFC 3465 (slow start); Ha and Rhee, "Taming the elephants: New TCP slow start",
Computer Networks 55(9), 2011, with the constants of Linux (tcp_cubic.c); RFC 9406 (HyStart++). A round begins
when the first packet sent in it is acknowledged, and lasts for a window.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.memory.flow_record import HYSTART, HYSTART_PLUS_PLUS
from sysgym.emulator.packets.memory.records import NEVER_NS

LEAST_SAMPLES = 8  # HYSTART_MIN_SAMPLES; N_RTT_SAMPLE of RFC 9406, 4.3
LEAST_DELAY_NS = 4_000_000  # HYSTART_DELAY_MIN; MIN_RTT_THRESH
LARGEST_DELAY_NS = 16_000_000  # HYSTART_DELAY_MAX; MAX_RTT_THRESH
ROUND_TRIPS_DIVISOR = 8  # MIN_RTT_DIVISOR

LEAST_WINDOW_PACKETS = 16.0  # hystart_low_window
TRAIN_GAP_NS = 2_000_000  # hystart_ack_delta_us
LARGEST_AGGREGATE_NS = 1e6
FOUR_AGGREGATES_BYTES = 4 * 65_536

MOST_PACKETS_AN_ACK = 8  # L of RFC 9406, 4.3, without pacing
CSS_GROWTH_DIVISOR = 4.0
CSS_ROUNDS = 5


@njit(forceinline=True)
def slow_start(flow: Any, event: Any) -> None:
    """Grow the window by each acknowledged packet, at most two per ACK (RFC 5681, 3.1; RFC 3465, 2.3).

    With HyStart++, follow RFC 9406, 4.2, until the threshold is set for the first time.
    """
    if flow.slow_start == HYSTART_PLUS_PLUS and flow.ssthresh == math.inf:
        grow_and_watch_round_trips(flow, event)
    else:
        flow.cwnd += min(event.acked_packets, 2)


@njit(forceinline=True)
def delay_threshold_ns(round_trip_ns: float) -> float:
    """Return the increase of round trips that ends slow start: an eighth, bounded to 4 to 16 ms."""
    return min(max(round_trip_ns / ROUND_TRIPS_DIVISOR, LEAST_DELAY_NS), LARGEST_DELAY_NS)


@njit(forceinline=True)
def begin_round(flow: Any) -> None:
    """Begin a round, which ends when the next packet to be sent is acknowledged."""
    flow.previous_round_rtt_ns = flow.round_rtt_ns if flow.round_samples > 0 else NEVER_NS
    flow.round_rtt_ns = NEVER_NS
    flow.round_samples = 0
    flow.round_end = flow.nxt


@njit
def grow_and_watch_round_trips(flow: Any, event: Any) -> None:
    """Grow the window, more slowly while round trips are longer than in the round before (RFC 9406, 4.2).

    Conservative slow start (CSS) has a quarter of the growth. After five rounds it ends slow start; if round
    trips become shorter again, it returns to slow start.
    """
    if flow.una >= flow.round_end:
        begin_round(flow)
        if flow.css_baseline_ns > 0:
            flow.css_rounds += 1
            if flow.css_rounds >= CSS_ROUNDS:
                flow.ssthresh = flow.cwnd
                return
    if event.rtt_sampled:
        flow.round_rtt_ns = min(flow.round_rtt_ns, event.rtt_ns)
        flow.round_samples += 1
    growth = min(event.acked_packets, MOST_PACKETS_AN_ACK)
    flow.cwnd += growth / CSS_GROWTH_DIVISOR if flow.css_baseline_ns > 0 else growth
    if flow.round_samples < LEAST_SAMPLES:
        return
    if flow.css_baseline_ns > 0:
        if flow.round_rtt_ns < flow.css_baseline_ns:
            flow.css_baseline_ns = 0
    elif flow.previous_round_rtt_ns < NEVER_NS:
        before_ns = float(flow.previous_round_rtt_ns)
        if flow.round_rtt_ns >= before_ns + delay_threshold_ns(before_ns):
            flow.css_baseline_ns = flow.round_rtt_ns
            flow.css_rounds = 0


@njit
def hystart(flow: Any, event: Any) -> None:
    """End CUBIC's slow start when ACKs or round trips indicate that the path is full, as Linux does.

    Either ACKs no more than 2 ms apart have arrived for half a round trip since the round began, or the
    minimum of the round's first RTT samples exceeds the flow's minimum by an eighth, bounded to 4 to 16 ms.
    Linux resets the minimum RTT after a time-out; here it covers the whole flow.
    """
    if flow.slow_start != HYSTART or flow.cwnd >= flow.ssthresh or not event.rtt_sampled:
        return
    now_ns = event.now_ns
    if flow.una > flow.round_end or flow.round_end == 0:
        begin_round(flow)
        flow.round_began_ns = now_ns
        flow.train_until_ns = now_ns
    if flow.cwnd < LEAST_WINDOW_PACKETS:
        return
    shortest_ns = float(flow.min_rtt_ns)
    if now_ns - flow.train_until_ns <= TRAIN_GAP_NS:
        flow.train_until_ns = now_ns
        if 2.0 * (now_ns - flow.round_began_ns) > shortest_ns + aggregation_ns(flow):
            flow.ssthresh = flow.cwnd
    flow.round_rtt_ns = min(flow.round_rtt_ns, event.rtt_ns)
    if flow.round_samples < LEAST_SAMPLES:
        flow.round_samples += 1
    elif flow.round_rtt_ns > shortest_ns + delay_threshold_ns(shortest_ns):
        flow.ssthresh = flow.cwnd


@njit(forceinline=True)
def aggregation_ns(flow: Any) -> float:
    """Return the longest delay of ACKs by segmentation offload: four aggregates at the rate, at most 1 ms.

    The rate is that of Linux in slow start, two windows per round trip.
    """
    rate = 2.0 * flow.cwnd * flow.packet_bytes / max(flow.srtt_ns, 1.0)  # bytes per ns
    return min(FOUR_AGGREGATES_BYTES / rate, LARGEST_AGGREGATE_NS)
