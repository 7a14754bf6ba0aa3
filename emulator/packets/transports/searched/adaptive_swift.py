"""Adaptive Swift: Swift's window control, with a target of the queue that adapts to other laws.

At each ACK the window follows the round trip, as in Swift (Kumar et al., SIGCOMM 2020, algorithm 1): it grows
additively while the queue is below a target, and decreases in proportion to the excess at most once per round
trip. The target is larger for small windows, which makes shares equal (3.5). What is different:

- Others that keep longer queues would take everything. They are noticed after some round trips in which
  decreases had no effect, and the target rises; meanwhile marks count, too (module ``other_laws``). Queues
  that many flows of its own keep are no sign.
- Others may respond to marks: then the queue is not far above the shortest one that was marked. If decreases
  have no effect there, marks rule the window instead of the delay, as in DCTCP (RFC 8257, 3.3), until the
  queue is far above. A raised target would not do: it is above or below the threshold, and takes all or
  nothing. The shortest marked queue is kept for good, so one that was too short turns this rule off.
- A window first grows by a gain of one. It halves with each decrease, and doubles, up to a quarter, in each
  round in which the queue was short for a moment. So a burst of another flow does not end the start, and
  windows on long paths, which additive growth would take hundreds of round trips to fill, follow the room
  that others leave. The mean queue would be no sign of room: bursts keep it above the target.
- The gain is a share of the geometric mean of the window and of the packets on the empty path. So of several
  flows the small ones grow faster; shares of the windows alone would keep their proportion.
- A decrease is the excess over the queue and the path, of which no more than 200 packets count, and additive
  growth is more on long paths. Else flows on them would take thousands of round trips to share.
- A window may grow if at least half of it was in flight (RFC 7661, 4.3): a paced one is full at few moments.
- Windows are paced, in the start at an eighth of the line's rate or more, which shortens small flows on long
  paths and changes nothing where a window is sent faster anyway, as in an incast.
- A receiver that delays ACKs lets a single packet wait for its timer, which looks like a long queue. Where
  the window is below two packets, two leave together, at the window's rate. Linux, too, hands two packets or
  more to its network card at once.
- An ACK that gives no round trip, as of retransmissions after a time-out, lets the window grow as a short
  queue does, at the pace of the empty path.
- A loss matters as much as the queue that was seen with it. Random losses therefore matter little.
- Where hosts are not told of the empty path, flows drain it now and then (module ``drains``).

Delays that are no queue vary from packet to packet: hosts and switches are late, segments are gathered. So
the target has an addition for the mean change of the round trip from an ACK to the next, up to the packets on
the empty path, and the less, the more packets are marked. A delay that does not vary is taken for a queue.

It has 21 constants, in packets, round trips and shares, that need no change with the rate. They are the
transport's parameters: a search over them needs no compilation.
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

Searches set six. They leave those alone that matter most beside other laws, after losses or where delays
vary, which would pay for a higher score elsewhere, and ``first_window`` and ``most_decrease``, which crowds
at the threshold of marks need. With less ``patience`` than its bound, many flows of its own take each other
for other laws.
"""

N_PARAMETERS = len(CONSTANTS)
(
    FIRST_WINDOW, TARGET, TARGET_OF_SMALL, TARGET_OF_NOISE, LARGE_WINDOW, GROWTH, CALM_GROWTH, GROWTH_BESIDE,
    START_GROWTH, DECREASE, MOST_DECREASE, PACE, PATIENCE, PATIENCE_AGAIN, STRETCH_UP, STRETCH_DOWN,
    STRETCH_CALM, MARK_DECREASE, MARKS_MEMORY, LOSS_DECREASE, LOSS_LEAST,
) = range(N_PARAMETERS)  # fmt: skip

MOST_WINDOW = 1e6  # packets
SMALLEST_TARGETED = 0.04  # packets; smaller windows have no larger targets
OWN_WINDOW = 1.0  # packets; queues up to the target of such a window are no sign of other laws
ROUNDS_IN_VAIN = 8.0
CALM_QUEUE = 0.25  # of the target; a round whose least queue is shorter is calm
LEAST_GAIN = 1.0 / 64.0  # a smaller one is none
GROWTH_OF_PATH = 1.0 / 512.0  # additive growth, over the packets on the empty path
LONG_PATH = 200.0  # packets of the path that count in a decrease at most
PACE_OF_GAIN = 0.5  # windows a round trip; what a window grows by has to be sent
LEAST_OF_LINE = 0.125  # least pace over the line's rate, for a gain of one
TOGETHER = 2  # packets that leave together where the window is smaller: an ACK of a receiver that delays them
MARKS_IGNORED = 4.0  # power of the slow average of marks
MARKS_SHOWN = 0.05  # slow average above which all delay is a queue, and others may respond to marks
PATIENCE_AT_THRESHOLD = 6.0  # factor of a decrease without effect, from which marks rule the window
ROUNDS_AT_THRESHOLD = 24.0  # rounds in vain after which they do
MARKED_GROWTH = 1.0  # growth while marks rule the window, packets a round trip; RFC 8257 has Reno's
MARKED_DECREASE = 0.5  # decrease over the average share of marks then (RFC 8257, 3.3)
LOSS_REST = 16.0  # round trips

# Slots of flow.state, beside those of rounds, other_laws, drains and mark_threshold.
DECREASED_AT_NS = mark_threshold.OWN
GAIN = mark_threshold.OWN + 1  # growth in a round trip, over the geometric mean of window and path
BY_MARKS = mark_threshold.OWN + 2  # 1 while marks rule the window instead of the delay
IN_VAIN_AT_THRESHOLD = mark_threshold.OWN + 3  # as IN_VAIN, of rounds up to the threshold of marks


