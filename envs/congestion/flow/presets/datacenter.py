"""Preset for datacenters: scale-free marks, queueing, rate and loss; actions set the rate."""

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


@njit(forceinline=True)
def queueing_delay_s(interval: FlowInterval) -> float:
    """Return the mean round-trip time minus that of the empty path; the smoothed one without ACKs."""
    rtt_s = interval.rtt_s if interval.samples > 0.0 else interval.srtt_s
    return float(max(rtt_s - interval.base_rtt_s, 0.0))


def observe(interval: FlowInterval, out: Observation) -> None:
    """Write the features: marks, queueing, its trend, rate, throughput, packets in flight, loss."""
    delay_s = queueing_delay_s(interval)
    line_rate_bps = interval.line_rate_bps
    in_flight = interval.in_flight_bits / (line_rate_bps * interval.base_rtt_s)
    span = math.log(line_rate_bps / interval.least_rate_bps)
    rate = clipped(interval.rate_bps, interval.least_rate_bps, line_rate_bps)
    out[0] = interval.mark_fraction
    out[1] = delay_s / (delay_s + interval.base_rtt_s)
    out[2] = clipped(interval.rtt_change_s / interval.base_rtt_s, -1.0, 1.0)
    out[3] = clipped(math.log(rate / interval.least_rate_bps) / span, 0.0, 1.0)
    out[4] = clipped(interval.arrived_bps / line_rate_bps, 0.0, 1.0)
    out[5] = in_flight / (1.0 + in_flight)
    out[6] = interval.loss_fraction


def decide(interval: FlowInterval, action: float) -> float:
    """Return the rate for an action between -1, the lowest rate, and 1, the line rate."""
    ratio = interval.line_rate_bps / interval.least_rate_bps
    return interval.least_rate_bps * float(ratio ** (0.5 * (action + 1.0)))


def ask(interval: FlowInterval, rate_bps: float) -> float:
    """Return the action for a rate, clipped to the possible rates; the inverse of :func:`decide`."""
    rate_bps = min(max(rate_bps, interval.least_rate_bps), interval.line_rate_bps)
    span = math.log(interval.line_rate_bps / interval.least_rate_bps)
    return 2.0 * math.log(rate_bps / interval.least_rate_bps) / span - 1.0


def pay(interval: FlowInterval, weights: FloatArray, out: FloatArray) -> None:
    """Write the reward terms: goodput over the rate of the slowest link, queueing delay, loss."""
    delay_s = queueing_delay_s(interval)
    out[0] = weights[0] * interval.goodput_bps / (interval.slowest_link_bps * interval.payload_share)
    out[1] = -weights[1] * delay_s / (delay_s + interval.base_rtt_s)
    out[2] = -weights[2] * interval.loss_fraction


DATACENTER = Preset(
    name="datacenter",
    features=(
        Feature("mark_fraction", "ACKs that echo an ECN mark", "fraction of ACKs", 0.0, 1.0),
        Feature("queueing", "RTT over base RTT, squashed: 1 - base RTT / RTT", "fraction of RTT", 0.0, 1.0),
        Feature(
            "rtt_trend",
            "mean RTT of the interval's second half less that of the first",
            "base RTTs",
            -1.0,
            1.0,
        ),
        Feature(
            "rate",
            "rate in force between least rate and line rate, both ends included",
            "share of the way, logarithmic",
            0.0,
            1.0,
        ),
        Feature("throughput", "rate acknowledged", "fraction of the line rate", 0.0, 1.0),
        Feature(
            "in_flight",
            "packets under way over line rate times base RTT, x, squashed",
            "x / (1 + x)",
            0.0,
            1.0,
        ),
        Feature("loss_fraction", "packets taken for lost, of lost or acknowledged", "fraction", 0.0, 1.0),
    ),
    observe=observe,
    decide=decide,
    ask=ask,
    reward=FlowReward(
        name="datacenter",
        terms=("goodput", "queueing", "loss"),
        pay=pay,
        weights={"goodput": 1.0, "queueing": 0.5, "loss": 1.0},
    ),
    history=2,
    meaning="the rate: -1 is the least rate, 1 the line rate, logarithmic in between",
)
