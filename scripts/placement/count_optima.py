"""Count the different optimal answers in the test episodes of a placement scenario.

    python scripts/placement/count_optima.py program-unseen placement-unseen

Plays the exact search on the first seeds of the test split and prints how many different answers it gives,
how often it gives the most frequent one, among how many candidates it searches, and its time for an episode.
A policy that always gives the most frequent answer is right that often, whatever it has learned.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from statistics import median

import gymnasium as gym
import numpy as np

import sysgym  # noqa: F401  registers the environments
from sysgym.agents import make_agent
from sysgym.scenarios import load_scenario


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="+")
    parser.add_argument("--episodes", type=int, default=100)
    given = parser.parse_args()
    for name in given.scenarios:
        scenario = load_scenario(name)
        env = gym.make(scenario.env_id, scenario=name, split="test")
        agent = make_agent("exhaustive")
        answers: Counter[tuple[int, ...]] = Counter()
        seconds, candidates = [], []
        first = scenario.splits["test"].seeds[0]
        for seed in range(first, first + given.episodes):
            observation, _ = env.reset(options={"episode_seed": seed})
            begun = time.perf_counter()
            agent.begin(env)
            answer, over = [], False
            while not over:
                action = agent.act(observation)
                answer.append(int(np.asarray(action).item()))
                observation, _, terminated, truncated, _ = env.step(action)
                over = terminated or truncated
            seconds.append(time.perf_counter() - begun)
            candidates.append(agent.evaluations)  # type: ignore[attr-defined]
            answers[tuple(answer)] += 1
        env.close()
        print(
            f"{name}: {len(answers)} different answers in {given.episodes} episodes, the most frequent one"
            f" {max(answers.values())} times; a median of {median(candidates):g} candidates and"
            f" {median(seconds) * 1e3:.1f} ms an episode"
        )


if __name__ == "__main__":
    main()
