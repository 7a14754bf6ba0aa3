"""Rate control of two senders for experiments, on Iroko's dumbbell with a core link of any rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import sysgym  # noqa: F401  (registers the environments)
from sysgym.agents.protocol import Agent, environment_arguments
from sysgym.agents.registry import make_agent
from sysgym.scenarios import CongestionScenario, load_scenario

SCENARIO = "iroko-dumbbell-10m"
HOME_BPS = 10e6
"""Default rate of the core link in :func:`home`; the hosts' links always have this rate."""

VARIED_BPS = (3e6, 5e6, 7e6, 10e6)
"""Rates of the core link in :func:`varied`."""

STEPS = 200
"""Number of decisions in an episode, one every 0.1 s."""

CORE = "west->east"
_ENV = "sysgym/DatacenterCC-v0"

Act = Callable[[dict[str, Any]], Any]


class Outcome(NamedTuple):
    """Results of an episode."""

    total: float
    """Sum of the environment's rewards: goodput against the fair share, minus queueing delay and loss."""
    goodput_share: float
    """Goodput divided by the maximum goodput of the core link."""
    delay_s: float
    """Mean queueing delay at the core link."""
    dropped: float
    """Share of dropped packets."""


def home(core_rate_bps: float = HOME_BPS) -> CongestionScenario:
    """Return the dumbbell with a constant rate of the core link."""
    overrides = {"topology.core_rate_bps": core_rate_bps, "control.episode_steps": STEPS}
    return load_scenario(SCENARIO, overrides=overrides, expect=CongestionScenario)


def varied() -> CongestionScenario:
    """Return the dumbbell with a core link whose rate varies between episodes of the train split."""
    return load_scenario(
        SCENARIO,
        overrides={
            "topology.core_rate_bps": HOME_BPS,
            "control.episode_steps": STEPS,
            "splits.train.vary": {"topology.core_rate_bps": list(VARIED_BPS)},
        },
        expect=CongestionScenario,
    )


def play_rule(act: Act, core_rate_bps: float = HOME_BPS, seed: int = 20_000) -> Outcome:
    """Simulate an episode with a rule.

    Args:
        act: Function that takes an observation and returns the next rates of both senders, as shares of the
            rate of a host's link. The observation is a dict: ``delay`` (queueing delay d at the core link as
            d / (d + round trip of the empty path)), ``marks`` (share of marked packets at the core link), and
            ``rates`` (current rates of both senders, as such shares).
        core_rate_bps: Rate of the core link, unknown to the rule.
        seed: Seed of the episode.
    """
    env: Any = gym.make(_ENV, scenario=home(core_rate_bps), split="test")
    world = env.unwrapped
    core = [name for name in world.observation_index if CORE in name]
    places = {
        what: list(world.observation_index).index(next(name for name in core if name.startswith(what)))
        for what in ("queue_delay", "mark_fraction")
    }
    rates = slice(world.observation_part("rate").start, world.observation_part("rate").start + 2)
    least = float(world.scenario.control.min_rate_fraction)

    def action(observation: Any) -> Any:
        known = {
            "delay": float(observation[places["queue_delay"]]),
            "marks": float(observation[places["mark_fraction"]]),
            "rates": [float(one) for one in observation[rates]],
        }
        wanted = np.clip(np.asarray(act(known), np.float64), least, 1.0)
        return world.action_for(np.concatenate([wanted, np.full(world.fabric.n_hosts - 2, least)]))

    return _play(env, action, core_rate_bps, seed)


def play_policy(policy: str | Path, core_rate_bps: float = HOME_BPS, seed: int = 20_000) -> Outcome:
    """Simulate an episode with a trained policy.

    Args:
        policy: Path of the checkpoint, which is read as data without running code from it.
        core_rate_bps: Rate of the core link.
        seed: Seed of the episode.
    """
    agent: Agent = make_agent("ppo", family="congestion", checkpoint=policy)
    arguments: Mapping[str, Any] = environment_arguments(agent)
    env: Any = gym.make(_ENV, scenario=home(core_rate_bps), split="test", **arguments)
    agent.begin(env)
    return _play(env, agent.act, core_rate_bps, seed)


def _play(env: Any, act: Callable[[Any], Any], core_rate_bps: float, seed: int) -> Outcome:
    try:
        observation, info = env.reset(options={"episode_seed": seed})
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, info = env.step(act(observation))
            total += float(reward)
            over = terminated or truncated
    finally:
        env.close()
    metrics = info["episode_metrics"]
    payload_share = 1460.0 / 1500.0
    return Outcome(
        total,
        metrics["goodput_bps"] / (payload_share * core_rate_bps),
        8.0 * metrics["queue_mean_bytes"] / core_rate_bps,
        metrics["drop_fraction"],
    )
