"""Adaptive Swift: Swift's window control, with a queue target that adapts to other laws.

At each ACK the window follows the round-trip time, as in Swift (Kumar et al., SIGCOMM 2020, algorithm 1): it
grows additively while the queue is below a target, and decreases in proportion to the excess at most once per
round trip. The target is larger for small windows, which makes shares equal (3.5). Differences from Swift:

- Flows of other laws that keep longer queues would take all capacity. The law detects them by round trips in
  which its decreases had no effect, and raises the target. While the target is raised, marks count, too
  (module ``other_laws``). Queues that its own flows can keep do not raise the target.
- Flows of other laws may respond to marks: then the queue is not far above the shortest marked queue. If
  decreases have no effect there, marks control the window instead of the delay, as in DCTCP (RFC 8257, 3.3),
  until the queue is far above. A raised target would not suffice: above the marking threshold it takes all
  capacity, below it nothing. The shortest marked queue is kept for good, so a value that is too short
  disables this rule.
- The gain, which scales a window's growth, is one at the start. It halves with each decrease, and doubles,
  up to a quarter, in each round in which the queue was short for a moment. A burst of another flow therefore
  does not end the start, and on long paths, which additive growth would take hundreds of round trips to fill,
  windows use the capacity that other flows leave. The mean queue does not indicate free capacity, because
  bursts keep it above the target.
- Growth is the gain times the geometric mean of the window and the bandwidth-delay product (BDP). Smaller
  windows thus grow faster in proportion; growth by a constant fraction would preserve the windows' ratio.
- The decrease is relative to the queue plus the BDP, of which at most 200 packets count, and additive growth
  is larger on long paths. Otherwise flows on long paths would converge only in thousands of round trips.
- A window may grow if at least half of it was in flight (RFC 7661, 4.3), because paced windows are rarely
  full.
- Windows are paced, at the start at an eighth of the line rate or more. This shortens small flows on long
  paths, and has no effect if the window is sent faster anyway, as in an incast.
- A receiver with delayed ACKs acknowledges a single packet only when its timer expires, which looks like a
  long queue. Below a window of two packets, two packets therefore leave together, at the window's rate. Linux
  also passes at least two packets to its network card at once.
- An ACK without an RTT sample, as of a retransmission after a time-out, lets the window grow as below the
  target, paced by the base round-trip time.
- The decrease after a loss grows with the queue, up to the target. Random losses thus have little effect.
- If hosts do not know the base round-trip time, flows drain the path from time to time (module ``drains``).

Delays other than queueing vary from packet to packet, as hosts and switches are late and segments are
aggregated. The target therefore has a term for the mean change of the round-trip time from one ACK to the
next, up to the BDP; the term falls with the fraction of marked packets. A constant delay counts as a queue.

The law has 21 constants, in packets, round trips and fractions, which do not depend on the rate. They are the
transport's parameters, so a search over them needs no compilation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import Transport, parameter
from sysgym.emulator.packets.transports.constants import Constant, checked_values
from sysgym.emulator.packets.transports.searched import drains, mark_threshold
from sysgym.emulator.packets.transports.searched.mark_threshold import (
    is_far_above_threshold,
    is_up_to_threshold,
    note_marked_queue,
)
from sysgym.emulator.packets.transports.searched.other_laws import (
    IN_VAIN,
    MARKS,
    QUEUE,
    QUEUE_BEFORE,
    RESTS,
    STRETCH,
    WINDOW_BELOW,
    adapt_target,
    factor_of_marks,
    least_queue,
    mean_queue,
    weight_of_loss,
)
from sysgym.emulator.packets.transports.searched.rounds import (
    ALPHA,
    LOST,
    WINDOW,
    begin_round,
    bound_window,
    count_ack,
    note_rtt_change,
    pace_window,
    pacing_rtt_ns,
    path_packets,
    present_queue,
    present_rtt_ns,
    round_is_over,
    rtt_change_packets,
)

NAME = "adaptive_swift"

CONSTANTS = (
    Constant("first_window", 1.0, 0.05, 8.0, "first window over the scenario's", searched=False),
    Constant("target", 2.0, 0.25, 64.0, "target of the queue, packets", searched=False),
    Constant("target_of_small", 32.0, 0.5, 128.0, "addition, over 1 / sqrt(window)", searched=False),
    Constant("target_of_noise", 4.0, 0.1, 16.0, "addition, over the change of round trips", searched=False),
    Constant("large_window", 160.0, 8.0, 2000.0, "window from which nothing is added, packets"),
    Constant("growth", 1.0, 0.1, 16.0, "growth, packets a round trip (additive increase)"),
    Constant("calm_growth", 0.25, 0.01, 1.0, "largest gain after calm rounds"),
    Constant("growth_beside", 4.0, 0.1, 16.0, "growth while the target is raised", searched=False),
    Constant("start_growth", 1.0, 0.05, 2.0, "gain at the start"),
    Constant("decrease", 0.8, 0.05, 2.0, "decrease over the relative excess"),
    Constant("most_decrease", 0.15, 0.03, 0.75, "largest decrease of a round trip", searched=False),
    Constant("pace", 1.5, 1.0, 8.0, "pace, windows a round trip"),
    Constant("patience", 20.0, 20.0, 256.0, "factor in vain from which the target rises", searched=False),
    Constant("patience_again", 2.0, 1.05, 8.0, "the same while the target is raised", searched=False),
    Constant("stretch_up", 2.0, 0.05, 4.0, "doublings above the queue to which it rises", searched=False),
    Constant("stretch_down", 0.05, 0.001, 1.0, "doublings by which it falls in a round trip", searched=False),
    Constant("stretch_calm", 0.5, 0.05, 2.0, "halvings of the decrease for each doubling", searched=False),
    Constant("mark_decrease", 0.3, 0.01, 1.0, "decrease over the average share of marks", searched=False),
    Constant("marks_memory", 0.2, 0.002, 0.5, "gain of the slow average of marks", searched=False),
    Constant("loss_decrease", 0.5, 0.1, 0.7, "decrease after a loss at the target or above", searched=False),
    Constant("loss_least", 0.1, 0.01, 0.7, "decrease without a queue, over the former", searched=False),
)
"""Constants of the law, in the order of the transport's parameters.

