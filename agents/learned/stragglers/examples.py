"""Training examples from finished jobs: a row for every running task at every checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.stragglers.features import task_features
from sysgym.emulator.cluster.source import JobSource
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario
from sysgym.scenarios.errors import SysgymError

FeatureMap = Callable[[JobView], NDArray[np.float32]]


@dataclass(frozen=True)
class Examples:
    """Rows; what happened to the task is known because its job is over.

    Attributes:
        counter_names: Of the scenario.
        features: Shape (n, F).
        straggler: Whether the task reached the threshold.
        in_time: Whether it had not yet when it was seen so.
        curable: Whether a second attempt, begun then, would have ended sooner.
        saving: What it would have saved, in windows; negative where it would have cost.
        job: Number of the episode.
        group: Number of the job; episodes share it if the draw, or a short trace, repeated a job.
        task: Number of the task in its job.
        checkpoint: Number of the checkpoint.
        elapsed_share: Time since the task began over the threshold.
    """

    counter_names: tuple[str, ...]
    features: NDArray[np.float32]
    straggler: NDArray[np.bool_]
    in_time: NDArray[np.bool_]
    curable: NDArray[np.bool_]
    saving: NDArray[np.float64]
    job: NDArray[np.int64]
    group: NDArray[np.int64]
    task: NDArray[np.int64]
    checkpoint: NDArray[np.int64]
    elapsed_share: NDArray[np.float64]

    @property
    def task_key(self) -> NDArray[np.int64]:
        """A number for every task of every job."""
        return self.job * 1_000_000 + self.task

    def where(self, rows: NDArray[np.bool_]) -> Examples:
        """Return some of the rows."""
        columns = {name: value[rows] for name, value in vars(self).items() if name != "counter_names"}
        return replace(self, **columns)


def collect(
    scenario: StragglerScenario,
    total_steps: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
    source: JobSource | None = None,
    split: str = "train",
    features: FeatureMap = task_features,
) -> Examples:
    """Watch jobs of a split and write down what happened.

    Args:
        scenario: The scenario.
        total_steps: Checkpoints to look at; the last job is watched to its end.
        seed: Of the choice of jobs.
        progress: Told the number of checkpoints seen.
        source: Where jobs come from instead of the scenario.
        split: Whose jobs.
        features: What a running task looks like: from a view to shape (n_running, F).

    Raises:
        SysgymError: If no checkpoint may be looked at.
    """
    if total_steps < 1:
        raise SysgymError(f"total_steps: expected at least 1, got {total_steps}")
    env: Any = gym.make(
        "sysgym/StragglerPrediction-v0",
        scenario=scenario,
        split=split,
        source=source,
        disable_env_checker=True,
    ).unwrapped
    wait = np.zeros(env.action_space.shape, dtype=np.int8)
    rows: dict[str, list[NDArray[Any]]] = {}
    steps, job_number = 0, 0
    groups: dict[str, int] = {}
    observation, _ = env.reset(seed=seed)
    while steps < total_steps:
        group, over = groups.setdefault(env.job.name, len(groups)), False
        while not over:
            for name, values in _rows(env, observation, job_number, group, features).items():
                rows.setdefault(name, []).append(values)
            observation, _, terminated, truncated, _ = env.step(wait)
            steps += 1
            over = terminated or truncated
        if progress is not None:
            progress(min(steps, total_steps))
        observation, _ = env.reset()
        job_number += 1
    env.close()
    return Examples(
        tuple(env.counter_names), **{name: np.concatenate(values) for name, values in rows.items()}
    )


def _rows(
    env: Any, observation: Any, job_number: int, group: int, features: FeatureMap
) -> dict[str, NDArray[Any]]:
    view = JobView.of(observation)
    job, running = env.job, view.running
    tasks = np.flatnonzero(running)
    # Not the view's single precision: whether a flag is in time must not hang on its last bits.
    elapsed_s = env.world.now_s - job.start_s[tasks]
    remaining_s = job.latency_s[tasks] - elapsed_s
    saving = (remaining_s - job.duration_s[tasks, min(1, job.n_attempts - 1)]) / job.window_s
    n = len(tasks)
    return {
        "features": features(view),
        "straggler": job.latency_s[tasks] >= env.threshold_s,
        "in_time": elapsed_s < env.threshold_s,
        "curable": saving > 0.0,
        "saving": saving,
        "job": np.full(n, job_number),
        "group": np.full(n, group),
        "task": tasks,
        "checkpoint": np.full(n, int(view.checkpoint)),
        "elapsed_share": elapsed_s / env.threshold_s,
    }
