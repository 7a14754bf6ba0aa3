"""Training examples from completed jobs, with a row for every running task at every checkpoint."""

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
    """Training examples, with labels from the completed job.

    Attributes:
        counter_names: Names of the scenario's counters.
        features: Features, shape (n, F).
        straggler: Whether the task reached the threshold.
        in_time: Whether it had not yet reached the threshold at the checkpoint.
        now: Time of the checkpoint since the job's submission, in windows.
        elapsed: Time since the start of the task, in windows.
        remaining: Time until the task ends without action, in windows.
        again: Duration of a second attempt, in windows; inf if there is none.
        others_end: Earliest time until all other tasks can have ended, each by its first attempt or by a
            second one started now, in windows.
        completion: Completion time of the job without action, in windows since its submission.
        n_tasks: Number of tasks of the job.
        job: Index of the episode.
        group: Index of the job; episodes with the same job share it.
        task: Index of the task in its job.
        checkpoint: Index of the checkpoint.
        elapsed_share: Time since the start of the task, divided by the threshold.
    """

    counter_names: tuple[str, ...]
    features: NDArray[np.float32]
    straggler: NDArray[np.bool_]
    in_time: NDArray[np.bool_]
    now: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    remaining: NDArray[np.float64]
    again: NDArray[np.float64]
    others_end: NDArray[np.float64]
    completion: NDArray[np.float64]
    n_tasks: NDArray[np.int64]
    job: NDArray[np.int64]
    group: NDArray[np.int64]
    task: NDArray[np.int64]
    checkpoint: NDArray[np.int64]
    elapsed_share: NDArray[np.float64]

    @property
    def task_key(self) -> NDArray[np.int64]:
        """Unique number of every task of every job."""
        return self.job * 1_000_000 + self.task

    @property
    def shortens(self) -> NDArray[np.bool_]:
        """Whether a second attempt started at the checkpoint would shorten the job.

        The second attempt must end before the first, and the first attempt after the earliest end of all
        other tasks, because a job completes with its last task.
        """
        return (self.again < self.remaining) & (self.remaining > self.others_end)

    def where(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Examples:
        """Return a selection of the rows."""
        columns = {name: value[rows] for name, value in vars(self).items() if name != "counter_names"}
        return replace(self, **columns)


def halves(examples: Examples, share_held_out: float) -> tuple[Examples, Examples]:
    """Split examples by job into a set for fitting and a held-out set for choosing limits.

    Args:
        examples: Examples of at least two jobs.
        share_held_out: Share of the jobs in the held-out set, which has at least one job.
    """
    jobs = np.unique(examples.group)
    held_out = np.isin(examples.group, jobs[: max(1, round(share_held_out * len(jobs)))])
    return examples.where(~held_out), examples.where(held_out)


def collect(
    scenario: StragglerScenario,
    total_steps: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
    source: JobSource | None = None,
    split: str = "train",
    features: FeatureMap = task_features,
) -> Examples:
    """Return training examples from jobs of a split.

    Args:
        scenario: The scenario.
        total_steps: Number of checkpoints to collect, rounded up to whole jobs.
        seed: Seed of the choice of jobs.
        progress: Callback with the number of checkpoints so far.
        source: Source of jobs; None: the scenario's.
        split: Split of the jobs.
        features: Function from a view to the features of running tasks, shape (n_running, F).

    Raises:
        SysgymError: If ``total_steps`` allows no checkpoint.
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
    # Times are computed in double precision, because flags in time must not depend on the view's rounding.
    elapsed_s = env.world.now_s - job.start_s[tasks]
    remaining_s = job.latency_s[tasks] - elapsed_s
    again_s = job.duration_s[tasks, 1] if job.n_attempts > 1 else np.full(len(tasks), np.inf)
    # The end of an ended task is in the past; a task that has not begun runs its first attempt.
    earliest_s = job.start_s + job.latency_s - env.world.now_s
    earliest_s[tasks] = np.minimum(remaining_s, again_s)
    n = len(tasks)
    return {
        "features": features(view),
        "straggler": job.latency_s[tasks] >= env.threshold_s,
        "in_time": elapsed_s < env.threshold_s,
        "now": np.full(n, env.world.now_s / job.window_s),
        "elapsed": elapsed_s / job.window_s,
        "remaining": remaining_s / job.window_s,
        "again": again_s / job.window_s,
        "others_end": _largest_without(earliest_s)[tasks] / job.window_s,
        "completion": np.full(n, job.completion_s / job.window_s),
        "n_tasks": np.full(n, job.n_tasks),
        "job": np.full(n, job_number),
        "group": np.full(n, group),
        "task": tasks,
        "checkpoint": np.full(n, int(view.checkpoint)),
        "elapsed_share": elapsed_s / env.threshold_s,
    }


def _largest_without(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest of all other elements for every element, at least 0."""
    first = int(values.argmax())
    second = np.delete(values, first).max(initial=0.0)
    found = np.full(len(values), max(float(values[first]), 0.0))
    found[first] = second
    return found