@njit(forceinline=True)
def set_window(flow: Any, event: Any, window: float, rtt_ns: float) -> None:
    """Set window and pace; below two packets, two leave together, at the window's rate."""
    gain = flow.state[GAIN]
    bound_window(flow, window, MOST_WINDOW, TOGETHER)
    pace_window(flow, parameter(event, PACE) + PACE_OF_GAIN * gain, rtt_ns, TOGETHER)
    if flow.state[WINDOW] >= TOGETHER:
        flow.pacing_rate_bps = max(flow.pacing_rate_bps, LEAST_OF_LINE * gain * flow.line_rate_bps)


@njit(forceinline=True)
def keep_little_in_flight(flow: Any, event: Any) -> None:
    """Set window and pace of a drain; the window after it stays as it is."""
    window = flow.state[WINDOW]
    set_window(flow, event, drains.drained_window(flow), present_rtt_ns(flow))
    flow.state[WINDOW] = window


@njit(forceinline=True)
def target_at(event: Any, window: float) -> float:
    """Return the target of a window where there are no other laws and no noise; both are in packets."""
    share = 1.0 / math.sqrt(max(window, SMALLEST_TARGETED))
    share -= 1.0 / math.sqrt(parameter(event, LARGE_WINDOW))
    return float(parameter(event, TARGET) + parameter(event, TARGET_OF_SMALL) * max(share, 0.0))


@njit(forceinline=True)
def target_of_noise(flow: Any, event: Any) -> float:
    """Return the addition, in packets, for delays that vary: the less, the more packets are marked."""
    noise = parameter(event, TARGET_OF_NOISE) * rtt_change_packets(flow)
    unmarked = max(1.0 - flow.state[MARKS] / MARKS_SHOWN, 0.0)
    return float(unmarked * min(noise, path_packets(flow)))


@njit(forceinline=True)
def quiet_target(flow: Any, event: Any) -> float:
    """Return the target of the queue where delays do not vary, in packets."""
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
    """Return the growth, in packets a round trip: another one beside other laws."""
    if flow.state[BY_MARKS] > 0.0:
        return MARKED_GROWTH
    if flow.state[STRETCH] > 0.0:
        return float(parameter(event, GROWTH_BESIDE))
    window, path = flow.state[WINDOW], path_packets(flow)
    additive = parameter(event, GROWTH) + GROWTH_OF_PATH * path
    return float(max(additive, flow.state[GAIN] * math.sqrt(window * max(window, path))))


@njit(forceinline=True)
def is_used(window: float, event: Any) -> bool:
    """Return whether at least half of the window was in flight (RFC 7661, 4.3); small ones always are."""
    return bool(event.window_limited or window < TOGETHER or window < 2.0 * event.in_flight_packets)


@njit(forceinline=True)
def grow(flow: Any, event: Any) -> None:
    """Grow, if the window is used."""
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
    """Grow without marks; with one, decrease at most once per round trip (RFC 8257, 3.3)."""
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
    """Grow or decrease by what an ACK tells of marks or of the queue; without a round trip, grow."""
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
    """Double the gain, up to its largest after the start, if the queue was short for a moment.

    Against the target without noise: of many round trips that vary the least is short in any case.
    """
    gain = flow.state[GAIN]
    if least_queue(flow) < CALM_QUEUE * target:
        flow.state[GAIN] = max(gain, min(max(2.0 * gain, LEAST_GAIN), parameter(event, CALM_GROWTH)))


@njit(forceinline=True)
def is_at_threshold(flow: Any, queue: float) -> bool:
    """Return whether laws that respond to marks may keep such a mean queue: others keep longer ones."""
    state = flow.state
    shown = state[STRETCH] == 0.0 and state[MARKS] > MARKS_SHOWN
    return bool(shown and is_up_to_threshold(flow, queue))


@njit
def follow_target(flow: Any, event: Any, factor: float) -> None:
    """Adapt the target to the company of the round; beside other laws multiply the window by marks' factor.

    Up to a little above the threshold of marks, where decreases have no effect, marks rule the window from
    now on. Rounds in vain are counted apart there: those of smaller decreases must not raise the target.
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
    """Let the delay rule the window, until other decreases are in vain."""
    flow.state[BY_MARKS] = 0.0
    flow.state[IN_VAIN] = 0.0
    flow.state[IN_VAIN_AT_THRESHOLD] = 0.0


@njit
def end_marked_round(flow: Any) -> None:
    """Let the delay rule the window again if the queue is far above the threshold of marks."""
    state = flow.state
    queue = mean_queue(flow)
    state[QUEUE_BEFORE] = queue
    state[QUEUE] = 1.0
    state[WINDOW_BELOW] = state[WINDOW]
    if is_far_above_threshold(flow, queue):
        follow_delay_again(flow)


@njit
def end_round(flow: Any, event: Any) -> None:
    """Average the round's marks, and note by what the window is ruled in the next one."""
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
    """Compare the round trip with the target, which adapts once per round trip; a drain comes before that."""
    if drains.is_draining(flow, event):
        keep_little_in_flight(flow, event)
        return
    count_ack(flow, event)
    answer(flow, event)
    if round_is_over(flow):
        end_round(flow, event)
    set_window(flow, event, flow.state[WINDOW], pacing_rtt_ns(flow, event))


def on_loss(flow: Any, event: Any) -> None:
    """Reduce the window, the less, the shorter the queue was."""
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
        ecn_capable=True,
        parameters=checked_values(NAME, CONSTANTS, parameters),
        constants=CONSTANTS,
    )
