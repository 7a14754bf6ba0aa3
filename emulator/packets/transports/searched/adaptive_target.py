"""Adaptive target: queueing delay around a target that adapts to other laws.

Once per round trip the window follows the queue derived from the mean delay of the round, as in Swift (Kumar
et al., SIGCOMM 2020, section 3): it grows additively below a target and decreases in proportion to the excess
above it. The target is larger for small windows, which makes shares equal (3.5). Further rules:

- Flows of other laws that keep longer queues would take all capacity. The law detects them and raises the
  target. It weights marks and losses (:mod:`~sysgym.emulator.packets.transports.searched.other_laws`).
- Young flows grow faster and decrease less, so that short flows finish soon (as in PIAS, Bai et al., NSDI
  2015, which uses priorities).
- After some round trips without a queue, the window grows by a fraction of itself.

The law has 26 constants, in packets, round trips and fractions, so that they suit every line rate. They are
the transport's parameters, so a search over them needs no compilation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import Transport, parameter
from sysgym.emulator.packets.transports.constants import Constant, checked_values
from sysgym.emulator.packets.transports.searched.other_laws import (
    IN_VAIN,
    OWN,
    QUEUE,
    RESTS,
    STRETCH,
    WINDOW_BELOW,
    adapt_target,
    factor_of_marks,
    mean_queue,
    weight_of_loss,
)
from sysgym.emulator.packets.transports.searched.rounds import (
    DELIVERED,
    LOST,
    WINDOW,
    begin_round,
    bound_window,
    count_ack,
    grow_window,
    line_packets_per_ns,
    pace_window,
    path_packets,
    present_rtt_ns,
    round_is_over,
)

NAME = "adaptive_target"


CONSTANTS = (
    Constant("first_window", 1.0, 0.05, 8.0, "first window over the scenario's"),
    Constant("target", 2.0, 0.5, 64.0, "target of the queue, packets"),
    Constant(
        "target_of_small",
        8.0,
        0.5,
        128.0,
        "its addition for a window of one packet; for w packets over sqrt(w)",
    ),
    Constant("target_of_path", 0.02, 0.001, 1.0, "its addition over the path's bandwidth-delay product"),
    Constant("growth", 1.0, 0.1, 8.0, "growth, packets a round trip (additive increase)"),
    Constant("decrease", 0.8, 0.1, 2.0, "decrease over the relative excess"),
    Constant("most_decrease", 0.4, 0.05, 0.75, "largest decrease of a round trip"),
    Constant("mark_decrease", 0.5, 0.01, 1.0, "decrease over the average share of marks"),
    Constant("youth_growth", 1.0, 0.01, 16.0, "addition to a new flow's growth, over the usual one"),
    Constant("youth_calm", 0.5, 0.01, 1.0, "share by which a new flow decreases less"),
    Constant("youth_packets", 64.0, 4.0, 4096.0, "packets after which a flow is half as young"),
    Constant("start_pace", 2.0, 1.0, 16.0, "pace in slow start, windows a round trip"),
    Constant("pace", 1.25, 0.9, 2.5, "pace after slow start, windows a round trip"),
    Constant(
        "patience", 12.0, 1.05, 16.0, "factor of a decrease without effect, from which the target rises"
    ),
    Constant("patience_again", 1.3, 1.05, 8.0, "the same while the target is raised"),
    Constant("stretch_up", 1.0, 0.05, 3.0, "doublings by which the target then rises above the queue"),
    Constant("undo", 1.0, 0.25, 1.5, "share of the window before the decrease that is then restored"),
    Constant("stretch_down", 0.05, 0.001, 1.0, "doublings by which the target falls in a round trip"),
    Constant("stretch_calm", 0.5, 0.05, 2.0, "halvings of the decrease for each doubling of the target"),
    Constant("marks_memory", 0.2, 0.002, 0.5, "gain of the slow average of marks"),
    Constant("marks_ignored", 4.0, 1.0, 32.0, "marks count by 1 less the average to this power"),
    Constant("calm_rounds", 4.0, 1.0, 64.0, "round trips without a queue before growth by a share"),
    Constant("calm_growth", 0.1, 0.01, 1.0, "that share of the window, a round trip"),
    Constant("loss_decrease", 0.4, 0.1, 0.7, "decrease after a loss with a queue at the target or above"),
    Constant("loss_least", 0.1, 0.01, 0.7, "decrease after a loss without a queue, over the former"),
    Constant(
        "loss_rest", 16.0, 0.5, 256.0, "round trips between decreases for losses while the target is raised"
    ),
)
"""Constants of the law, in the order of the transport's parameters."""

N_PARAMETERS = len(CONSTANTS)
(
    FIRST_WINDOW, TARGET, TARGET_OF_SMALL, TARGET_OF_PATH, GROWTH, DECREASE, MOST_DECREASE, MARK_DECREASE,
    YOUTH_GROWTH, YOUTH_CALM, YOUTH_PACKETS, START_PACE, PACE, PATIENCE, PATIENCE_AGAIN, STRETCH_UP, UNDO,
    STRETCH_DOWN, STRETCH_CALM, MARKS_MEMORY, MARKS_IGNORED, CALM_ROUNDS, CALM_GROWTH, LOSS_DECREASE,
    LOSS_LEAST, LOSS_REST,
) = range(N_PARAMETERS)  # fmt: skip