Searches set six of them. The other constants matter most beside other laws, after losses or with varying
delays, and a search would trade this behaviour for a higher score elsewhere. ``first_window`` and
``most_decrease`` must suit many flows at the marking threshold. With ``patience`` below its bound, many flows
of the law take each other for flows of other laws.
"""

N_PARAMETERS = len(CONSTANTS)
(
    FIRST_WINDOW, TARGET, TARGET_OF_SMALL, TARGET_OF_NOISE, LARGE_WINDOW, GROWTH, CALM_GROWTH, GROWTH_BESIDE,
    START_GROWTH, DECREASE, MOST_DECREASE, PACE, PATIENCE, PATIENCE_AGAIN, STRETCH_UP, STRETCH_DOWN,
    STRETCH_CALM, MARK_DECREASE, MARKS_MEMORY, LOSS_DECREASE, LOSS_LEAST,
) = range(N_PARAMETERS)  # fmt: skip

MOST_WINDOW = 1e6  # packets
SMALLEST_TARGETED = 0.04  # packets; smaller windows have no larger targets
OWN_WINDOW = 1.0  # packets; queues up to the target of such a window do not indicate other laws
ROUNDS_IN_VAIN = 8.0
CALM_QUEUE = 0.25  # of the target; a round whose least queue is shorter is calm
LEAST_GAIN = 1.0 / 64.0  # smaller gains become 0
GROWTH_OF_PATH = 1.0 / 512.0  # additive growth over the BDP
LONG_PATH = 200.0  # largest BDP that counts in a decrease, packets
PACE_OF_GAIN = 0.5  # windows per round trip for a gain of one, so that the growth can be sent
LEAST_OF_LINE = 0.125  # least pace over the line rate, for a gain of one
TOGETHER = 2  # packets that leave together below this window: receivers with delayed ACKs acknowledge two
MARKS_IGNORED = 4.0  # exponent of the slow average of marks
MARKS_SHOWN = 0.05  # slow average above which all delay is queueing, and other laws may respond to marks
PATIENCE_AT_THRESHOLD = 6.0  # factor of decreases without effect from which marks control the window
ROUNDS_AT_THRESHOLD = 24.0  # rounds without effect after which marks control the window
MARKED_GROWTH = 1.0  # growth while marks control the window, packets per round trip; Reno's in RFC 8257
MARKED_DECREASE = 0.5  # decrease over the average marked fraction in the same state (RFC 8257, 3.3)
LOSS_REST = 16.0  # round trips

# Slots of flow.state, beside those of rounds, other_laws, drains and mark_threshold.
DECREASED_AT_NS = mark_threshold.OWN
GAIN = mark_threshold.OWN + 1  # growth in a round trip, over the geometric mean of window and BDP
BY_MARKS = mark_threshold.OWN + 2  # 1 while marks control the window instead of the delay
IN_VAIN_AT_THRESHOLD = mark_threshold.OWN + 3  # as IN_VAIN, for rounds at the marking threshold


@njit(forceinline=True)
def set_window(flow: Any, event: Any, window: float, rtt_ns: float) -> None:
    """Set window and pace; below a window of two packets, two leave together, at the window's rate."""
    gain = flow.state[GAIN]
    bound_window(flow, window, MOST_WINDOW, TOGETHER)
    pace_window(flow, parameter(event, PACE) + PACE_OF_GAIN * gain, rtt_ns, TOGETHER)
    if flow.state[WINDOW] >= TOGETHER:
        flow.pacing_rate_bps = max(flow.pacing_rate_bps, LEAST_OF_LINE * gain * flow.line_rate_bps)


