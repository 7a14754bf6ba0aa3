"""Choose the constants of the rules of some families on validation seeds.

python scripts/agents/tune_rules.py compression
python scripts/agents/tune_rules.py bursts --scenario burst-mux --episodes 40

Prints the mean of the family's metric for each setting, the best first. Test seeds are not touched.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import sysgym
from sysgym.agents import make_agent
from sysgym.agents.diagnosis.rules import SIGNS
from sysgym.agents.protocol import play_episode
from sysgym.emulator.bursts.multiplexing import BATCHES, MOST_PIECES
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.schema.compression import METHODS

REGISTERED = sysgym.__version__
HYSTERESES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
MEMORIES = (0.0, 0.25, 0.5, 0.75, 0.9)
SHOWN = 5


Settings = Iterator[tuple[str, Mapping[str, Any]]]


def compression_settings(env_id: str) -> Settings:
    """Yield agents of compression and their parameters."""
    for hysteresis, memory in itertools.product(HYSTERESES, MEMORIES):
        yield "crossover", {"hysteresis": hysteresis, "memory": memory}
    for strong, gentle in itertools.permutations(METHODS, 2):
        yield "accordion", {"strong": strong, "gentle": gentle}
    for method in METHODS:
        yield ("never" if method == "none" else method), {}


def failslow_settings(env_id: str) -> Settings:
    """Yield agents of fail-slow faults and their parameters."""
    for limit in (3.0, 6.0):
        yield "always_restart", {"limit": limit}
    for worker, link in itertools.product((2.0, 3.0), (1.5, 2.5)):
        yield "threshold", {"worker": worker, "link": link, "wait_h": 0.1}
    for drift, limit, escalation in itertools.product((0.15, 0.3), (1.0, 3.0), (10.0, 100.0)):
        yield "cusum", {"drift": drift, "limit": limit, "escalation": escalation}
    for multiple, worker, link in itertools.product((0.5, 1.0, 2.0), (1.3, 1.5), (1.5, 2.0)):
        yield "ski_rental", {"multiple": multiple, "worker": worker, "link": link}
    for base_h, growth, slow in itertools.product((0.1, 0.2, 0.4), (0.0, 0.1), (1.15, 1.3)):
        yield "payback", {"base_h": base_h, "growth": growth, "slow": slow}


def diagnosis_settings(env_id: str) -> Settings:
    """Yield agents of diagnosis and their parameters."""
    parts = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
    for sign, whole in itertools.product(SIGNS, (0.5, 0.6, 0.7, 0.8, 0.9)):
        yield "longest", {"sign": sign, "whole": whole}
    for stage_weight, kind_weight in itertools.product((1.0, 1.2, 1.5, 2.0, 3.0), (0.1, 0.2, 0.4, 0.6, 1.0)):
        yield "latest_throughout", {"stage_weight": stage_weight, "kind_weight": kind_weight}
    for count, sign, precise in itertools.product((2, 3, 4, 6), ("late", "steady"), parts):
        yield "largest_share", {"count": count, "sign": sign, "precise": precise}
    for count, precise in itertools.product((1, 2, 4), parts):
        yield "narrowing", {"count": count, "precise": precise}
    for count, sign, precise in itertools.product((1, 2, 4, 8), ("late", "steady"), parts):
        yield "contrast", {"count": count, "sign": sign, "precise": precise}


def burst_settings(env_id: str) -> Settings:
    """Yield agents of bursts that play an environment, and their parameters."""
    if env_id == "sysgym/BurstPlan-v0":
        for gpus in (1, 2, 4, 8, 16, 32):
            yield "fixed_gpus", {"gpus": gpus}
        for limit in (1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0):
            yield "deeppool", {"limit": limit}
        return
    for batch, pieces in itertools.product(BATCHES[1:], range(1, MOST_PIECES + 1)):
        yield "constant_background", {"batch": batch, "pieces": pieces}
    for target, batch, every in itertools.product((0.05, 0.1, 0.15, 0.2), BATCHES[3:], (3, 10, 30)):
        yield "aimd_background", {"target": target, "batch": batch, "every": every}
    for memory, margin in itertools.product((0.0, 0.5, 0.8, 0.9, 0.95), (0.0, 0.02, 0.04, 0.08)):
        yield "model_background", {"memory": memory, "margin": margin}


SETTINGS: dict[str, Callable[[str], Settings]] = {
    "compression": compression_settings,
    "bursts": burst_settings,
    "failslow": failslow_settings,
    "diagnosis": diagnosis_settings,
}
"""What is tried, by family."""


class Goal(NamedTuple):
    """What is made small, or large.

    Attributes:
        metric: Name of the metric.
        larger: Whether more of it is better.
    """

    metric: str
    larger: bool = False


GOALS = {
    "compression": Goal("regret"),
    "bursts": Goal("regret"),
    "failslow": Goal("delay"),
    "diagnosis": Goal("net", larger=True),
}
"""Goal of each family."""


def mean_metric(scenario: str, agent: str, parameters: Mapping[str, Any], n_episodes: int) -> float:
    """Return the mean of the family's metric over the first validation seeds."""
    loaded = load_scenario(scenario)
    env = gym.make(loaded.env_id, scenario=scenario, split="validation", disable_env_checker=True)
    first = loaded.splits.validation.first_seed
    player = make_agent(agent, family=loaded.family, **parameters)
    name = GOALS[loaded.family].metric
    values = [
        play_episode(env, player, options={"episode_seed": seed})[1]["episode_metrics"][name]
        for seed in range(first, first + n_episodes)
    ]
    return float(np.mean(values))


def main() -> None:
    """Print the best settings of every agent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=sorted(SETTINGS), help="family of the rules")
    parser.add_argument("--scenario", action="append", help="name of a scenario (default: all of the family)")
    parser.add_argument("--episodes", type=int, default=12, help="validation episodes (default 12)")
    arguments = parser.parse_args()
    for scenario in arguments.scenario or [info.name for info in list_scenarios(arguments.family)]:
        found: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
        for agent, parameters in SETTINGS[arguments.family](load_scenario(scenario).env_id):
            value = mean_metric(scenario, agent, parameters, arguments.episodes)
            found.setdefault(agent, []).append((value, parameters))
        goal = GOALS[arguments.family]
        print(f"{scenario}: mean {goal.metric} over {arguments.episodes} validation episodes")
        for agent, tried in found.items():
            by_value = sorted(tried, key=lambda one: one[0], reverse=goal.larger)
            for value, parameters in by_value[:SHOWN]:
                words = ", ".join(f"{name} = {value}" for name, value in parameters.items())
                print(f"  {value:8.4f}  {agent}  {words}", flush=True)


if __name__ == "__main__":
    main()
