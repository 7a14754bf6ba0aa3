"""Coexistence with other laws: a queue target that rises beside laws that keep longer queues.

Used by laws that keep the queue at a target. Beside a law that fills the buffer, or waits for marks, such a
law would decrease its window until it starves. It detects this by decreases that have no effect on the queue,
undoes them, and raises the target above the queue. The target falls back slowly, and rises again if the queue
still does not follow. (Copa, Arun and Balakrishnan, NSDI 2018, and Nimbus, Goyal et al., SIGCOMM 2022, also
have a mode for competing laws, which they detect in other ways.)

Marks reduce the window as in DCTCP (RFC 8257, 3.3), unless nearly every packet has been marked for some round
trips, as beside laws that ignore marks. The weight of a loss grows with the queue.

The functions use the slots below, in addition to those of the module ``rounds``; a law's own slots begin at
:data:`OWN`. The kernel's form is ``emulator/linux/bpf/decisions/other_laws.h``.
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
WINDOW_BELOW = rounds.OWN + 3  # window when the queue was last below the target, packets
MARKS = rounds.OWN + 4  # slow average of the marked fraction
RESTS = rounds.OWN + 5  # remaining rounds in which losses have no effect
IN_VAIN = rounds.OWN + 6  # rounds whose decreases had no effect, less later rounds of any other kind
OWN = rounds.OWN + 7


@njit(forceinline=True)
def mean_queue(flow: Any) -> float:
    """Return the queue that corresponds to the mean delay of the round, in packets at line rate."""
    delay_ns = flow.state[RTT_SUM_NS] / flow.state[RTT_SAMPLES]
    return float(line_packets_per_ns(flow) * max(delay_ns - float(flow.base_rtt_ns), 0.0))


@njit(forceinline=True)
def least_queue(flow: Any) -> float:
    """Return the queue that corresponds to the least delay of the round, in packets at line rate."""
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
    """Lower the target slightly; if the queue does not follow decreases, undo them and raise the target.

    A queue that flows of the same law can keep does not indicate other laws: the target is then the least.

    Args:
        flow: The flow, at the end of a round.
        window: Window of the round which has ended, packets; later decreases had no time to take effect.
        target: Target of the queue in that round, packets.
        queue: Mean queue of the round, packets.
        own: Longest queue that flows of the same law can keep, packets; negative if unknown.
        patience: Factor of the decreases without effect from which the target rises.
        rounds_in_vain: Number of rounds without effect before the target rises; any other round subtracts
            one, because queues of other laws oscillate.
        up: Doublings by which the target then rises above the queue.
        undo: Share of the window before the decreases that is then restored.
        down: Doublings by which the target falls in a round.
        counter: Slot that counts the rounds without effect, such as :data:`IN_VAIN`.
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
    """Update the averages of marks, and return the factor by which marks multiply the window.

    Args:
        flow: The flow, at the end of a round.
        decrease: Decrease over the average marked fraction.
        memory: Gain of the slow average.
        ignored: Exponent of the slow average in the weight of marks, 1 - average ** ignored.
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
    """Return the weight of a loss, from 0 to 1; while the target is raised, one in ``rest`` rounds counts.

    Args:
        flow: The flow.
        least: Weight of a loss without a queue.
        rest: Rounds after a loss in which further losses have no effect, while the target is raised.
    """
    state = flow.state
    if state[RESTS] > 0.0:
        return 0.0
    if state[STRETCH] > 0.0:  # other laws may cause losses all the time
        state[RESTS] = rest
    return max(min(state[QUEUE], 1.0), least)
