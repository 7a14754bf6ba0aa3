"""HPCC: window control by the bytes in flight, measured by in-band telemetry (Li et al., SIGCOMM 2019).

Every switch adds its queue, bytes sent, clock and rate to the packet, and the ACK carries this telemetry
back. From two ACKs the sender computes the utilisation of each link, queue included, and keeps that of the
most utilised link just below capacity. The window reacts to every ACK, but relative to a reference that
changes once per round trip, so that no congestion is answered twice.

The paper's base round trip T, one for the network, is here the base round trip of each flow's path. HPCC runs
on lossless fabrics or repairs losses without reacting to them. The same holds here, except that a time-out
halves the reference, because without ACKs there is no telemetry.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.memory.records import INT_HOPS
from sysgym.emulator.packets.transports.base import Transport

ETA = 0.95  # target utilisation
MAX_STAGE = 5.0  # additive steps before the next multiplicative one
EXPECTED_FLOWS = 25.0
"""N of W_AI = W_init (1 - eta) / N: an increment of 1/500 per round trip, as in the authors' simulations.

These use 50 Mb/s at 25 Gb/s. The paper's 80 bytes at 100 Gb/s and 13 us correspond to N = 100, an increment
too small at 10 Gb/s: with a bandwidth-delay product of some fifty packets, samples are noisier than that, and
shares would not converge.
"""

# Slots of flow.state.
UTILISATION = 0  # U, smoothed
REFERENCE = 1  # W_c, packets
STAGE = 2  # incStage
ROUND_END = 3  # lastUpdateSeq
KNOWN_HOPS = 4  # hops of the last ACK's telemetry, which is in the slots from QUEUE_BYTES on
WINDOW = 5  # W, packets
QUEUE_BYTES = 8
TX_BYTES = QUEUE_BYTES + INT_HOPS
TIME_NS = TX_BYTES + INT_HOPS


@njit(forceinline=True)
def first_window(flow: Any) -> float:
    """Return W_init, the bandwidth-delay product of the sender's line, in packets."""
    return flow.line_rate_bps * flow.base_rtt_ns / (8e9 * flow.packet_bytes)


@njit(forceinline=True)
def set_window(flow: Any, window: float) -> None:
    """Set the window W, which limits the packets in flight, and the pace W / T, which limits bursts.

    A packet may leave while less than W bytes are in flight, so the window is rounded up to whole packets.
    """
    window = max(min(window, first_window(flow)), 1e-3)
    flow.state[WINDOW] = window
    flow.cwnd = math.ceil(window)
    flow.pacing_rate_bps = 8e9 * flow.packet_bytes * window / flow.base_rtt_ns


@njit(forceinline=True)
def measure_in_flight(flow: Any, event: Any) -> float:
    """Return U, the normalised bytes in flight of the most utilised link, smoothed over a round trip.

    This is the paper's MeasureInflight.
    """
    state = flow.state
    base_ns = float(flow.base_rtt_ns)
    fullest = 0.0
    fullest_for_ns = 0.0
    for hop in range(event.int_hops):
        elapsed_ns = event.int_time_ns[hop] - state[TIME_NS + hop]
        if elapsed_ns > 0.0:
            bytes_per_ns = event.int_rate_bps[hop] / 8e9
            sent_per_ns = (event.int_tx_bytes[hop] - state[TX_BYTES + hop]) / elapsed_ns
            queue_bytes = min(float(event.int_queue_bytes[hop]), state[QUEUE_BYTES + hop])
            load = queue_bytes / (bytes_per_ns * base_ns) + sent_per_ns / bytes_per_ns
            if load > fullest:
                fullest = load
                fullest_for_ns = elapsed_ns
    weight = min(fullest_for_ns, base_ns) / base_ns
    state[UTILISATION] += weight * (fullest - state[UTILISATION])
    return state[UTILISATION]


@njit(forceinline=True)
def next_window(flow: Any, utilisation: float, ends_round: bool) -> float:
    """Return the next window (the paper's ComputeWind)."""
    state = flow.state
    additive = first_window(flow) * (1.0 - ETA) / EXPECTED_FLOWS
    multiplies = utilisation >= ETA or state[STAGE] >= MAX_STAGE
    window = state[REFERENCE] + additive
    if multiplies:
        window = state[REFERENCE] / max(utilisation / ETA, 1e-6) + additive
    if ends_round:
        state[STAGE] = 0.0 if multiplies else state[STAGE] + 1.0
        state[REFERENCE] = min(window, first_window(flow))
    return window


@njit(forceinline=True)
def remember_telemetry(flow: Any, event: Any) -> None:
    """Store the telemetry of an ACK (the paper's L = ack.L)."""
    flow.state[KNOWN_HOPS] = event.int_hops
    for hop in range(event.int_hops):
        flow.state[QUEUE_BYTES + hop] = event.int_queue_bytes[hop]
        flow.state[TX_BYTES + hop] = event.int_tx_bytes[hop]
        flow.state[TIME_NS + hop] = event.int_time_ns[hop]


def on_start(flow: Any, event: Any) -> None:
    """Start at line rate."""
    flow.state[REFERENCE] = first_window(flow)
    set_window(flow, flow.state[REFERENCE])


def on_ack(flow: Any, event: Any) -> None:
    """Update window and reference (the paper's NewAck)."""
    state = flow.state
    if event.int_hops == 0:
        return
    if state[KNOWN_HOPS] == event.int_hops:
        ends_round = flow.una > state[ROUND_END]
        utilisation = measure_in_flight(flow, event)
        set_window(flow, next_window(flow, utilisation, ends_round))
        if ends_round:
            state[ROUND_END] = flow.nxt
    else:  # the first ACK, or another path length: nothing to compare with
        state[ROUND_END] = flow.nxt
    remember_telemetry(flow, event)


def on_loss(flow: Any, event: Any) -> None:
    """Do nothing: telemetry already reports the congestion."""


def on_timeout(flow: Any, event: Any) -> None:
    """Halve the reference window, because no telemetry arrives (not in the paper)."""
    flow.state[REFERENCE] = max(0.5 * flow.state[REFERENCE], 1.0)
    set_window(flow, flow.state[REFERENCE])


HPCC = Transport(
    name="hpcc",
    summary="HPCC: bytes in flight by in-band telemetry of every switch, just below the links' capacity",
    reference="Li et al., SIGCOMM 2019",
    on_start=on_start,
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_timeout,
    overwrites_window=True,
    needs_int=True,
)
