"""Neural: DCTCP whose window a small neural network corrects once per round trip.

The base is DCTCP (RFC 8257): Reno's growth, and a reduction by half of the average marked fraction. At the
end of every round trip, a network with one hidden layer maps measurements of the round to three outputs: a
factor for the window (as Orca's agent does for CUBIC, Abbasloo et al., SIGCOMM 2020, section 4), the growth
in packets in the next round, and the pacing rate in windows per round trip. All flows share the weights; a
flow sees only its own ACKs (as in NVIDIA's RLCC and in Astraea). Windows below one packet are paced, as in
Swift.

The weights are the transport's parameters, so a search over them needs no compilation. With all weights zero
the factor is 1 and the growth one packet, which gives DCTCP, paced at twice its window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import Transport, parameter
from sysgym.emulator.packets.transports.searched.rounds import (
    ALPHA,
    DELIVERED,
    LOST,
    MARKED,
    OWN,
    RTT_LEAST_NS,
    RTT_SAMPLES,
    RTT_SUM_NS,
    WINDOW,
    begin_round,
    bound_window,
    count_ack,
    grow_window,
    line_packets_per_ns,
    marked_share,
    pace_window,
    present_rtt_ns,
    round_is_over,
)
from sysgym.scenarios.errors import SysgymError

NAME = "neural"

INPUTS = (
    "mean round trip over the empty one, log2 / 2",
    "least round trip over the empty one, log2 / 2",
    "fraction of marked packets",
    "its moving average (DCTCP's alpha)",
    "window over the line's bandwidth-delay product, log2 / 4",
    "packets delivered so far, log2 / 10",
    "a loss in this round",
    "the last correction",
    "queueing in packets of the line, log2 / 5",
)
"""Inputs of the network, measured over a round trip."""

OUTPUTS = ("window", "growth", "pace")
"""Outputs: log2 of the window's factor, log2 of the growth in packets / 2, log2 of the pace over 2."""

N_INPUTS, N_HIDDEN, N_OUTPUTS = len(INPUTS), 4, len(OUTPUTS)

# Indices of the parameters. The first applies at the start of a flow, before any measurement.
FIRST_WINDOW = 0  # log2 of the first window over the scenario's
HIDDEN_WEIGHTS = 1  # rows of N_INPUTS
HIDDEN_BIAS = HIDDEN_WEIGHTS + N_HIDDEN * N_INPUTS
OUTPUT_WEIGHTS = HIDDEN_BIAS + N_HIDDEN  # rows of N_HIDDEN
OUTPUT_BIAS = OUTPUT_WEIGHTS + N_OUTPUTS * N_HIDDEN
N_PARAMETERS = OUTPUT_BIAS + N_OUTPUTS

GAIN = 1.0 / 16.0  # g, RFC 8257, 4.2
MOST_WINDOW = 65535.0  # packets; corrections would otherwise double an unused window without end
FIRST_PACE = 2.0  # windows per round trip, as Linux paces slow start
LEAVES_SLOW_START = 0.9  # a factor of the window below this ends slow start, as a mark does

# Slots of flow.state, beside those of rounds.
CORRECTION = OWN  # log2
GROWTH = OWN + 1  # packets per round trip
PACE = OWN + 2  # windows per round trip
SEEN = OWN + 3  # inputs of the network, N_INPUTS slots


@njit(forceinline=True)
def set_window(flow: Any, window: float, rtt_ns: float) -> None:
    """Set window and pace; below one packet, one is in flight at a time, paced at the window's rate."""
    bound_window(flow, window, MOST_WINDOW)
    pace_window(flow, flow.state[PACE], rtt_ns)


@njit(forceinline=True)
def look(flow: Any) -> None:
    """Write the inputs, for the round that has ended, into the slots from SEEN on."""
    state = flow.state
    base_ns = float(flow.base_rtt_ns)
    mean_ns = state[RTT_SUM_NS] / state[RTT_SAMPLES]
    line_packets = line_packets_per_ns(flow)
    state[SEEN] = 0.5 * math.log2(max(mean_ns / base_ns, 1.0))
    state[SEEN + 1] = 0.5 * math.log2(max(state[RTT_LEAST_NS] / base_ns, 1.0))
    state[SEEN + 2] = marked_share(flow)
    state[SEEN + 3] = state[ALPHA]
    state[SEEN + 4] = 0.25 * math.log2(state[WINDOW] / (line_packets * base_ns))
    state[SEEN + 5] = 0.1 * math.log2(1.0 + state[DELIVERED])
    state[SEEN + 6] = state[LOST]
    state[SEEN + 7] = state[CORRECTION]
    state[SEEN + 8] = 0.2 * math.log2(1.0 + line_packets * max(mean_ns - base_ns, 0.0))


