"""Preset of Aurora: latency gradient, latency ratio and send ratio; actions change the rate relatively.

Source: Jay, Rotman, Godfrey, Schapira, Tamar, A Deep Reinforcement Learning Perspective on Internet
Congestion Control, ICML 2019, and its simulator PCC-RL.
"""

from __future__ import annotations

from sysgym.envs.congestion.flow.intervals import FlowInterval
from sysgym.envs.congestion.flow.presets.base import (
    Feature,
    FloatArray,
    FlowReward,
    Observation,
    Preset,
    clipped,
)

ACTION_LIMIT = 10.0
"""Bound of actions. Aurora's space is unbounded; with its step of 0.025, 10 changes a rate by a quarter."""

PACKET_BITS = 8 * 1500
REWARD_SCALE = 0.001
LARGEST_SEND_RATIO = 1000.0
LARGEST_LATENCY_RATIO = 10_000.0


def observe(interval: FlowInterval, out: Observation) -> None:
    """Write the features; 0, 1, 1 for an interval without samples."""
    out[0] = 0.0
    out[1] = 1.0
    out[2] = 1.0
    if interval.duration_s > 0.0:
        out[0] = clipped(interval.rtt_change_s / interval.duration_s, -1.0, 10.0)
    if interval.samples > 0.0 and interval.least_rtt_s > 0.0:
        out[1] = clipped(interval.rtt_s / interval.least_rtt_s, 1.0, LARGEST_LATENCY_RATIO)
    if interval.arrived_bps > 0.0:
        ratio = interval.sent_bps / interval.arrived_bps
        out[2] = ratio if ratio < LARGEST_SEND_RATIO else 1.0


def decide(interval: FlowInterval, action: float) -> float:
    """Return the rate; actions a and -a change it by inverse factors."""
    change = interval.action_step * action
    if change >= 0.0:
        return interval.asked_bps * (1.0 + change)
    return interval.asked_bps / (1.0 - change)


def ask(interval: FlowInterval, rate_bps: float) -> float:
    """Return the action that leads to a given rate; the inverse of :func:`decide`."""
    ratio = rate_bps / interval.asked_bps
    return (ratio - 1.0 if ratio >= 1.0 else 1.0 - 1.0 / ratio) / interval.action_step


def pay(interval: FlowInterval, weights: FloatArray, out: FloatArray) -> None:
    """Write the reward terms of PCC-RL's simulator."""
    out[0] = REWARD_SCALE * weights[0] * interval.arrived_bps / PACKET_BITS
    out[1] = -REWARD_SCALE * weights[1] * interval.rtt_s
    out[2] = -REWARD_SCALE * weights[2] * interval.loss_fraction


AURORA = Preset(
    name="aurora",
    features=(
        Feature(
            "latency_gradient",
            "mean RTT of the interval's second half less that of the first, over its length",
            "s/s",
            -1.0,
            10.0,
        ),
        Feature(
            "latency_ratio",
            "mean RTT over the least of the episode",
            "ratio",
            1.0,
            LARGEST_LATENCY_RATIO,
            1.0,
        ),
        Feature("send_ratio", "rate sent over rate acknowledged", "ratio", 0.0, LARGEST_SEND_RATIO, 1.0),
    ),
    observe=observe,
    decide=decide,
    ask=ask,
    reward=FlowReward(
        name="aurora",
        terms=("throughput", "latency", "loss"),
        pay=pay,
        weights={"throughput": 10.0, "latency": 1000.0, "loss": 2000.0},
    ),
    history=10,
    action_limit=ACTION_LIMIT,
    meaning="rate times (1 + d n) if n >= 0, otherwise divided by (1 - d n); d is the scenario's action_step",
)