@njit(forceinline=True)
def keep_little_in_flight(flow: Any, event: Any) -> None:
    """Set window and pace of a drain, and keep the window for the time after it."""
    window = flow.state[WINDOW]
    set_window(flow, event, drains.drained_window(flow), present_rtt_ns(flow))
    flow.state[WINDOW] = window


@njit(forceinline=True)
def target_at(event: Any, window: float) -> float:
    """Return the target for a window without other laws and noise; both are in packets."""
    share = 1.0 / math.sqrt(max(window, SMALLEST_TARGETED))
    share -= 1.0 / math.sqrt(parameter(event, LARGE_WINDOW))
    return float(parameter(event, TARGET) + parameter(event, TARGET_OF_SMALL) * max(share, 0.0))


@njit(forceinline=True)
def target_of_noise(flow: Any, event: Any) -> float:
    """Return the target's term for varying delays, in packets, which falls with the marked fraction."""
    noise = parameter(event, TARGET_OF_NOISE) * rtt_change_packets(flow)
    unmarked = max(1.0 - flow.state[MARKS] / MARKS_SHOWN, 0.0)
    return float(unmarked * min(noise, path_packets(flow)))


@njit(forceinline=True)
def quiet_target(flow: Any, event: Any) -> float:
    """Return the target of the queue without the term for varying delays, in packets."""
    return float(target_at(event, flow.state[WINDOW]) * 2.0 ** flow.state[STRETCH])


@njit(forceinline=True)
def present_target(flow: Any, event: Any) -> float:
    """Return the target of the queue, in packets."""
    return quiet_target(flow, event) + target_of_noise(flow, event)


@njit(forceinline=True)
def may_decrease(flow: Any, event: Any) -> bool:
    """Return whether a round trip has passed since the last decrease."""
    return bool(event.now_ns - flow.state[DECREASED_AT_NS] >= present_rtt_ns(flow))


@njit(forceinline=True)
def present_growth(flow: Any, event: Any) -> float:
    """Return the growth in packets per round trip, which has a separate constant beside other laws."""
    if flow.state[BY_MARKS] > 0.0:
        return MARKED_GROWTH
    if flow.state[STRETCH] > 0.0:
        return float(parameter(event, GROWTH_BESIDE))
    window, path = flow.state[WINDOW], path_packets(flow)
    additive = parameter(event, GROWTH) + GROWTH_OF_PATH * path
    return float(max(additive, flow.state[GAIN] * math.sqrt(window * max(window, path))))


@njit(forceinline=True)
def is_used(window: float, event: Any) -> bool:
    """Return whether half of the window was in flight (RFC 7661, 4.3); small windows are always used."""
    return bool(event.window_limited or window < TOGETHER or window < 2.0 * event.in_flight_packets)


@njit(forceinline=True)
def grow(flow: Any, event: Any) -> None:
    """Grow the window if it is used."""
    window = flow.state[WINDOW]
    if flow.in_recovery or event.duplicate or not is_used(window, event):
        return
    share = min(event.acked_packets / max(window, 1.0), 1.0)
    flow.state[WINDOW] += present_growth(flow, event) * share


