"""Training jobs as observed by predictors, for agents that learn from other jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike

import numpy as np

from sysgym.agents.stragglers.base import BoolArray
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario


@dataclass(frozen=True)
class TrainingJob:
    """Completed job, observed without flags.

    Attributes:
        episode_seed: Episode seed in the train split.
        views: Views at every decision.
        stragglers: Mask of the stragglers, shape (n_tasks,).
        threshold: Latency at and above which a task is a straggler, in windows.
    """

    episode_seed: int
    views: list[JobView]
    stragglers: BoolArray
    threshold: float


def training_jobs(scenario: str | PathLike[str] | StragglerScenario, n_jobs: int) -> Iterator[TrainingJob]:
    """Yield jobs of the train split, with the first seeds of its range.

    Args:
        scenario: Name, path or scenario.
        n_jobs: Number of jobs.
    """
    from sysgym.envs.stragglers.prediction import StragglerPrediction

    env = StragglerPrediction(scenario=scenario, split="train")
    first_seed = int(env.scenario.splits["train"].seeds[0])
    for seed in range(first_seed, first_seed + n_jobs):
        observation, _ = env.reset(options={"episode_seed": seed})
        nothing = np.zeros(env.scenario.jobs.tasks_max, dtype=np.int8)
        views, over = [JobView.of(observation)], False
        while not over:
            observation, _, terminated, truncated, _ = env.step(nothing)
            over = terminated or truncated
            views.append(JobView.of(observation))
        job = env.job
        # No decision follows the last observation.
        yield TrainingJob(seed, views[:-1], job.stragglers(env.threshold_s), env.threshold_s / job.window_s)
    env.close()