@njit
def decide(flow: Any, event: Any) -> None:
    """Run the network, and write its outputs into CORRECTION, GROWTH and PACE."""
    window = parameter(event, OUTPUT_BIAS)
    growth = parameter(event, OUTPUT_BIAS + 1)
    pace = parameter(event, OUTPUT_BIAS + 2)
    for unit in range(N_HIDDEN):
        total = parameter(event, HIDDEN_BIAS + unit)
        for number in range(N_INPUTS):
            total += parameter(event, HIDDEN_WEIGHTS + unit * N_INPUTS + number) * flow.state[SEEN + number]
        active = math.tanh(total)
        window += active * parameter(event, OUTPUT_WEIGHTS + unit)
        growth += active * parameter(event, OUTPUT_WEIGHTS + N_HIDDEN + unit)
        pace += active * parameter(event, OUTPUT_WEIGHTS + 2 * N_HIDDEN + unit)
    flow.state[CORRECTION] = math.tanh(window)
    flow.state[GROWTH] = 2.0 ** (2.0 * math.tanh(growth))
    flow.state[PACE] = FIRST_PACE * 2.0 ** math.tanh(pace)


@njit(forceinline=True)
def end_round(flow: Any, event: Any) -> None:
    """Apply DCTCP's reduction if there were marks, then the network's correction."""
    state = flow.state
    state[ALPHA] += GAIN * (marked_share(flow) - state[ALPHA])
    look(flow)
    decide(flow, event)
    factor = 2.0 ** state[CORRECTION]
    if state[MARKED] > 0.0:
        factor *= 1.0 - 0.5 * state[ALPHA]
    if state[LOST] == 0.0 or factor < 1.0:
        state[WINDOW] *= factor
    if factor < LEAVES_SLOW_START:
        flow.ssthresh = min(flow.ssthresh, state[WINDOW])
    begin_round(flow)


def on_start(flow: Any, event: Any) -> None:
    """Set the first window, which is a parameter, and an alpha of 1 (RFC 8257)."""
    state = flow.state
    state[ALPHA] = 1.0
    state[GROWTH] = 1.0
    state[PACE] = FIRST_PACE
    begin_round(flow)
    first = min(flow.cwnd * 2.0 ** parameter(event, FIRST_WINDOW), flow.cwnd)
    set_window(flow, first, float(flow.base_rtt_ns))


def on_ack(flow: Any, event: Any) -> None:
    """Count the ACK, grow, and run the network once per round trip."""
    count_ack(flow, event)
    if not event.marked:
        grow_window(flow, event, flow.state[GROWTH])
    if round_is_over(flow):
        end_round(flow, event)
    set_window(flow, flow.state[WINDOW], present_rtt_ns(flow))


def on_loss(flow: Any, event: Any) -> None:
    """Halve the window (RFC 8257, 3.5)."""
    flow.state[LOST] = 1.0
    set_window(flow, 0.5 * flow.state[WINDOW], present_rtt_ns(flow))
    flow.ssthresh = max(flow.state[WINDOW], 2.0)


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet (RFC 5681, 3.1)."""
    flow.ssthresh = max(0.5 * flow.state[WINDOW], 2.0)
    begin_round(flow)
    flow.state[LOST] = 1.0
    set_window(flow, 1.0, present_rtt_ns(flow))


def neural_transport(parameters: Iterable[float]) -> Transport:
    """Return the transport with the given weights.

    Args:
        parameters: N_PARAMETERS numbers in the order of the constants above.

    Raises:
        SysgymError: If their number is wrong, or one is not finite.
    """
    values = tuple(float(value) for value in parameters)
    if len(values) != N_PARAMETERS or not all(math.isfinite(value) for value in values):
        raise SysgymError(f"neural: expected {N_PARAMETERS} finite parameters, got {len(values)}")
    return Transport(
        name=NAME,
        summary="DCTCP whose window a small network corrects once a round trip",
        reference="RFC 8257; after Abbasloo et al. (Orca), SIGCOMM 2020",
        on_start=on_start,
        on_ack=on_ack,
        on_loss=on_loss,
        on_timeout=on_timeout,
        ecn_capable=True,
        parameters=values,
    )
