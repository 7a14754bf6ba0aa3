"""Company of other laws: a target of the queue that rises beside laws that keep longer queues.

Used by laws that hold the queue at a target. Beside a law that fills the buffer, or waits for marks, such a
law decreases until it has nothing. It notices that by decreases that have no effect on the queue. They are
then undone, and the target is raised above the queue. It falls back slowly, and rises again if the queue
still does not follow. (Copa, Arun and Balakrishnan, NSDI 2018, and Nimbus, Goyal et al., SIGCOMM 2022, also
have a mode for such company, and other signs of it.)

Marks reduce the window as DCTCP's do (RFC 8257, 3.3), unless nearly every packet has been marked for some
round trips, as beside laws that ignore marks. A loss matters as much as the queue that was seen with it.

The functions use the slots below, beside those of the module ``rounds``; a law keeps its own from
:data:`OWN` on. The kernel's form is ``emulator/linux/bpf/decisions/other_laws.h``.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.searched import rounds
from sysgym.emulator.packets.transports.searched.rounds import (
    ALPHA,
    MARKED,
    RTT_LEAST_NS,
    RTT_SAMPLES,
    RTT_SUM_NS,
    WINDOW,
    line_packets_per_ns,
    marked_share,
)

MARK_GAIN = 1.0 / 16.0  # g, RFC 8257, 4.2
MOST_STRETCH = 16.0  # log2
FOLLOWS = 0.95  # a queue above this share of the last one has not followed the window

STRETCH = rounds.OWN  # log2 of the target over its least
QUEUE = rounds.OWN + 1  # of the last round over the target
QUEUE_BEFORE = rounds.OWN + 2  # packets, of the last round
WINDOW_BELOW = rounds.OWN + 3  # packets, when the queue was last below the target
MARKS = rounds.OWN + 4  # slow average of the marked fraction
RESTS = rounds.OWN + 5  # rounds in which no loss matters
IN_VAIN = rounds.OWN + 6  # rounds whose decreases had no effect, less those since that had
OWN = rounds.OWN + 7


@njit(forceinline=True)
def mean_queue(flow: Any) -> float:
    """Return the queue, in packets of the line, that the mean delay of the round tells of."""
    delay_ns = flow.state[RTT_SUM_NS] / flow.state[RTT_SAMPLES]
    return float(line_packets_per_ns(flow) * max(delay_ns - float(flow.base_rtt_ns), 0.0))


@njit(forceinline=True)
def least_queue(flow: Any) -> float:
    """Return the queue, in packets of the line, that the least delay of the round tells of."""
    return float(line_packets_per_ns(flow) * max(flow.state[RTT_LEAST_NS] - float(flow.base_rtt_ns), 0.0))


@njit
def adapt_target(
    flow: Any,
    window: float,
    target: float,
    queue: float,
    own: float,
    patience: float,
    rounds_in_vain: float,
    up: float,
    undo: float,
    down: float,
    counter: int,
) -> None:
    """Lower the target a little; raise it, and undo the decreases, if the queue does not follow them.

    A queue that flows of its own keep is no sign of others: the target is then the least.

    Args:
        flow: The flow, at the end of a round.
        window: Window of the round which has ended, packets; later decreases had no time to take effect.
        target: Target of the queue in that round, packets.
        queue: Mean queue of the round, packets.
        own: Queue up to which there are flows of its own only, packets; below 0 if that is not known.
        patience: Factor of the decreases without effect from which the target rises.
        rounds_in_vain: Rounds that may show no effect before it rises; one that shows it takes one back,
            because queues of other laws swing.
        up: Doublings by which it then rises above the queue.
        undo: Share of the window before the decreases that is then restored.
        down: Doublings by which it falls in a round.
        counter: Slot that counts the rounds in vain, such as :data:`IN_VAIN`.
    """
    state = flow.state
    follows = queue < FOLLOWS * state[QUEUE_BEFORE]
    state[QUEUE_BEFORE] = queue
    state[QUEUE] = queue / target
    state[STRETCH] = max(state[STRETCH] - down, 0.0)
    in_vain = least_queue(flow) > target and not follows and window * patience < state[WINDOW_BELOW]
    if in_vain and queue > own:
        state[counter] = min(state[counter] + 1.0, rounds_in_vain + 1.0)
    else:
        state[counter] = max(state[counter] - 1.0, 0.0)
    if queue <= own:
        state[STRETCH] = 0.0
    elif state[counter] > rounds_in_vain:
        state[STRETCH] += math.log2(queue / target) + up
        state[WINDOW] = max(state[WINDOW], undo * state[WINDOW_BELOW])
        state[WINDOW_BELOW] = state[WINDOW]
        state[QUEUE] = 1.0
    if queue <= target:
        state[WINDOW_BELOW] = state[WINDOW]
    state[STRETCH] = min(max(state[STRETCH], 0.0), MOST_STRETCH)


@njit
def factor_of_marks(flow: Any, decrease: float, memory: float, ignored: float) -> float:
    """Update the averages of marks, and return by what marks multiply the window.

    Args:
        flow: The flow, at the end of a round.
        decrease: Decrease over the average share of marks.
        memory: Gain of the slow average.
        ignored: Marks count by 1 less the slow average to this power.
    """
    state = flow.state
    share = marked_share(flow)
    state[ALPHA] += MARK_GAIN * (share - state[ALPHA])
    state[MARKS] += memory * (share - state[MARKS])
    if state[MARKED] == 0.0:
        return 1.0
    return float(1.0 - decrease * state[ALPHA] * (1.0 - state[MARKS] ** ignored))


@njit
def weight_of_loss(flow: Any, least: float, rest: float) -> float:
    """Return how much a loss matters, from 0 to 1; while the target is raised, one in ``rest`` rounds does.

    Args:
        flow: The flow.
        least: Weight of a loss without a queue.
        rest: Rounds in which later losses do not matter, while the target is raised.
    """
    state = flow.state
    if state[RESTS] > 0.0:
        return 0.0
    if state[STRETCH] > 0.0:  # others may lose packets all the time
        state[RESTS] = rest
    return max(min(state[QUEUE], 1.0), least)
