"""Rewards by name: pure functions of what was measured, each a dict of named terms whose sum is the reward.

The default pays for payload delivered and charges for queueing and loss. Beside it stand the rewards of Iroko
(Ruffy et al., arXiv 1812.09975, and its public repository at 7941dd2), which pay for the rate that hosts are
*allowed*, whether it is used or not: they are here for comparison with published work, and
``tests/envs/congestion/test_rewards.py`` shows what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.measurement import Interval
from sysgym.scenarios.errors import UnknownName

FloatArray = NDArray[np.float64]
Weights = Mapping[str, float]
RewardFunction = Callable[[Interval, Weights], dict[str, float]]

STEP_QUEUE_LIMIT = 0.30
"""Queue above which Iroko's ``step`` reward turns against sending."""


@dataclass(frozen=True)
class Reward:
    """A reward with its weights.

    Attributes:
        name: What users type.
        function: Terms from an interval and weights.
        weights: Weight of each term that has one; a scenario may override them.
        summary: One line for lists.
        of_many: Whether the function takes the intervals of many networks as one, too, and then returns an
            array for each term.
    """

    name: str
    function: RewardFunction
    weights: Weights = field(default_factory=dict)
    summary: str = ""
    of_many: bool = False

    def terms(self, interval: Interval) -> dict[str, float]:
        """Return the named terms; their sum is the reward."""
        return {name: float(value) for name, value in self.function(interval, self.weights).items()}

    def terms_of_many(self, intervals: Interval) -> dict[str, FloatArray]:
        """Return the named terms of many networks, each of shape (n,); only with ``of_many``."""
        terms: dict[str, Any] = self.function(intervals, self.weights)
        return terms

    def with_weights(self, weights: Weights) -> Reward:
        """Return a copy with some weights replaced.

        Raises:
            UnknownName: If the reward has no such weight.
        """
        for name in weights:
            if name not in self.weights:
                raise UnknownName(f'weight of the reward "{self.name}"', name, self.weights)
        return replace(self, weights={**self.weights, **weights})


_REWARDS: dict[str, Reward] = {}


def register_reward(
    name: str, *, of_many: bool = False, **weights: float
) -> Callable[[RewardFunction], RewardFunction]:
    """Make a function known as a reward; use as a decorator.

    Args:
        name: What users type.
        of_many: See :class:`Reward`. Without it, the vector form calls the function for one network after
            another.
        **weights: Its weights and their defaults.
    """

    def register(function: RewardFunction) -> RewardFunction:
        summary = (function.__doc__ or "").strip().splitlines()
        _REWARDS[name] = Reward(name, function, weights, summary[0] if summary else "", of_many)
        return function

    return register


def get_reward(reward: str | Reward) -> Reward:
    """Return a reward by its name, or as it is; raises UnknownName."""
    if isinstance(reward, Reward):
        return reward
    if reward not in _REWARDS:
        raise UnknownName("reward", reward, _REWARDS)
    return _REWARDS[reward]


def list_rewards() -> list[str]:
    """Return the names of all rewards, sorted."""
    return sorted(_REWARDS)


@register_reward("default", of_many=True, goodput=1.0, queueing=0.5, loss=1.0)
def default(interval: Interval, weights: Weights) -> dict[str, Any]:
    """Goodput against the max-min fair ideal, less queueing delay against the base RTT, less loss."""
    delay_s = interval.queueing_delay_s
    return {
        "goodput": weights["goodput"] * goodput_of_ideal(interval.delivered_bytes, interval.ideal_bytes),
        "queueing": -weights["queueing"] * share_of_round_trip(delay_s, interval.fabric.base_rtt_s),
        "loss": -weights["loss"] * interval.loss_fraction,
    }


