"""Measure how much of a task's future an observation shows.

    python scripts/stragglers/measure_leak.py alibaba-2018-hour-leaking
    python scripts/stragglers/measure_leak.py google-2011

Prints the rank correlation (Spearman) of each counter, as running tasks show it at the first decision, with
the latency that the task will have: median and quartiles over test jobs. Counters that are measured while
tasks run correlate too, because slow tasks look different; a counter of which only the mean over a task's
whole life is known does so without having been measured yet.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.stats import spearmanr

import sysgym  # noqa: F401  (registers the environments)
from sysgym.envs.stragglers.view import JobView

LEAST_TASKS = 10


def main() -> None:
    """Print a line for each counter."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario")
    parser.add_argument("--jobs", type=int, default=30)
    given = parser.parse_args()
    env: Any = gym.make("sysgym/StragglerPrediction-v0", scenario=given.scenario, split="test")
    world = env.unwrapped
    first = world.scenario.splits["test"].seeds[0]
    found = []
    for seed in range(first, first + given.jobs):
        observation, _ = env.reset(options={"episode_seed": seed})
        view = JobView.of(observation)
        if view.running.sum() >= LEAST_TASKS:
            latency_s = world.job.latency_s[view.running]
            found.append([_correlation(counter, latency_s) for counter in view.x[view.running].T])
    print(f"{given.scenario}: {len(found)} jobs; median [quartiles] of the rank correlation with the latency")
    for name, values in zip(world.counter_names, np.transpose(found), strict=True):
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
        print(f"  {name:24} {middle:5.2f} [{low:5.2f}, {high:5.2f}]")


def _correlation(counter: Any, latency_s: Any) -> float:
    """Return Spearman's correlation, 0 if all tasks show the same."""
    if np.ptp(counter) == 0.0 or np.ptp(latency_s) == 0.0:
        return 0.0
    return float(spearmanr(counter, latency_s).statistic)


if __name__ == "__main__":
    main()
