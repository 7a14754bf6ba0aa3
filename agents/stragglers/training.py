"""Jobs of the train split as their predictors would have seen them: what is learned from other jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike

import numpy as np

from sysgym.agents.stragglers.predictor import BoolArray
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario


@dataclass(frozen=True)
class TrainingJob:
    """A job that has been watched to its end without a flag.

    Attributes:
        episode_seed: Which one of the train split.
        views: What was seen at every decision.
        stragglers: Which tasks turned out as stragglers, shape (n_tasks,).
        threshold: From which latency, in windows.
    """

    episode_seed: int
    views: list[JobView]
    stragglers: BoolArray
    threshold: float


def training_jobs(scenario: str | PathLike[str] | StragglerScenario, n_jobs: int) -> Iterator[TrainingJob]:
    """Watch jobs of the train split, the first seeds of its range.

    Args:
        scenario: What the environment takes: a name, a path or a scenario.
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
        # The last observation is followed by no decision.
        yield TrainingJob(seed, views[:-1], job.stragglers(env.threshold_s), env.threshold_s / job.window_s)
    env.close()
