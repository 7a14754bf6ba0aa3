"""BBRv3's model of the path: bandwidth and packets in flight, with bounds that follow losses and marks.

Source: draft-ietf-ccwg-bbr-06, whose functions the docstrings name. The long-term bounds are the largest
bandwidth of two cycles and ``inflight_longterm``, which a probe with too many losses sets. The short-term
bounds, ``bw_shortterm`` and ``inflight_shortterm``, follow losses outside of probes and are removed before
the next probe.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import losses
from sysgym.emulator.packets.transports.base import parameter
from sysgym.emulator.packets.transports.bbr.common import (
    FIRST_OWN,
    MIN_CWND,
    MIN_RTT_NS,
    MODE,
    PROBE_RTT,
    QUANTA,
    STARTUP,
    offload_quantum,
    save_window,
)

LOSS_THRESHOLD = 0.02  # LossThresh: a probe that loses more is too high
BETA = 0.7
HEADROOM = 0.15
PROBE_RTT_GAIN = 0.5

# Google's response to marks in BBRv3 for Linux; the draft leaves it open ("ECN").
MARK_THRESHOLD = 0.5  # a probe with a larger marked fraction in a round is too high
MARK_FACTOR = 1.0 / 3.0
MARK_GAIN = 1.0 / 16.0

# Modes of PROBE_BW.
DOWN = 4.0
CRUISE = 5.0
REFILL = 6.0
UP = 7.0

# Values of FEEDBACK: ACKs expected of the latest probe for bandwidth (ack_phase, is_bw_probe_sample).
NO_FEEDBACK = 0.0
FEEDBACK_COMES = 1.0
LAST_FEEDBACK = 2.0  # the probe has ended, and its last round is still being acknowledged
ANSWERED = 3.0  # the same, but the ACKs of the probe have no further effect

# Values of LAST_PROBE.
FINE = 0.0
TOO_HIGH = 1.0
PRECAUTIONARY = 2.0  # the probe ended early, because the previous one was too high

# Values of UNDO: changes to undo if the losses prove spurious.
NO_UNDO = 0.0
UNDO_BOUNDS = 1.0
UNDO_STARTUP = 2.0
UNDO_PROBE = 3.0

# Slots of flow.state, behind those that all versions have. Bandwidths are in packets per ns.
BANDWIDTH = FIRST_OWN  # the largest of this cycle ...
BANDWIDTH_BEFORE = 16  # ... and of the one before
SHORT_BANDWIDTH = 17
SHORT_IN_FLIGHT = 18
LONG_IN_FLIGHT = 19
LATEST_BANDWIDTH = 20  # the largest of this round
LATEST_DELIVERED = 21
LOSS_ROUND_END = 22  # delivered packets
LOSSES_IN_ROUND = 23  # ACKs of this round that found losses
LOSSES = 24  # of the flow so far
FEEDBACK = 25
ROUNDS = 26  # in this mode; in DOWN and CRUISE from 0 or 1 at random (rounds_since_probe_up)
PROBE_RTT_MIN_NS = 27  # smallest round trip of the last five seconds
PROBE_RTT_MIN_AT_NS = 28
UNTIL_NS = 29  # end of DOWN and CRUISE (cycle_stamp + bw_probe_wait), or of PROBE_RTT; there 0: not known
GROWTH = 30  # packets by which a round of UP raises LONG_IN_FLIGHT
ACKED_PER_PACKET = 31  # packets acknowledged for each of these
LAST_PROBE = 32
UNDO = 33
UNDO_BANDWIDTH = 34
UNDO_SHORT_IN_FLIGHT = 35
UNDO_LONG_IN_FLIGHT = 36
MARKED_FRACTION = 37  # ecn_alpha
MARKED = 38  # packets of this round
MARKED_ROUNDS = 39  # rounds of STARTUP in a row with too many marks

USES_ECN = 0  # parameter


@njit(forceinline=True)
def max_bandwidth(flow: Any) -> float:
    """Return max_bw, the largest bandwidth of this cycle and the one before."""
    return max(flow.state[BANDWIDTH], flow.state[BANDWIDTH_BEFORE])


@njit(forceinline=True)
def bandwidth(flow: Any) -> float:
    """Return bw, the largest bandwidth within the short-term bound (BoundBWForModel)."""
    return min(max_bandwidth(flow), flow.state[SHORT_BANDWIDTH])


@njit(forceinline=True)
def product(flow: Any) -> float:
    """Return the bandwidth-delay product, in packets."""
    return bandwidth(flow) * flow.state[MIN_RTT_NS]


@njit(forceinline=True)
def with_budget(flow: Any, packets: float) -> float:
    """Return a number of packets in flight, raised to the need of end hosts (QuantizationBudget)."""
    packets = max(packets, max(QUANTA * offload_quantum(flow), MIN_CWND))
    return packets + (2.0 if flow.state[MODE] == UP else 0.0)


@njit(forceinline=True)
def target_in_flight(flow: Any) -> float:
    """Return the smaller of the bandwidth-delay product and the window (TargetInflight)."""
    return min(product(flow), flow.cwnd)


@njit(forceinline=True)
def in_flight_with_headroom(flow: Any) -> float:
    """Return the long-term bound less the headroom for other flows (InflightWithHeadroom)."""
    bound = flow.state[LONG_IN_FLIGHT]
    if bound == math.inf:
        return bound
    return max(bound - max(HEADROOM * bound, 1.0), MIN_CWND)


@njit(forceinline=True)
def probes_for_bandwidth(flow: Any) -> bool:
    """Return whether the flow is probing for bandwidth (IsProbingBW)."""
    mode = flow.state[MODE]
    return mode == STARTUP or mode >= REFILL


@njit(forceinline=True)
def is_too_high(event: Any) -> bool:
    """Return whether more than 2 % of the packets in flight were lost (IsInflightTooHigh)."""
    return event.lost_since_send > LOSS_THRESHOLD * event.in_flight_at_send


@njit(forceinline=True)
def in_flight_at_loss(event: Any, newly_lost: float) -> float:
    """Return the number of packets in flight when losses passed the threshold (InflightAtLoss).

    The value is that of the acknowledged packet, which left right after the lost ones, because the sender
    keeps no such value for lost packets.
    """
    before = event.in_flight_at_send - newly_lost
    lost_before = event.lost_since_send - newly_lost
    prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD)
    return before + max(prefix, 0.0)


@njit(forceinline=True)
def forget_short_term(flow: Any) -> None:
    """Remove the short-term bounds (ResetShortTermModel)."""
    flow.state[SHORT_BANDWIDTH] = math.inf
    flow.state[SHORT_IN_FLIGHT] = math.inf


@njit(forceinline=True)
def forget_congestion(flow: Any) -> None:
    """Reset the measurements of losses and deliveries (ResetCongestionSignals)."""
    flow.state[LOSSES_IN_ROUND] = 0.0
    flow.state[LATEST_BANDWIDTH] = 0.0
    flow.state[LATEST_DELIVERED] = 0.0


@njit(forceinline=True)
def save_bounds(flow: Any) -> None:
    """Save window and bounds, in case the losses are spurious (SaveStateUponLoss)."""
    state = flow.state
    save_window(flow)
    state[UNDO] = UNDO_BOUNDS if flow.undo_possible else NO_UNDO
    state[UNDO_BANDWIDTH] = state[SHORT_BANDWIDTH]
    state[UNDO_SHORT_IN_FLIGHT] = state[SHORT_IN_FLIGHT]
    state[UNDO_LONG_IN_FLIGHT] = state[LONG_IN_FLIGHT]


@njit(forceinline=True)
def note_losses(flow: Any, event: Any) -> float:
    """Return the number of losses that this ACK reveals; the first ones begin a loss round (NoteLoss)."""
    state = flow.state
    newly_lost = losses(flow) - state[LOSSES]
    state[LOSSES] = losses(flow)
    if newly_lost <= 0.0:
        return 0.0
    if state[LOSSES_IN_ROUND] == 0.0:
        state[LOSS_ROUND_END] = event.delivered_packets
        save_bounds(flow)
    state[LOSSES_IN_ROUND] += 1.0
    return newly_lost


@njit(forceinline=True)
def ends_loss_round(flow: Any, event: Any, rate: float) -> bool:
    """Update the largest deliveries of this round; return whether it ends (UpdateLatestDeliverySignals)."""
    state = flow.state
    state[LATEST_BANDWIDTH] = max(state[LATEST_BANDWIDTH], rate)
    delivered = float(event.delivered_packets - event.delivered_at_send)
    state[LATEST_DELIVERED] = max(state[LATEST_DELIVERED], delivered)
    if event.delivered_at_send < state[LOSS_ROUND_END]:
        return False
    state[LOSS_ROUND_END] = event.delivered_packets
    return True


@njit(forceinline=True)
def lower_bounds_by_loss(flow: Any) -> None:
    """Lower the short-term bounds to the deliveries of the round, by at most 30 % (LossLowerBounds)."""
    state = flow.state
    if state[SHORT_BANDWIDTH] == math.inf:
        state[SHORT_BANDWIDTH] = max_bandwidth(flow)
    if state[SHORT_IN_FLIGHT] == math.inf:
        state[SHORT_IN_FLIGHT] = flow.cwnd
    state[SHORT_BANDWIDTH] = max(state[LATEST_BANDWIDTH], BETA * state[SHORT_BANDWIDTH])
    state[SHORT_IN_FLIGHT] = max(state[LATEST_DELIVERED], BETA * state[SHORT_IN_FLIGHT])


@njit(forceinline=True)
def lower_bound_by_marks(flow: Any) -> None:
    """Lower the short-term bound of the packets in flight by a third of the fraction of marks."""
    state = flow.state
    if state[SHORT_IN_FLIGHT] == math.inf:
        state[SHORT_IN_FLIGHT] = flow.cwnd
    state[SHORT_IN_FLIGHT] *= 1.0 - MARK_FACTOR * state[MARKED_FRACTION]


@njit(forceinline=True)
def note_marks(flow: Any, event: Any, round_begins: bool, delivered: float) -> float:
    """Count marks; at the beginning of a round, return the marked fraction of the previous round.

    Otherwise, and without ECN, return -1. ``delivered`` is the number of packets of the previous round.
    """
    state = flow.state
    if parameter(event, USES_ECN) == 0.0:
        return -1.0
    state[MARKED] += event.acked_packets * event.marked
    if not round_begins:
        return -1.0
    fraction = min(state[MARKED] / max(delivered, 1.0), 1.0)
    state[MARKED] = 0.0
    state[MARKED_FRACTION] += MARK_GAIN * (fraction - state[MARKED_FRACTION])
    return fraction


@njit(forceinline=True)
def update_bandwidth(flow: Any, event: Any, rate: float) -> None:
    """Update the largest bandwidth of this cycle; app-limited samples can only raise it (UpdateMaxBw)."""
    if rate >= max_bandwidth(flow) or not event.app_limited:
        flow.state[BANDWIDTH] = max(flow.state[BANDWIDTH], rate)


@njit(forceinline=True)
def begin_bandwidth_cycle(flow: Any) -> None:
    """Begin a cycle of the bandwidth's maximum (AdvanceMaxBwFilter).

    A cycle without a sample keeps the maximum so far.
    """
    if flow.state[BANDWIDTH] > 0.0:
        flow.state[BANDWIDTH_BEFORE] = flow.state[BANDWIDTH]
        flow.state[BANDWIDTH] = 0.0


@njit(forceinline=True)
def bounded_window(flow: Any, window: float) -> float:
    """Return the window within the bounds of its mode (BoundCwndForProbeRTT, BoundCwndForModel)."""
    mode = flow.state[MODE]
    bound = math.inf
    if mode == PROBE_RTT:
        window = min(window, max(PROBE_RTT_GAIN * product(flow), MIN_CWND))
        bound = in_flight_with_headroom(flow)
    elif mode == CRUISE:
        bound = in_flight_with_headroom(flow)
    elif mode >= DOWN:
        bound = flow.state[LONG_IN_FLIGHT]
    return min(window, max(min(bound, flow.state[SHORT_IN_FLIGHT]), MIN_CWND))
