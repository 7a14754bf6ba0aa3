"""Modes of BBRv3: probing for bandwidth, leaving headroom for other flows, and draining the queue.

Source: draft-ietf-ccwg-bbr-06, whose functions the docstrings name.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.bbr.bbr3_model import (
    ACKED_PER_PACKET,
    ANSWERED,
    CRUISE,
    DOWN,
    FEEDBACK,
    FEEDBACK_COMES,
    FINE,
    GROWTH,
    LAST_FEEDBACK,
    LAST_PROBE,
    LATEST_DELIVERED,
    LONG_IN_FLIGHT,
    MARKED,
    NO_FEEDBACK,
    NO_UNDO,
    PRECAUTIONARY,
    PROBE_RTT_GAIN,
    REFILL,
    ROUNDS,
    TOO_HIGH,
    UNDO,
    UNDO_STARTUP,
    UNTIL_NS,
    UP,
    begin_bandwidth_cycle,
    forget_congestion,
    forget_short_term,
    in_flight_with_headroom,
    is_too_high,
    max_bandwidth,
    product,
    target_in_flight,
    with_budget,
)
from sysgym.emulator.packets.transports.bbr.common import (
    DRAIN,
    FULL_BANDWIDTH,
    FULL_PIPE_ROUNDS,
    FULL_ROUNDS,
    MIN_RTT_NS,
    MODE,
    PIPE_IS_FULL,
    PROBE_RTT,
    ROUND_END,
    STARTUP,
    STARTUP_GROWTH,
    in_flight,
    spread,
)

STARTUP_GAIN = 4.0 * math.log(2.0)  # 2.77: doubles the rate each round
DRAIN_GAIN = 0.5
UP_GAIN = 1.25
DOWN_GAIN = 0.9
CWND_GAIN = 2.0
UP_CWND_GAIN = 2.25
DRAIN_ROUNDS = 3.0
PROBE_ROUNDS = 63.0
PROBE_WAIT_NS = 2e9  # and up to a second more
LARGEST_GROWTH = 2.0**30


@njit(forceinline=True)
def pacing_gain(mode: float) -> float:
    """Return the multiple of the bandwidth at which a mode sends."""
    if mode == STARTUP:
        return STARTUP_GAIN
    if mode == DRAIN:
        return DRAIN_GAIN
    if mode == DOWN:
        return DOWN_GAIN
    return UP_GAIN if mode == UP else 1.0


@njit(forceinline=True)
def window_gain(mode: float) -> float:
    """Return the number of bandwidth-delay products that a mode allows in flight."""
    if mode == PROBE_RTT:
        return PROBE_RTT_GAIN
    return UP_CWND_GAIN if mode == UP else CWND_GAIN


@njit(forceinline=True)
def enter(flow: Any, event: Any, mode: float) -> None:
    """Enter a mode and begin a round (StartRound)."""
    flow.state[MODE] = mode
    flow.state[ROUND_END] = event.delivered_packets
    flow.state[MARKED] = 0.0
    flow.state[ROUNDS] = 0.0


@njit(forceinline=True)
def look_for_plateau(flow: Any, baseline: float) -> None:
    """Begin the search for a plateau of the bandwidth (ResetFullBW)."""
    flow.state[FULL_BANDWIDTH] = baseline
    flow.state[FULL_ROUNDS] = 0.0


@njit(forceinline=True)
def end_feedback(flow: Any) -> None:
    """Wait for the last ACKs of a probe (ACKS_PROBE_STOPPING)."""
    flow.state[FEEDBACK] = LAST_FEEDBACK if flow.state[FEEDBACK] == FEEDBACK_COMES else ANSWERED


@njit(forceinline=True)
def enter_down(flow: Any, event: Any) -> None:
    """Enter DOWN, and choose the time until the next probe (StartProbeBW_DOWN, PickProbeWait)."""
    enter(flow, event, DOWN)
    forget_congestion(flow)
    end_feedback(flow)
    wait = spread(flow, event.now_ns)
    flow.state[ROUNDS] = 1.0 if wait > 0.5 else 0.0
    flow.state[UNTIL_NS] = event.now_ns + PROBE_WAIT_NS * (1.0 + 0.5 * wait)


@njit(forceinline=True)
def enter_refill(flow: Any, event: Any) -> None:
    """Enter REFILL without the short-term bounds (StartProbeBW_REFILL)."""
    enter(flow, event, REFILL)
    forget_short_term(flow)
    flow.state[GROWTH] = 1.0
    flow.state[FEEDBACK] = NO_FEEDBACK
    if flow.state[LAST_PROBE] == PRECAUTIONARY:
        flow.state[LAST_PROBE] = FINE


@njit(forceinline=True)
def grow_faster(flow: Any) -> None:
    """Double the growth of the long-term bound for the next round (RaiseInflightLongtermSlope)."""
    state = flow.state
    state[ACKED_PER_PACKET] = max(flow.cwnd / state[GROWTH], 1.0)
    state[GROWTH] = min(2.0 * state[GROWTH], LARGEST_GROWTH)


@njit(forceinline=True)
def enter_up(flow: Any, event: Any, rate: float) -> None:
    """Enter UP (StartProbeBW_UP)."""
    enter(flow, event, UP)
    flow.state[FEEDBACK] = FEEDBACK_COMES
    look_for_plateau(flow, rate)
    grow_faster(flow)


@njit(forceinline=True)
def leave_startup(flow: Any) -> None:
    """Declare the pipe full because of congestion (CheckStartupHighLoss)."""
    state = flow.state
    if state[UNDO] != NO_UNDO:
        state[UNDO] = UNDO_STARTUP
    state[PIPE_IS_FULL] = 1.0
    state[LONG_IN_FLIGHT] = math.floor(max(product(flow), state[LATEST_DELIVERED]))


@njit(forceinline=True)
def check_full_pipe(flow: Any, event: Any, rate: float, round_begins: bool) -> None:
    """Declare the pipe full after three rounds with growth of less than 25 % (CheckFullBWReached)."""
    state = flow.state
    if state[FULL_ROUNDS] >= FULL_PIPE_ROUNDS or not round_begins or event.app_limited:
        return
    if rate >= STARTUP_GROWTH * state[FULL_BANDWIDTH]:
        look_for_plateau(flow, rate)
        return
    state[FULL_ROUNDS] += 1.0
    if state[FULL_ROUNDS] >= FULL_PIPE_ROUNDS:
        state[PIPE_IS_FULL] = 1.0


@njit(forceinline=True)
def check_drain(flow: Any, event: Any) -> None:
    """Leave DRAIN when the queue has drained, or after three rounds (CheckDrainDone)."""
    drained = in_flight(flow, event) <= with_budget(flow, product(flow))
    if flow.state[MODE] == DRAIN and (drained or flow.state[ROUNDS] > DRAIN_ROUNDS):
        enter_down(flow, event)


@njit(forceinline=True)
def is_time_to_probe(flow: Any, event: Any) -> bool:
    """Return whether a probe is due: after seconds, or as many rounds as Reno needs (IsTimeToProbeBW)."""
    state = flow.state
    rounds = min(target_in_flight(flow), PROBE_ROUNDS)
    return event.now_ns > state[UNTIL_NS] or state[ROUNDS] >= rounds


@njit(forceinline=True)
def is_time_to_cruise(flow: Any, event: Any) -> bool:
    """Return whether DOWN has drained the queue and left headroom for other flows (IsTimeToCruise)."""
    packets = in_flight(flow, event)
    full = with_budget(flow, max_bandwidth(flow) * flow.state[MIN_RTT_NS])
    return packets <= in_flight_with_headroom(flow) and packets <= full


@njit(forceinline=True)
def is_time_to_go_down(flow: Any, event: Any, rate: float, at_bound: bool) -> bool:
    """Return whether UP has found all bandwidth, or reached a bound that was too high (IsTimeToGoDown)."""
    state = flow.state
    if state[LAST_PROBE] == TOO_HIGH and in_flight(flow, event) > state[LONG_IN_FLIGHT] - 1.0:
        state[LAST_PROBE] = PRECAUTIONARY
        return True
    if at_bound:
        look_for_plateau(flow, rate)
    elif state[FULL_ROUNDS] >= FULL_PIPE_ROUNDS:
        state[LAST_PROBE] = FINE
        return True
    return False


@njit(forceinline=True)
def adapt_long_term(flow: Any, event: Any, round_begins: bool, at_bound: bool) -> bool:
    """Update the long-term bounds; return whether a mode was entered (AdaptLongTermModel)."""
    state = flow.state
    if state[FEEDBACK] >= LAST_FEEDBACK and round_begins:
        state[FEEDBACK] = NO_FEEDBACK
        if state[MODE] >= DOWN:
            if not event.app_limited:
                begin_bandwidth_cycle(flow)
            if state[LAST_PROBE] == PRECAUTIONARY:
                enter_refill(flow, event)
                return True
    if not is_too_high(event) and state[LONG_IN_FLIGHT] < math.inf:
        state[LONG_IN_FLIGHT] = max(state[LONG_IN_FLIGHT], float(event.in_flight_at_send))
        if state[MODE] == UP and at_bound:
            state[LONG_IN_FLIGHT] += event.acked_packets / state[ACKED_PER_PACKET]
            if round_begins:
                grow_faster(flow)
    return False


@njit(forceinline=True)
def update_cycle(flow: Any, event: Any, rate: float, round_begins: bool) -> None:
    """Advance the cycle of DOWN, CRUISE, REFILL and UP (UpdateProbeBWCyclePhase)."""
    state = flow.state
    if not state[PIPE_IS_FULL]:
        return
    at_bound = event.window_limited != 0 and flow.cwnd >= state[LONG_IN_FLIGHT]
    if adapt_long_term(flow, event, round_begins, at_bound):
        return
    mode = state[MODE]
    if mode in (DOWN, CRUISE):
        if is_time_to_probe(flow, event):
            enter_refill(flow, event)
        elif mode == DOWN and is_time_to_cruise(flow, event):
            state[MODE] = CRUISE
    elif mode == REFILL:
        if round_begins:
            enter_up(flow, event, rate)
    elif mode == UP and is_time_to_go_down(flow, event, rate, at_bound):
        enter_down(flow, event)