MOST_WINDOW = 1e6  # packets
SMALLEST_TARGETED = 0.04  # packets; smaller windows have no larger targets
CALM = 0.125  # a queue below this share of the target counts as none

# Slots of flow.state, beside those of rounds and other_laws.
CALM_FOR = OWN  # rounds without a queue
PER_ROUND = OWN + 1  # growth, packets per round trip


@njit(forceinline=True)
def set_window(flow: Any, event: Any, window: float) -> None:
    """Set window and pace; below one packet, one is in flight at a time, paced at the window's rate."""
    bound_window(flow, window, MOST_WINDOW)
    pace = parameter(event, START_PACE if flow.state[WINDOW] < flow.ssthresh else PACE)
    pace_window(flow, pace, present_rtt_ns(flow))


@njit
def least_target(flow: Any, event: Any) -> float:
    """Return the target of the queue without other laws, in packets."""
    path = path_packets(flow)
    of_small = parameter(event, TARGET_OF_SMALL) / math.sqrt(max(flow.state[WINDOW], SMALLEST_TARGETED))
    return float(parameter(event, TARGET) + of_small + parameter(event, TARGET_OF_PATH) * path)


@njit
def set_growth(flow: Any, event: Any, youth: float, queue: float, target: float) -> None:
    """Set the growth of the next round."""
    state = flow.state
    state[PER_ROUND] = parameter(event, GROWTH) * (1.0 + parameter(event, YOUTH_GROWTH) * youth)
    state[CALM_FOR] = state[CALM_FOR] + 1.0 if queue < CALM * target else 0.0
    if state[CALM_FOR] > parameter(event, CALM_ROUNDS):
        state[PER_ROUND] = max(state[PER_ROUND], parameter(event, CALM_GROWTH) * state[WINDOW])


@njit
def end_round(flow: Any, event: Any) -> None:
    """Compare the queue of the round with the target; set the window, and its growth in the next round."""
    state = flow.state
    window = state[WINDOW]
    per_ns = line_packets_per_ns(flow)
    base_ns = float(flow.base_rtt_ns)
    queue = mean_queue(flow)
    target = least_target(flow, event) * 2.0 ** state[STRETCH]
    youth = 2.0 ** (-state[DELIVERED] / parameter(event, YOUTH_PACKETS))
    factor = factor_of_marks(
        flow,
        parameter(event, MARK_DECREASE),
        parameter(event, MARKS_MEMORY),
        parameter(event, MARKS_IGNORED),
    )
    if queue > target:
        decrease = parameter(event, DECREASE) * (queue - target) / (queue + per_ns * base_ns)
        decrease *= (1.0 - parameter(event, YOUTH_CALM) * youth) * 2.0 ** (
            -parameter(event, STRETCH_CALM) * state[STRETCH]
        )
        factor = min(factor, 1.0 - min(decrease, parameter(event, MOST_DECREASE)))
    if state[LOST] == 0.0:
        state[WINDOW] *= factor
    if queue > target or factor < 1.0:
        flow.ssthresh = min(flow.ssthresh, state[WINDOW])
    state[RESTS] = max(state[RESTS] - 1.0, 0.0)
    set_growth(flow, event, youth, queue, target)
    adapt_target(
        flow,
        window,
        target,
        queue,
        -1.0,
        parameter(event, PATIENCE if state[STRETCH] == 0.0 else PATIENCE_AGAIN),
        0.0,
        parameter(event, STRETCH_UP),
        parameter(event, UNDO),
        parameter(event, STRETCH_DOWN),
        IN_VAIN,
    )
    begin_round(flow)


def on_start(flow: Any, event: Any) -> None:
    """Set the first window."""
    state = flow.state
    state[PER_ROUND] = 1.0
    state[QUEUE] = 1.0  # unknown
    begin_round(flow)
    set_window(flow, event, flow.cwnd * parameter(event, FIRST_WINDOW))
    state[WINDOW_BELOW] = state[WINDOW]


def on_ack(flow: Any, event: Any) -> None:
    """Count the ACK and grow; once per round trip, compare the queue with the target."""
    state = flow.state
    count_ack(flow, event)
    grow_window(flow, event, state[PER_ROUND] if state[QUEUE] <= 1.0 else 0.0)
    if round_is_over(flow):
        end_round(flow, event)
    set_window(flow, event, state[WINDOW])


def on_loss(flow: Any, event: Any) -> None:
    """Reduce the window, less after a shorter queue."""
    state = flow.state
    state[LOST] = 1.0
    weight = weight_of_loss(flow, parameter(event, LOSS_LEAST), parameter(event, LOSS_REST))
    set_window(flow, event, state[WINDOW] * (1.0 - parameter(event, LOSS_DECREASE) * weight))
    flow.ssthresh = max(state[WINDOW], 1.0)


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet (RFC 5681, 3.1)."""
    flow.ssthresh = max(0.5 * flow.state[WINDOW], 2.0)
    begin_round(flow)
    flow.state[LOST] = 1.0
    set_window(flow, event, 1.0)


def adaptive_target_transport(parameters: Iterable[float]) -> Transport:
    """Return the transport with the given constants.

    Args:
        parameters: A value for each of :data:`CONSTANTS`.

    Raises:
        SysgymError: If their number is wrong, or one is outside its bounds.
    """
    return Transport(
        name=NAME,
        summary="queueing delay around a target that adapts to other laws; constants found by search",
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
