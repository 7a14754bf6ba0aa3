"""Preset of Orca: seven features relative to the best values so far; actions multiply a window.

Source: Abbasloo, Yen, Chao, Classic Meets Modern: a Pragmatic Learning-Based Congestion Control for the
Internet, SIGCOMM 2020.
"""

from __future__ import annotations

import math

from numba import njit

from sysgym.envs.congestion.flow.intervals import FlowInterval
from sysgym.envs.congestion.flow.presets.base import (
    Feature,
    FloatArray,
    FlowReward,
    Observation,
    Preset,
    clipped,
)

BASE = 4.0
LOSS_WEIGHT = 5.0
FREE_DELAY = 1.25
"""Multiple of the lowest RTT up to which delay is not penalized."""


@njit(forceinline=True)
def delay_metric(interval: FlowInterval) -> float:
    """Return 1 up to 1.25 times the lowest RTT; above, that limit divided by the smoothed RTT."""
    free_s = FREE_DELAY * interval.least_rtt_s
    return 1.0 if interval.srtt_s <= free_s else free_s / interval.srtt_s


def observe(interval: FlowInterval, out: Observation) -> None:
    """Write the features; where the divisor is 0, they are 0, or 1 for ratios of round-trip times."""
    best_bps, srtt_s = interval.best_bps, interval.srtt_s
    for place in range(5):
        out[place] = 0.0
    if best_bps > 0.0:
        out[0] = interval.arrived_bps / best_bps
        out[1] = clipped(interval.rate_bps / best_bps, 0.0, 10.0)
        out[2] = clipped(LOSS_WEIGHT * interval.lost_bps / best_bps, 0.0, 10.0)
    if interval.cwnd_packets > 0.0:
        out[3] = clipped(interval.samples / interval.cwnd_packets, 0.0, 10.0)
    if srtt_s > 0.0:
        out[4] = clipped(interval.duration_s / srtt_s, 0.0, 10.0)
    out[5] = interval.least_rtt_s / srtt_s if srtt_s > 0.0 else 1.0
    out[6] = delay_metric(interval)


def decide(interval: FlowInterval, action: float) -> float:
    """Return the factor of the window for an action."""
    return math.pow(BASE, action)


def ask(interval: FlowInterval, rate_bps: float) -> float:
    """Return the action towards the window that corresponds to a rate on the empty path."""
    packets = max(rate_bps * interval.base_rtt_s / interval.packet_bits, 1.0)
    return math.log(packets / max(interval.cwnd_packets, 1.0), BASE)


def pay(interval: FlowInterval, weights: FloatArray, out: FloatArray) -> None:
    """Write the reward terms; the delay metric multiplies both and is not a term of its own."""
    share = delay_metric(interval) / interval.best_bps if interval.best_bps > 0.0 else 0.0
    out[0] = weights[0] * interval.arrived_bps * share
    out[1] = -weights[1] * interval.lost_bps * share


ORCA = Preset(
    name="orca",
    features=(
        Feature("throughput", "rate acknowledged over the best so far", "ratio", 0.0, 1.0),
        Feature("pacing", "window a smoothed RTT over the best rate so far", "ratio", 0.0, 10.0),
        Feature("loss", "5 times rate lost over the best rate so far", "ratio", 0.0, 10.0),
        Feature("samples", "ACKs over the window", "ratio", 0.0, 10.0),
        Feature("interval", "length of the interval", "smoothed RTTs", 0.0, 10.0),
        Feature("latency", "least RTT over the smoothed one", "ratio", 0.0, 1.0, 1.0),
        Feature(
            "delay_metric",
            "1 up to 1.25 times the least RTT, beyond it that over the smoothed RTT",
            "ratio",
            0.0,
            1.0,
            1.0,
        ),
    ),
    observe=observe,
    decide=decide,
    ask=ask,
    reward=FlowReward(
        name="orca",
        terms=("throughput", "loss"),
        pay=pay,
        weights={"throughput": 1.0, "loss": LOSS_WEIGHT},
    ),
    history=10,
    window=True,
    meaning="the window of the underlying law times 4 to the power of n",
)
