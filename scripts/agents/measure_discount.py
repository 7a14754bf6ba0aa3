"""Effect of the discount factor on plain PPO; the figures of docs/training.md.

    python scripts/agents/measure_discount.py iroko-dumbbell-10m --steps 30000

One training for each factor and seed: PPO with the defaults of stable-baselines3, except for the factor and
the initial standard deviation of actions. Each policy runs the same held-out episodes with its mean action.
Prints a line for each training, and a table of means.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO

import sysgym
from sysgym.agents import make_agent, play_episode
from sysgym.scenarios import load_scenario

REGISTERED = sysgym.__version__

METRICS = {"goodput_bps": 1e-6, "queue_delay_p99_s": 1e3, "queue_mean_bytes": 1e-3}
"""Metric -> what turns it into Mb/s, ms, kB."""


class _Policy:
    """Plays the mean action of a model."""

    name = "ppo"

    def __init__(self, model: PPO) -> None:
        self._model = model

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Nothing to find out."""

    def act(self, observation: Any) -> Any:
        """Return the mean action."""
        return self._model.predict(observation, deterministic=True)[0]


def make(scenario: str, **arguments: Any) -> gym.Env[Any, Any]:
    """Make the scenario's environment, with actions as it has them by default."""
    return gym.make(load_scenario(scenario).env_id, scenario=scenario, disable_env_checker=True, **arguments)


def held_out(scenario: str, agent: Any, episodes: int, **arguments: Any) -> dict[str, float]:
    """Return means over episodes of the test split: the return, and METRICS."""
    env = make(scenario, split="test", **arguments)
    first = load_scenario(scenario).splits["test"].seeds[0]
    found: list[dict[str, float]] = []
    for seed in range(first, first + episodes):
        total, info = play_episode(env, agent, seed=seed, options={"episode_seed": seed})
        metrics = info["episode_metrics"]
        found.append({"return": total} | {name: metrics[name] * unit for name, unit in METRICS.items()})
    env.close()
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def train(scenario: str, gamma: float, seed: int, steps: int, log_std_init: float, scale: str) -> PPO:
    """Train PPO as it comes, but for the discount factor and the first spread of actions."""
    env, spread = make(scenario, action_scale=scale), {"log_std_init": log_std_init}
    return PPO("MlpPolicy", env, gamma=gamma, policy_kwargs=spread, seed=seed, device="cpu").learn(steps)


def main() -> None:
    """Train, play, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--gammas", type=float, nargs="+", default=[0.0, 0.5, 0.9, 0.99])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--log-std-init", type=float, default=-2.0, help="stable-baselines3's own is 0")
    parser.add_argument("--scale", default="linear", help="of actions")
    parser.add_argument("--episodes", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    dctcp = held_out(chosen.scenario, make_agent("max"), chosen.episodes, transport="dctcp")
    print("dctcp", _line(dctcp), flush=True)
    table = []
    for gamma in chosen.gammas:
        found = []
        for seed in chosen.seeds:
            model = train(chosen.scenario, gamma, seed, chosen.steps, chosen.log_std_init, chosen.scale)
            agent = _Policy(model)
            found.append(held_out(chosen.scenario, agent, chosen.episodes, action_scale=chosen.scale))
            print(f"gamma {gamma:g}, seed {seed}:", _line(found[-1]), flush=True)
        spread = [one["return"] for one in found]
        means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        cells = [f"{means['return']:.1f} ({min(spread):.1f} to {max(spread):.1f})"]
        cells += [f"{means[name]:.3g}" for name in METRICS]
        table.append(f"| {gamma:g} | {' | '.join(cells)} |")
    print(f"\n{chosen.scenario}, {chosen.steps} steps, {len(chosen.seeds)} seeds")
    print("| gamma | return (of the seeds) | goodput, Mb/s | queueing delay, p99, ms | queue, mean, kB |")
    print("| ---: | --- | ---: | ---: | ---: |")
    print("\n".join(table))


def _line(means: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in means.items())


if __name__ == "__main__":
    main()
