"""Rewards by name: pure functions of an interval that return named terms, whose sum is the reward.

The default reward pays for delivered payload and penalizes queueing and loss. The rewards of Iroko (Ruffy
et al., arXiv 1812.09975, and its public repository at 7941dd2) pay for the rate that hosts are *allowed*,
whether or not they use it. They are included for comparison with published work;
``tests/envs/congestion/datacenter/test_rewards.py`` demonstrates their defects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.envs import rewards
from sysgym.envs.congestion.datacenter.measurement import Interval
from sysgym.envs.rewards import Weights
from sysgym.scenarios import CongestionScenario

FloatArray = NDArray[np.float64]
RewardFunction = Callable[[Interval, Weights], dict[str, float]]

STEP_QUEUE_LIMIT = 0.30
"""Queue, as a share of the buffer, above which Iroko's ``step`` reward penalizes sending."""


@dataclass(frozen=True)
class Reward(rewards.Reward[Interval]):
    """A reward of an interval with its weights.

    Attributes:
        of_many: Whether the function also accepts the combined interval of many networks, and then returns
            an array for each term.
    """

    of_many: bool = False

    def terms_of_many(self, intervals: Interval) -> dict[str, FloatArray]:
        """Return the named terms of many networks, each of shape (n,); only with ``of_many``."""
        return self.function(intervals, self.weights)


_REWARDS: dict[str, Reward] = {}


def register_reward(
    name: str, *, of_many: bool = False, terms: tuple[str, ...] = (), **weights: float
) -> Callable[[RewardFunction], RewardFunction]:
    """Register a function as a reward; use as a decorator.

    Args:
        name: Name of the reward.
        of_many: See :class:`Reward`. Otherwise the vector environment calls the function once per network.
        terms: Names of the terms; empty: those of the weights.
        **weights: Default weights.
    """

    def register(function: RewardFunction) -> RewardFunction:
        summary = (function.__doc__ or "").strip().splitlines()
        _REWARDS[name] = Reward(
            name, function, weights, summary[0] if summary else "", terms, of_many=of_many
        )
        return function

    return register


def get_reward(reward: str | Reward) -> Reward:
    """Return a reward given by name or as an object; raises UnknownName."""
    return rewards.get_reward(reward, _REWARDS)


def chosen_reward(reward: str | Reward | None, scenario: CongestionScenario) -> Reward:
    """Return the given reward, or that of the scenario with its weights; raises UnknownName."""
    return rewards.reward_of(scenario.reward, reward, _REWARDS)


@register_reward("default", of_many=True, goodput=1.0, queueing=0.5, loss=1.0)
def default(interval: Interval, weights: Weights) -> dict[str, Any]:
    """Goodput relative to the max-min fair ideal, minus penalties for queueing delay and loss."""
    totals = interval.derived.totals
    delay = share_of_round_trip(totals.queueing_delay_s, interval.fabric.base_rtt_s)
    return {
        "goodput": weights["goodput"] * totals.goodput_share,
        "queueing": -weights["queueing"] * delay,
        "loss": -weights["loss"] * totals.loss_fraction,
    }


def share_of_round_trip(delay_s: Any, base_rtt_s: float) -> Any:
    """Return the share of a round-trip time spent in queues; 0.5 where queueing doubles the base RTT."""
    whole_s = delay_s + base_rtt_s
    if isinstance(whole_s, float):
        return delay_s / whole_s if math.isfinite(whole_s) else 1.0
    return np.divide(delay_s, whole_s, out=np.ones_like(whole_s), where=np.isfinite(whole_s))


def jain_index(values: FloatArray) -> float:
    """Return Jain's fairness index, from 1/n to 1; 1 if all values are 0."""
    total_square = float(values.sum()) ** 2
    squares = float(np.square(values).sum())
    return total_square / (len(values) * squares) if squares > 0.0 else 1.0


def gini_coefficient(values: FloatArray) -> float:
    """Return the Gini coefficient of non-negative values; 0 if all are equal."""
    total, n = float(values.sum()), len(values)
    rank = 2.0 * np.arange(1, n + 1) - n - 1.0
    return float((rank * np.sort(values)).sum()) / (n * total) if total > 0.0 else 0.0


def _longest_queue(interval: Interval) -> float:
    """Return Iroko's q: the largest share of a switch port's buffer that is filled."""
    return float((interval.queue_bytes / interval.fabric.port_buffer_bytes).max(initial=0.0))


@register_reward("action", terms=("action",))
def action(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: mean allowed rate."""
    return {"action": float(interval.action.mean())}


@register_reward("queue", terms=("queue",))
def queue(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: negative square of the sum of all queues, each as a share of its buffer."""
    return {"queue": -(float((interval.queue_bytes / interval.fabric.port_buffer_bytes).sum()) ** 2)}


@register_reward("std_dev", terms=("std_dev",))
def std_dev(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: negative standard deviation of the allowed rates."""
    return {"std_dev": -float(interval.action.std())}


@register_reward("joint_queue", terms=("action", "joint_queue"))
def joint_queue(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: mean allowed rate, turned negative once the longest queue exceeds half its buffer."""
    mean = float(interval.action.mean())
    return {"action": mean, "joint_queue": -2.0 * _longest_queue(interval) * mean}


@register_reward("fairness", terms=("fairness",))
def fairness(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: Jain's index of the allowed rates."""
    return {"fairness": jain_index(interval.action)}


@register_reward("fair_queue", terms=("action", "queue", "fairness"))
def fair_queue(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: allowed rate and its fairness, both reduced in proportion to the longest queue."""
    mean, q = float(interval.action.mean()), _longest_queue(interval)
    return {
        "action": mean,
        "queue": -q * mean,
        "fairness": jain_index(interval.action[interval.action < 1.0]) * (1.0 - q),
    }


@register_reward("gini", terms=("gini",))
def gini(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko: Gini coefficient of the allowed rates (sign as published: more for unequal rates)."""
    return {"gini": gini_coefficient(interval.action)}


@register_reward("step", terms=("action", "equality", "queue"))
def step(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko's default: allowed rate and its equality; the negative allowed rate above a queue limit."""
    mean, q = float(interval.action.mean()), _longest_queue(interval)
    if q > STEP_QUEUE_LIMIT:
        return {"action": -mean, "equality": 0.0, "queue": -q}
    return {"action": mean, "equality": mean * (1.0 - gini_coefficient(interval.action)), "queue": -q}


@register_reward("iroko_paper", terms=("bandwidth", "queue", "std_dev"))
def iroko_paper(interval: Interval, weights: Weights) -> dict[str, float]:
    """Iroko in 2018: received bandwidth minus squared queues minus the standard deviation of the rates."""
    fabric = interval.fabric
    received_bits = interval.arrived_bytes * 8.0
    seconds = float(interval.duration_s)
    bandwidth = float((received_bits / fabric.line_rate_bps).sum()) / seconds if seconds > 0.0 else 0.0
    squares = float(np.square(interval.queue_bytes / fabric.port_buffer_bytes).sum())
    return {
        "bandwidth": bandwidth,
        "queue": -(fabric.n_ports / fabric.n_hosts) * squares,
        "std_dev": -float(interval.action.std()),
    }