@njit(forceinline=True)
def decrease_by(flow: Any, event: Any, share: float) -> None:
    """Decrease the window by a share of itself, and halve its gain."""
    state = flow.state
    state[DECREASED_AT_NS] = event.now_ns
    state[WINDOW] *= 1.0 - share
    gain = 0.5 * state[GAIN]
    state[GAIN] = gain if gain >= LEAST_GAIN else 0.0


@njit(forceinline=True)
def follow_marks(flow: Any, event: Any) -> None:
    """Grow at unmarked ACKs; decrease at marked ones, at most once per round trip (RFC 8257, 3.3)."""
    if not event.marked:
        grow(flow, event)
    elif may_decrease(flow, event):
        decrease_by(flow, event, MARKED_DECREASE * flow.state[ALPHA])


@njit(forceinline=True)
def follow_delay(flow: Any, event: Any) -> None:
    """Grow while the queue is below the target; above it, decrease at most once per round trip."""
    state = flow.state
    queue = present_queue(flow, event)
    target = present_target(flow, event)
    if queue < target:
        grow(flow, event)
    elif may_decrease(flow, event):
        excess = (queue - target) / (queue + min(path_packets(flow), LONG_PATH))
        decrease = parameter(event, DECREASE) * excess
        decrease *= 2.0 ** (-parameter(event, STRETCH_CALM) * state[STRETCH])
        decrease_by(flow, event, min(decrease, parameter(event, MOST_DECREASE)))


@njit(forceinline=True)
def answer(flow: Any, event: Any) -> None:
    """Grow or decrease according to the ACK's mark or queue; without an RTT sample, grow."""
    if event.rtt_sampled:
        note_rtt_change(flow, event)
        if event.marked:
            note_marked_queue(flow, present_queue(flow, event))
    if flow.state[BY_MARKS] > 0.0:
        follow_marks(flow, event)
    elif event.rtt_sampled:
        follow_delay(flow, event)
    else:
        grow(flow, event)


@njit(forceinline=True)
def note_calm(flow: Any, event: Any, target: float) -> None:
    """Double the gain, up to ``calm_growth``, if the queue was short for a moment.

    The target is without noise, because the least of many varying round trips is always short.
    """
    gain = flow.state[GAIN]
    if least_queue(flow) < CALM_QUEUE * target:
        flow.state[GAIN] = max(gain, min(max(2.0 * gain, LEAST_GAIN), parameter(event, CALM_GROWTH)))


@njit(forceinline=True)
def is_at_threshold(flow: Any, queue: float) -> bool:
    """Return whether other laws that respond to marks may keep this mean queue; the rest keep longer ones."""
    state = flow.state
    shown = state[STRETCH] == 0.0 and state[MARKS] > MARKS_SHOWN
    return bool(shown and is_up_to_threshold(flow, queue))


@njit
def follow_target(flow: Any, event: Any, factor: float) -> None:
    """Adapt the target to other laws; beside them, multiply the window by the factor of marks.

    If decreases have no effect up to slightly above the marking threshold, marks control the window from now
    on. Rounds without effect have a separate counter there, because their smaller decreases must not raise
    the target.
    """
    state = flow.state
    quiet, noise = quiet_target(flow, event), target_of_noise(flow, event)
    note_calm(flow, event, quiet)
    queue = mean_queue(flow)
    at_threshold = is_at_threshold(flow, queue)
    own = target_at(event, OWN_WINDOW) + noise
    patience = parameter(event, PATIENCE if state[STRETCH] == 0.0 else PATIENCE_AGAIN)
    rounds_in_vain, counter = ROUNDS_IN_VAIN, IN_VAIN
    if at_threshold:
        own, patience = -1.0, PATIENCE_AT_THRESHOLD
        rounds_in_vain, counter = ROUNDS_AT_THRESHOLD, IN_VAIN_AT_THRESHOLD
    adapt_target(
        flow,
        state[WINDOW],
        quiet + noise,
        queue,
        own,
        patience,
        rounds_in_vain,
        parameter(event, STRETCH_UP),
        1.0,
        parameter(event, STRETCH_DOWN),
        counter,
    )
    if at_threshold and state[STRETCH] > 0.0:
        state[STRETCH] = 0.0
        state[BY_MARKS] = 1.0
    if state[STRETCH] > 0.0 and state[LOST] == 0.0:
        state[WINDOW] *= factor


