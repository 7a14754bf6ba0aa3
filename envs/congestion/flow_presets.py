"""The ways of being a flow's sender: what the numbers of observation, action and reward mean.

The formulas are in :mod:`sysgym.envs.congestion.flow_signals`; a preset names them, and turns actions into
rates and windows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.flow_signals import (
    AURORA,
    DATACENTER,
    LARGEST_LATENCY_RATIO,
    LARGEST_SEND_RATIO,
    ORCA,
    ORCA_LOSS_WEIGHT,
)
from sysgym.scenarios.errors import UnknownName

FloatArray = NDArray[np.float64]

AURORA_ACTION_LIMIT = 10.0
"""Aurora's own space is unbounded; with its step of 0.025 this is a quarter of the rate in one interval."""

ORCA_BASE = 4.0


@dataclass(frozen=True)
class Feature:
    """One value of an observation.

    Attributes:
        name: What tables call it.
        meaning: One line.
        unit: Of the value.
        low: Least value.
        high: Largest value.
        empty: Value of an interval in which nothing came back.
    """

    name: str
    meaning: str
    unit: str
    low: float
    high: float
    empty: float = 0.0


@dataclass(frozen=True)
class FlowReward:
    """A reward: the sum of named terms.

    Attributes:
        name: What users type.
        code: As the compiled functions know it.
        weights: Term -> weight; a scenario may replace them. At most three, in the compiled order.
        terms: Names of the terms, in the compiled order.
    """

    name: str
    code: int
    weights: Mapping[str, float]
    terms: tuple[str, ...]

    def weight_array(self, chosen: Mapping[str, float]) -> FloatArray:
        """Return the weights in the compiled order, some of them replaced.

        Raises:
            UnknownName: If the reward has no such weight.
        """
        for name in chosen:
            if name not in self.weights:
                raise UnknownName(f'weight of the reward "{self.name}"', name, self.weights)
        merged = {**self.weights, **chosen}
        return np.array([merged.get(name, 0.0) for name in self.terms])


@dataclass(frozen=True)
class Preset:
    """One way of being a flow's sender.

    Attributes:
        name: What users type.
        code: As the compiled functions know it.
        features: The observation of one interval.
        history: Intervals in the observation, unless a scenario says otherwise.
        action_limit: Actions lie between minus this and this.
        window: Whether an action multiplies a window; otherwise it sets a rate.
        meaning: Of the native action n, one line.
    """

    name: str
    code: int
    features: tuple[Feature, ...]
    history: int
    action_limit: float
    window: bool
    meaning: str

    def index(self, history: int) -> list[str]:
        """Return what stands at every index of an observation, with its unit."""
        return [
            f"{feature.name}, {_when(age)} [{feature.unit}]"
            for age in range(history)
            for feature in self.features
        ]

    def bounds(self, history: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return least and largest observation."""
        low = np.array([feature.low for feature in self.features], np.float32)
        high = np.array([feature.high for feature in self.features], np.float32)
        return np.tile(low, history), np.tile(high, history)

    def empty(self, history: int) -> NDArray[np.float32]:
        """Return the observation of somebody who has not heard anything yet."""
        return np.tile(np.array([feature.empty for feature in self.features], np.float32), history)


def _when(age: int) -> str:
    return "this interval" if age == 0 else "the one before" if age == 1 else f"{age} intervals before"


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "aurora",
            AURORA,
            (
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
                Feature(
                    "send_ratio", "rate sent over rate acknowledged", "ratio", 0.0, LARGEST_SEND_RATIO, 1.0
                ),
            ),
            history=10,
            action_limit=AURORA_ACTION_LIMIT,
            window=False,
            meaning="rate times (1 + d n) for n >= 0, over (1 - d n) else; d is the scenario's action_step",
        ),
        Preset(
            "datacenter",
            DATACENTER,
            (
                Feature("mark_fraction", "ACKs that echo an ECN mark", "fraction of ACKs", 0.0, 1.0),
                Feature(
                    "queueing", "RTT over base RTT, squashed: 1 - base RTT / RTT", "fraction of RTT", 0.0, 1.0
                ),
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
                Feature(
                    "loss_fraction", "packets taken for lost, of lost or acknowledged", "fraction", 0.0, 1.0
                ),
            ),
            history=2,
            action_limit=1.0,
            window=False,
            meaning="the rate: -1 the least, 1 the line rate, logarithmic between them",
        ),
        Preset(
            "orca",
            ORCA,
            (
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
            history=10,
            action_limit=1.0,
            window=True,
            meaning="the window of the law underneath times 4 to the power of n",
        ),
    )
}

REWARDS: dict[str, FlowReward] = {
    reward.name: reward
    for reward in (
        FlowReward(
            "aurora",
            AURORA,
            {"throughput": 10.0, "latency": 1000.0, "loss": 2000.0},
            ("throughput", "latency", "loss"),
        ),
        FlowReward(
            "datacenter",
            DATACENTER,
            {"goodput": 1.0, "queueing": 0.5, "loss": 1.0},
            ("goodput", "queueing", "loss"),
        ),
        FlowReward(
            "orca",
            ORCA,
            {"throughput": 1.0, "loss": ORCA_LOSS_WEIGHT},
            ("throughput", "loss"),
        ),
    )
}


def get_preset(name: str) -> Preset:
    """Return a preset; raises UnknownName."""
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]


def get_flow_reward(name: str) -> FlowReward:
    """Return a reward of flows; raises UnknownName."""
    if name not in REWARDS:
        raise UnknownName("reward of a flow", name, REWARDS)
    return REWARDS[name]


def aurora_rate_bps(rate_bps: float, action: float, step: float) -> float:
    """Return the rate after Aurora's action: the same factor up for a as down for -a."""
    change = step * action
    return rate_bps * (1.0 + change) if change >= 0.0 else rate_bps / (1.0 - change)


def aurora_action(ratio: float, step: float) -> float:
    """Return the action that multiplies the rate by a ratio; the inverse of :func:`aurora_rate_bps`."""
    return (ratio - 1.0 if ratio >= 1.0 else 1.0 - 1.0 / ratio) / step


def log_rate_bps(action: float, least_bps: float, line_rate_bps: float) -> float:
    """Return the rate of an action between -1, the least, and 1, the line rate."""
    return least_bps * float((line_rate_bps / least_bps) ** (0.5 * (action + 1.0)))


def log_rate_action(rate_bps: float, least_bps: float, line_rate_bps: float) -> float:
    """Return the action that asks for a rate; the inverse of :func:`log_rate_bps`."""
    return 2.0 * math.log(rate_bps / least_bps) / math.log(line_rate_bps / least_bps) - 1.0


def orca_factor(action: float) -> float:
    """Return what Orca's action multiplies the window by."""
    return math.pow(ORCA_BASE, action)


def orca_action(factor: float) -> float:
    """Return the action that multiplies the window by a factor; the inverse of :func:`orca_factor`."""
    return math.log(factor, ORCA_BASE)