def goodput_of_ideal(delivered_bytes: FloatArray, ideal_bytes: FloatArray) -> FloatArray:
    """Return the fair share that was delivered, in [0, 1]; one number, or one a network.

    Each host counts up to its own ideal, so nothing is gained by one host's excess over another's share. With
    no demand everything that was asked for is delivered: 1. So a burst that is served sooner is not worth
    less.
    """
    total_bytes: FloatArray = np.asarray(ideal_bytes.sum(axis=-1))
    fair_bytes: FloatArray = np.minimum(delivered_bytes, ideal_bytes).sum(axis=-1)
    return np.divide(fair_bytes, total_bytes, out=np.ones_like(total_bytes), where=total_bytes > 0.0)


def share_of_round_trip(delay_s: FloatArray | float, base_rtt_s: float) -> FloatArray:
    """Return the share of a round trip spent in queues; 0.5 where queueing doubles the base RTT."""
    whole_s: FloatArray = np.asarray(delay_s + base_rtt_s)
    return np.divide(delay_s, whole_s, out=np.ones_like(whole_s), where=np.isfinite(whole_s))


def jain_index(values: FloatArray) -> float:
    """Return Jain's fairness index, from 1/n to 1; 1 if nobody has anything."""
    total_square = float(values.sum()) ** 2
    squares = float(np.square(values).sum())
    return total_square / (len(values) * squares) if squares > 0.0 else 1.0


def gini_coefficient(values: FloatArray) -> float:
    """Return the Gini coefficient of non-negative values, 0 for equal ones."""
    total, n = float(values.sum()), len(values)
    rank = 2.0 * np.arange(1, n + 1) - n - 1.0
    return float((rank * np.sort(values)).sum()) / (n * total) if total > 0.0 else 0.0


def _longest_queue(interval: Interval) -> float:
    """Return Iroko's q: the largest queue of a switch port as a share of the buffer."""
    return float(interval.queue_bytes.max(initial=0.0)) / interval.fabric.buffer_bytes


@register_reward("action")
def action(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: mean allowed rate."""
    return {"action": float(interval.action.mean())}


@register_reward("queue")
def queue(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: less the square of the sum of all queues."""
    return {"queue": -((float(interval.queue_bytes.sum()) / interval.fabric.buffer_bytes) ** 2)}


@register_reward("std_dev")
def std_dev(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: less the standard deviation of the allowed rates."""
    return {"std_dev": -float(interval.action.std())}


@register_reward("joint_queue")
def joint_queue(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: mean allowed rate, against sending once the longest queue passes half its buffer."""
    mean = float(interval.action.mean())
    return {"action": mean, "joint_queue": -2.0 * _longest_queue(interval) * mean}


@register_reward("fairness")
def fairness(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: Jain's index of the allowed rates."""
    return {"fairness": jain_index(interval.action)}


@register_reward("fair_queue")
def fair_queue(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: allowed rate and its fairness, both scaled down by the longest queue."""
    mean, q = float(interval.action.mean()), _longest_queue(interval)
    return {
        "action": mean,
        "queue": -q * mean,
        "fairness": jain_index(interval.action[interval.action < 1.0]) * (1.0 - q),
    }


@register_reward("gini")
def gini(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: Gini coefficient of the allowed rates (sign as published: more for unequal rates)."""
    return {"gini": gini_coefficient(interval.action)}


@register_reward("step")
def step(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko's own default: allowed rate times equality below a queue limit, against sending above it."""
    mean, q = float(interval.action.mean()), _longest_queue(interval)
    if q > STEP_QUEUE_LIMIT:
        return {"action": -mean, "queue": -q}
    return {"action": mean, "equality": mean * (1.0 - gini_coefficient(interval.action)), "queue": -q}


@register_reward("iroko_paper")
def iroko_paper(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko in 2018: received bandwidth, less squared queues, less the standard deviation of the rates."""
    fabric = interval.fabric
    received_bits = interval.arrived_bytes * 8.0
    seconds = float(interval.duration_s)
    bandwidth = float((received_bits / fabric.line_rate_bps).sum()) / seconds if seconds > 0.0 else 0.0
    squares = float(np.square(interval.queue_bytes / fabric.buffer_bytes).sum())
    return {
        "bandwidth": bandwidth,
        "queue": -(fabric.n_ports / fabric.n_hosts) * squares,
        "std_dev": -float(interval.action.std()),
    }
