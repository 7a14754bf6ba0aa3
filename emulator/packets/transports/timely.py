"""TIMELY: rate control by the gradient of the round-trip time (Mittal et al., SIGCOMM 2015).

Between a low and a high threshold, the rate grows while the delay falls, and shrinks in proportion to the
gradient while it rises. Outside the thresholds the delay itself decides. After several rounds of falling
delay the rate grows faster (hyperactive increase).

``timely_patched`` is the variant of Zhu, Ghobadi, Misra and Padhye, "ECN or Delay", CoNEXT 2016. The queue of
TIMELY has no unique fixed point, and its shares need not become equal. The variant adds the distance from a
reference delay to the decision, with a weight that depends on the gradient.

The paper's thresholds, 50 and 500 us, are for a network with a minimum round trip of 20 us. The queueing
delays that they allow, 30 and 480 us, are kept here and added to the base round trip of the flow's own path.
The rate is updated for every 16 kB acknowledged (the paper's segments), and for every packet of a flow too
slow to send as much in a round trip. RDMA has no losses; here a loss halves the rate.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.memory.flow_record import NO_WINDOW_PACKETS
from sysgym.emulator.packets.transports.base import Transport, slow_line_stretch

NEW_SAMPLE = 0.875  # alpha, weight of a new difference
BETA = 0.8  # multiplicative decrease
LOW_QUEUE_NS = 30_000.0  # T_low of 50 us less a round trip of 20 us
HIGH_QUEUE_NS = 480_000.0  # T_high of 500 us less 20 us
INCREASE_FRACTION = 1e-3  # delta, of the line rate: 10 Mb/s at 10 Gb/s
HYPERACTIVE_AFTER = 5.0  # decisions in a row with a falling delay
HYPERACTIVE_STEPS = 5.0  # N
SEGMENT_BYTES = 16_000.0
MIN_RATE_FRACTION = 1e-3  # of the line rate
LOSS_FACTOR = 0.5

PATCHED_BETA = 0.008
PATCHED_SLOPE_ENDS_AT = 0.25  # the weight rises from 0 to 1 between minus and plus this gradient

# Slots of flow.state.
RATE_BPS = 0
PREVIOUS_RTT_NS = 1
RTT_DIFFERENCE_NS = 2
GOOD_ROUNDS = 3
ACKED_BYTES = 4  # since the last decision
DECIDED_AT_NS = 5


@njit(forceinline=True)
def low_ns(flow: Any) -> float:
    """Return T_low, below which the rate grows whatever the gradient."""
    return flow.base_rtt_ns + slow_line_stretch(flow) * LOW_QUEUE_NS


@njit(forceinline=True)
def high_ns(flow: Any) -> float:
    """Return T_high, above which the rate shrinks whatever the gradient."""
    return flow.base_rtt_ns + slow_line_stretch(flow) * HIGH_QUEUE_NS


@njit(forceinline=True)
def set_rate(flow: Any, rate_bps: float) -> None:
    """Set the rate, within the line rate and a thousandth of it."""
    flow.state[RATE_BPS] = min(max(rate_bps, MIN_RATE_FRACTION * flow.line_rate_bps), flow.line_rate_bps)
    flow.pacing_rate_bps = flow.state[RATE_BPS]


@njit(forceinline=True)
def decision_is_due(flow: Any, event: Any) -> bool:
    """Return whether a segment has been acknowledged or a round trip is over."""
    state = flow.state
    state[ACKED_BYTES] += event.acked_packets * flow.packet_bytes
    if not event.rtt_sampled:
        return False
    if state[ACKED_BYTES] < SEGMENT_BYTES and event.now_ns - state[DECIDED_AT_NS] < event.rtt_ns:
        return False
    state[ACKED_BYTES] = 0.0
    state[DECIDED_AT_NS] = event.now_ns
    return True


@njit(forceinline=True)
def rtt_gradient(flow: Any, event: Any) -> float:
    """Return the smoothed change of the round-trip time, relative to the minimum."""
    state = flow.state
    if state[PREVIOUS_RTT_NS] > 0.0:
        difference_ns = event.rtt_ns - state[PREVIOUS_RTT_NS]
        state[RTT_DIFFERENCE_NS] += NEW_SAMPLE * (difference_ns - state[RTT_DIFFERENCE_NS])
    state[PREVIOUS_RTT_NS] = event.rtt_ns
    return state[RTT_DIFFERENCE_NS] / flow.base_rtt_ns


def on_start(flow: Any, event: Any) -> None:
    """Start at line rate; the card divides it among flows, which gives the paper's C / (N + 1)."""
    flow.cwnd = NO_WINDOW_PACKETS
    flow.state[DECIDED_AT_NS] = event.now_ns
    set_rate(flow, flow.line_rate_bps)


def on_ack(flow: Any, event: Any) -> None:
    """Update the rate, once per segment."""
    if not decision_is_due(flow, event):
        return
    state = flow.state
    gradient = rtt_gradient(flow, event)
    step_bps = INCREASE_FRACTION * flow.line_rate_bps
    rate_bps = state[RATE_BPS]
    if event.rtt_ns < low_ns(flow):
        set_rate(flow, rate_bps + step_bps)
    elif event.rtt_ns > high_ns(flow):
        state[GOOD_ROUNDS] = 0.0
        set_rate(flow, rate_bps * (1.0 - BETA * (1.0 - high_ns(flow) / event.rtt_ns)))
    elif gradient <= 0.0:
        state[GOOD_ROUNDS] += 1.0
        steps = HYPERACTIVE_STEPS if state[GOOD_ROUNDS] >= HYPERACTIVE_AFTER else 1.0
        set_rate(flow, rate_bps + steps * step_bps)
    else:
        state[GOOD_ROUNDS] = 0.0
        set_rate(flow, rate_bps * (1.0 - BETA * min(gradient, 1.0)))


def on_ack_patched(flow: Any, event: Any) -> None:
    """Update the rate by the rule of "ECN or Delay", with T_low as the reference delay."""
    if not decision_is_due(flow, event):
        return
    gradient = rtt_gradient(flow, event)
    step_bps = INCREASE_FRACTION * flow.line_rate_bps
    rate_bps = flow.state[RATE_BPS]
    reference_ns = low_ns(flow)
    if event.rtt_ns < reference_ns:
        set_rate(flow, rate_bps + step_bps)
    elif event.rtt_ns > high_ns(flow):
        set_rate(flow, rate_bps * (1.0 - BETA * (1.0 - high_ns(flow) / event.rtt_ns)))
    else:
        weight = min(max(0.5 + 0.5 * gradient / PATCHED_SLOPE_ENDS_AT, 0.0), 1.0)
        excess = (event.rtt_ns - reference_ns) / reference_ns
        set_rate(flow, step_bps * (1.0 - weight) + rate_bps * (1.0 - PATCHED_BETA * weight * excess))


def on_loss(flow: Any, event: Any) -> None:
    """Halve the rate (not in the paper)."""
    set_rate(flow, LOSS_FACTOR * flow.state[RATE_BPS])


TIMELY = Transport(
    name="timely",
    summary="TIMELY: the rate follows the gradient of the round-trip time",
    reference="Mittal et al., SIGCOMM 2015",
    on_start=on_start,
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_loss,
)

TIMELY_PATCHED = Transport(
    name="timely_patched",
    summary="Patched TIMELY: the delay's gradient and its distance from a reference, so that shares converge",
    reference="Zhu et al., CoNEXT 2016",
    on_start=on_start,
    on_ack=on_ack_patched,
    on_loss=on_loss,
    on_timeout=on_loss,
)
