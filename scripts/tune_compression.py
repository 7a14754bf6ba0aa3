"""Choose the constants of the compression family's rules on validation seeds.

python scripts/tune_compression.py
python scripts/tune_compression.py compression-drift --episodes 40

Prints the mean regret of each setting, the best first. Test seeds are not touched.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

import sysgym
from sysgym.agents import make_agent
from sysgym.agents.protocol import play_episode
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.schema.compression import METHODS

REGISTERED = sysgym.__version__
HYSTERESES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
MEMORIES = (0.0, 0.25, 0.5, 0.75, 0.9)
SHOWN = 5


def settings() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield agents and their parameters."""
    for hysteresis, memory in itertools.product(HYSTERESES, MEMORIES):
        yield "crossover", {"hysteresis": hysteresis, "memory": memory}
    for strong, gentle in itertools.permutations(METHODS, 2):
        yield "accordion", {"strong": strong, "gentle": gentle}
    for method in METHODS:
        yield ("never" if method == "none" else method), {}


def mean_regret(scenario: str, agent: str, parameters: Mapping[str, Any], n_episodes: int) -> float:
    """Return the mean regret over the first validation seeds."""
    env = gym.make(
        load_scenario(scenario).env_id, scenario=scenario, split="validation", disable_env_checker=True
    )
    first = load_scenario(scenario).splits.validation.first_seed
    player = make_agent(agent, family="compression", **parameters)
    regrets = [
        play_episode(env, player, options={"episode_seed": seed})[1]["episode_metrics"]["regret"]
        for seed in range(first, first + n_episodes)
    ]
    return float(np.mean(regrets))


def main() -> None:
    """Print the best settings of every agent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="names of scenarios (default: all of the family)")
    parser.add_argument("--episodes", type=int, default=12, help="validation episodes (default 12)")
    arguments = parser.parse_args()
    for scenario in arguments.scenarios or [info.name for info in list_scenarios("compression")]:
        found: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
        for agent, parameters in settings():
            regret = mean_regret(scenario, agent, parameters, arguments.episodes)
            found.setdefault(agent, []).append((regret, parameters))
        print(f"{scenario}: mean regret over {arguments.episodes} validation episodes")
        for agent, tried in found.items():
            for regret, parameters in sorted(tried, key=lambda one: one[0])[:SHOWN]:
                words = ", ".join(f"{name} = {value}" for name, value in parameters.items())
                print(f"  {regret:8.4f}  {agent}  {words}")


if __name__ == "__main__":
    main()