@njit(forceinline=True)
def follow_delay_again(flow: Any) -> None:
    """Let the delay control the window, until further decreases have no effect."""
    flow.state[BY_MARKS] = 0.0
    flow.state[IN_VAIN] = 0.0
    flow.state[IN_VAIN_AT_THRESHOLD] = 0.0


@njit
def end_marked_round(flow: Any) -> None:
    """Let the delay control the window again if the queue is far above the marking threshold."""
    state = flow.state
    queue = mean_queue(flow)
    state[QUEUE_BEFORE] = queue
    state[QUEUE] = 1.0
    state[WINDOW_BELOW] = state[WINDOW]
    if is_far_above_threshold(flow, queue):
        follow_delay_again(flow)


@njit
def end_round(flow: Any, event: Any) -> None:
    """Update the averages of marks, and choose the target or the control by marks for the next round."""
    state = flow.state
    factor = factor_of_marks(
        flow, parameter(event, MARK_DECREASE), parameter(event, MARKS_MEMORY), MARKS_IGNORED
    )
    if state[drains.JUST_DRAINED] > 0.0:
        state[drains.JUST_DRAINED] = 0.0
    elif state[BY_MARKS] > 0.0:
        end_marked_round(flow)
    else:
        follow_target(flow, event, factor)
    state[RESTS] = max(state[RESTS] - 1.0, 0.0)
    begin_round(flow)


def on_start(flow: Any, event: Any) -> None:
    """Set the first window."""
    state = flow.state
    state[QUEUE] = 1.0  # unknown
    state[DECREASED_AT_NS] = -1e18
    state[GAIN] = parameter(event, START_GROWTH)
    begin_round(flow)
    drains.count_from_now(flow, event)
    set_window(flow, event, flow.cwnd * parameter(event, FIRST_WINDOW), present_rtt_ns(flow))
    state[WINDOW_BELOW] = state[WINDOW]


def on_ack(flow: Any, event: Any) -> None:
    """Compare the round trip with the target, which adapts once per round trip, unless the flow drains."""
    if drains.is_draining(flow, event):
        keep_little_in_flight(flow, event)
        return
    count_ack(flow, event)
    answer(flow, event)
    if round_is_over(flow):
        end_round(flow, event)
    set_window(flow, event, flow.state[WINDOW], pacing_rtt_ns(flow, event))


def on_loss(flow: Any, event: Any) -> None:
    """Reduce the window, less after a shorter queue."""
    flow.state[LOST] = 1.0
    weight = weight_of_loss(flow, parameter(event, LOSS_LEAST), LOSS_REST)
    decrease_by(flow, event, parameter(event, LOSS_DECREASE) * weight)
    if flow.state[drains.DRAIN_END_NS] > 0.0:
        keep_little_in_flight(flow, event)
    else:
        set_window(flow, event, flow.state[WINDOW], present_rtt_ns(flow))


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from a window of one packet (RFC 5681, 3.1), though two may leave together."""
    begin_round(flow)
    drains.count_from_now(flow, event)
    flow.state[LOST] = 1.0
    if flow.state[BY_MARKS] > 0.0:
        follow_delay_again(flow)
    flow.state[GAIN] = parameter(event, START_GROWTH)
    set_window(flow, event, 1.0, present_rtt_ns(flow))


def adaptive_swift_transport(parameters: Iterable[float]) -> Transport:
    """Return the transport with the given constants.

    Args:
        parameters: A value for each of :data:`CONSTANTS`.

    Raises:
        SysgymError: If their number is wrong, or one is outside its bounds.
    """
    return Transport(
        name=NAME,
        summary="Swift with a target that adapts to other laws",
        reference="after Kumar et al. (Swift), SIGCOMM 2020, and RFC 8257",
        on_start=on_start,
        on_ack=on_ack,
        on_loss=on_loss,
        on_timeout=on_timeout,
        overwrites_window=True,
        ecn_capable=True,
        parameters=checked_values(NAME, CONSTANTS, parameters),
        constants=CONSTANTS,
    )
