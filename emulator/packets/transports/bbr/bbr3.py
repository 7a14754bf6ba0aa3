"""BBR, version 3: version 1 with bounds on bandwidth and packets in flight that respond to losses and marks.

Source: draft-ietf-ccwg-bbr-06, whose functions the docstrings name. Between probes for bandwidth, which are
two to three seconds or at most 63 round trips apart, a flow leaves headroom for other flows (CRUISE). A probe
refills the pipe for a round (REFILL), raises rate and packets in flight until the bandwidth stops growing or
2 % of the packets are lost (UP), and drains the queue (DOWN). PROBE_RTT halves the packets in flight for
200 ms, at most every five seconds.

``bbr3`` sends as Linux does: in quanta of a millisecond, three of which may always be in flight, plus an
allowance for aggregated ACKs. ``bbr3_ecn`` also responds to marks, as Google's BBRv3 for Linux does on paths
with round trips below 5 ms; the draft leaves this open. The first window is paced over the base round-trip
time, and flows spread their probes without random numbers, as in version 1.

Restart from idle is not modelled, because a sender's callbacks run on ACKs only. The packets in flight at a
loss are taken from the packet sent after the lost one, whose ACK reveals the loss. Losses in STARTUP are
counted as the ACKs that reveal losses, as in Linux.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import Transport, parameter
from sysgym.emulator.packets.transports.bbr.bbr3_model import (
    ANSWERED,
    BETA,
    CRUISE,
    FEEDBACK,
    FEEDBACK_COMES,
    LAST_FEEDBACK,
    LAST_PROBE,
    LATEST_BANDWIDTH,
    LATEST_DELIVERED,
    LONG_IN_FLIGHT,
    LOSSES_IN_ROUND,
    MARK_THRESHOLD,
    MARKED_FRACTION,
    MARKED_ROUNDS,
    NO_UNDO,
    PROBE_RTT_GAIN,
    PROBE_RTT_MIN_AT_NS,
    PROBE_RTT_MIN_NS,
    ROUNDS,
    SHORT_BANDWIDTH,
    SHORT_IN_FLIGHT,
    TOO_HIGH,
    UNDO,
    UNDO_BANDWIDTH,
    UNDO_LONG_IN_FLIGHT,
    UNDO_PROBE,
    UNDO_SHORT_IN_FLIGHT,
    UNDO_STARTUP,
    UNTIL_NS,
    UP,
    USES_ECN,
    bandwidth,
    bounded_window,
    ends_loss_round,
    forget_short_term,
    in_flight_at_loss,
    is_too_high,
    lower_bound_by_marks,
    lower_bounds_by_loss,
    note_losses,
    note_marks,
    probes_for_bandwidth,
    product,
    save_bounds,
    target_in_flight,
    update_bandwidth,
    with_budget,
)
from sysgym.emulator.packets.transports.bbr.bbr3_modes import (
    STARTUP_GAIN,
    check_drain,
    check_full_pipe,
    end_feedback,
    enter,
    enter_down,
    enter_refill,
    leave_startup,
    look_for_plateau,
    pacing_gain,
    update_cycle,
    window_gain,
)
from sysgym.emulator.packets.transports.bbr.common import (
    DRAIN,
    EPOCH_AT_NS,
    EXTRA_ROUNDS,
    FIRST_CWND,
    MIN_CWND,
    MIN_RTT_AT_NS,
    MIN_RTT_NS,
    MIN_RTT_WINDOW_NS,
    MODE,
    PIPE_IS_FULL,
    PROBE_RTT,
    PROBE_RTT_NS,
    REPAIRS,
    ROUND_END,
    STARTUP,
    begins_round,
    delivery_rate,
    ends_repairs,
    extra_packets,
    ignore_low_samples,
    in_flight,
    pace_first_window,
    restore_window,
    save_window,
    set_pacing_rate,
    update_aggregation,
)

PACING_MARGIN = 0.99
STARTUP_LOSSES = 6.0  # ACKs of a round that reveal losses
STARTUP_MARKED_ROUNDS = 2.0
PROBE_RTT_INTERVAL_NS = 5e9


@njit(forceinline=True)
def answer_too_high(flow: Any, event: Any, packets: float) -> None:
    """End a probe that went too high, and set the long-term bound of the packets in flight.

    This is HandleInflightTooHigh; ``packets`` is the number in flight at which losses or marks were too many.
    """
    state = flow.state
    state[LAST_PROBE] = TOO_HIGH
    state[FEEDBACK] = ANSWERED
    if not event.app_limited:
        state[LONG_IN_FLIGHT] = math.floor(max(packets, BETA * target_in_flight(flow)))
    if state[MODE] == UP:
        if state[UNDO] != NO_UNDO:
            state[UNDO] = UNDO_PROBE
        enter_down(flow, event)


@njit(forceinline=True)
def answer_losses(flow: Any, event: Any, newly_lost: float) -> None:
    """End the probe if newly detected losses are too many (HandleLostPacket)."""
    learns = flow.state[FEEDBACK] == FEEDBACK_COMES or flow.state[FEEDBACK] == LAST_FEEDBACK
    if newly_lost > 0.0 and learns and is_too_high(event):
        answer_too_high(flow, event, in_flight_at_loss(event, newly_lost))


@njit(forceinline=True)
def answer_marks(flow: Any, event: Any, fraction: float) -> None:
    """Respond to the marks of a round, depending on the mode: STARTUP, a probe, or neither."""
    state = flow.state
    too_many = fraction > MARK_THRESHOLD
    if state[MODE] == STARTUP and not state[PIPE_IS_FULL]:
        state[MARKED_ROUNDS] = state[MARKED_ROUNDS] + 1.0 if too_many else 0.0
        if state[MARKED_ROUNDS] >= STARTUP_MARKED_ROUNDS:
            leave_startup(flow)
    elif too_many and (state[FEEDBACK] == FEEDBACK_COMES or state[FEEDBACK] == LAST_FEEDBACK):
        answer_too_high(flow, event, float(event.in_flight_at_send))
    elif fraction > 0.0 and not probes_for_bandwidth(flow):
        lower_bound_by_marks(flow)


@njit(forceinline=True)
def check_startup(flow: Any, event: Any, losses_in_round: float) -> None:
    """Leave STARTUP when the pipe is full or losses are too many (CheckStartupDone)."""
    state = flow.state
    if state[MODE] != STARTUP:
        return
    if losses_in_round >= STARTUP_LOSSES and flow.in_recovery and is_too_high(event):
        leave_startup(flow)
    if state[PIPE_IS_FULL]:
        state[MODE] = DRAIN
        state[ROUNDS] = 0.0


@njit(forceinline=True)
def update_min_rtt(flow: Any, event: Any) -> bool:
    """Update the smallest round trips of five and ten seconds; return whether the first has expired.

    This is UpdateMinRTT.
    """
    state = flow.state
    expired = event.now_ns > state[PROBE_RTT_MIN_AT_NS] + PROBE_RTT_INTERVAL_NS
    if event.rtt_sampled and (event.rtt_ns < state[PROBE_RTT_MIN_NS] or expired):
        state[PROBE_RTT_MIN_NS] = event.rtt_ns
        state[PROBE_RTT_MIN_AT_NS] = event.now_ns
    window_over = event.now_ns > state[MIN_RTT_AT_NS] + MIN_RTT_WINDOW_NS
    if state[PROBE_RTT_MIN_NS] < state[MIN_RTT_NS] or window_over:
        state[MIN_RTT_NS] = state[PROBE_RTT_MIN_NS]
        state[MIN_RTT_AT_NS] = state[PROBE_RTT_MIN_AT_NS]
    return expired


@njit(forceinline=True)
def check_probe_rtt(flow: Any, event: Any, expired: bool, round_begins: bool) -> None:
    """Run PROBE_RTT, half a product in flight for 200 ms and a round (CheckProbeRTT)."""
    state = flow.state
    if state[MODE] != PROBE_RTT:
        if not expired:
            return
        save_window(flow)
        end_feedback(flow)
        enter(flow, event, PROBE_RTT)
        state[UNTIL_NS] = 0.0
    ignore_low_samples(flow, event)
    if state[UNTIL_NS] == 0.0:
        if in_flight(flow, event) <= max(PROBE_RTT_GAIN * product(flow), MIN_CWND):
            enter(flow, event, PROBE_RTT)
            state[UNTIL_NS] = event.now_ns + PROBE_RTT_NS
    elif state[ROUNDS] > 0.0 and event.now_ns > state[UNTIL_NS]:
        state[PROBE_RTT_MIN_AT_NS] = event.now_ns
        restore_window(flow)
        forget_short_term(flow)
        if state[PIPE_IS_FULL]:
            enter_down(flow, event)
            state[MODE] = CRUISE
        else:
            enter(flow, event, STARTUP)


@njit(forceinline=True)
def undo_if_spurious(flow: Any, event: Any) -> None:
    """Restore bounds and mode if the detected losses were spurious (HandleSpuriousLossDetection)."""
    state = flow.state
    undo = state[UNDO]
    if undo == NO_UNDO or flow.undo_possible:
        return
    state[UNDO] = NO_UNDO
    state[LOSSES_IN_ROUND] = 0.0
    restore_window(flow)
    look_for_plateau(flow, 0.0)
    state[SHORT_BANDWIDTH] = max(state[SHORT_BANDWIDTH], state[UNDO_BANDWIDTH])
    state[SHORT_IN_FLIGHT] = max(state[SHORT_IN_FLIGHT], state[UNDO_SHORT_IN_FLIGHT])
    state[LONG_IN_FLIGHT] = max(state[LONG_IN_FLIGHT], state[UNDO_LONG_IN_FLIGHT])
    if undo == UNDO_STARTUP and state[MODE] != STARTUP:
        state[PIPE_IS_FULL] = 0.0
        if state[MODE] != PROBE_RTT:
            state[MODE] = STARTUP
    elif undo == UNDO_PROBE and state[MODE] != UP and state[MODE] != PROBE_RTT:
        enter_refill(flow, event)


@njit(forceinline=True)
def set_window(flow: Any, event: Any) -> None:
    """Move the window towards the limit of the model (SetCwnd)."""
    state = flow.state
    bandwidth_now = bandwidth(flow)
    allowed = window_gain(state[MODE]) * product(flow) + extra_packets(flow, bandwidth_now)
    allowed = with_budget(flow, allowed)
    if state[PIPE_IS_FULL]:
        flow.cwnd = min(flow.cwnd + event.acked_packets, allowed)
    elif flow.cwnd < allowed or event.delivered_packets < state[FIRST_CWND]:
        flow.cwnd += event.acked_packets
    flow.cwnd = bounded_window(flow, max(flow.cwnd, MIN_CWND))


def on_start(flow: Any, event: Any) -> None:
    """Enter STARTUP with the first window paced over the round trip of the handshake (OnInit)."""
    state = flow.state
    state[FIRST_CWND] = flow.cwnd
    state[MIN_RTT_NS] = flow.base_rtt_ns
    state[MIN_RTT_AT_NS] = event.now_ns
    state[PROBE_RTT_MIN_NS] = flow.base_rtt_ns
    state[PROBE_RTT_MIN_AT_NS] = event.now_ns
    state[EPOCH_AT_NS] = event.now_ns
    state[LONG_IN_FLIGHT] = math.inf
    state[MARKED_FRACTION] = 1.0 if parameter(event, USES_ECN) != 0.0 else 0.0
    forget_short_term(flow)
    pace_first_window(flow, STARTUP_GAIN)


def on_ack(flow: Any, event: Any) -> None:
    """Update the model, then the mode, then rate and window (UpdateOnACK)."""
    state = flow.state
    undo_if_spurious(flow, event)
    answer_losses(flow, event, note_losses(flow, event))
    rate = delivery_rate(event)
    delivered_in_round = float(event.delivered_packets) - state[ROUND_END]
    round_begins = begins_round(flow, event)
    if round_begins:
        state[ROUNDS] += 1.0
    loss_round_ends = ends_loss_round(flow, event, rate)
    update_bandwidth(flow, event, rate)
    losses_in_round = 0.0
    if loss_round_ends:
        losses_in_round = state[LOSSES_IN_ROUND]
        state[LOSSES_IN_ROUND] = 0.0
        if losses_in_round > 0.0 and not probes_for_bandwidth(flow):
            lower_bounds_by_loss(flow)
    marked_fraction = note_marks(flow, event, round_begins, delivered_in_round)
    if marked_fraction >= 0.0:
        answer_marks(flow, event, marked_fraction)
    window_rounds = EXTRA_ROUNDS if state[PIPE_IS_FULL] else 1.0
    update_aggregation(flow, event, bandwidth(flow), round_begins, window_rounds)
    check_full_pipe(flow, event, rate, round_begins)
    check_startup(flow, event, losses_in_round)
    check_drain(flow, event)
    update_cycle(flow, event, rate, round_begins)
    expired = update_min_rtt(flow, event)
    check_probe_rtt(flow, event, expired, round_begins)
    if loss_round_ends:
        state[LATEST_BANDWIDTH] = rate
        state[LATEST_DELIVERED] = event.delivered_packets - event.delivered_at_send
    ends_repairs(flow)
    set_pacing_rate(flow, PACING_MARGIN * pacing_gain(state[MODE]), bandwidth(flow))
    set_window(flow, event)


def on_loss(flow: Any, event: Any) -> None:
    """Save window and bounds (OnEnterFastRecovery); ``on_ack`` adapts the bounds to the losses."""
    save_bounds(flow)
    flow.state[REPAIRS] = 1.0


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet, but keep the model of the path (OnEnterRTO)."""
    save_bounds(flow)
    flow.state[REPAIRS] = 1.0
    flow.cwnd = 1.0


BBR3 = Transport(
    name="bbr3",
    summary="BBR v3, with Linux's room for offload: rate and packets in flight are bounded after losses",
    reference="draft-ietf-ccwg-bbr-06",
    on_start=on_start,
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_timeout,
    sets_window_in_recovery=True,
    parameters=(0.0,),
)

BBR3_ECN = replace(
    BBR3,
    name="bbr3_ecn",
    summary="BBR v3 that also responds to ECN marks, as in Google's networks",
    reference="draft-ietf-ccwg-bbr-06; Linux, github.com/google/bbr, branch v3 (marks)",
    ecn_capable=True,
    parameters=(1.0,),
)
