"""Jobs of parallel tasks for experiments, with a scheduler's knowledge at each checkpoint as a dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import sysgym  # noqa: F401  (registers the environments)
from sysgym.envs.stragglers.view import JobView

SCENARIO = "google-2011"
FIRST_TEST_SEED = 20_000

COUNTERS = ("cpu_rate", "disk_io_time", "cycles_per_instruction", "evictions")
"""Counters in the labs' jobs, a subset of the fifteen in Google's trace."""

Known = dict[str, Any]
"""Knowledge at a checkpoint; see :func:`known_now`."""


def known_now(observation: Mapping[str, NDArray[np.float32]], counter_names: Sequence[str]) -> Known:
    """Return a scheduler's knowledge of a job with n tasks; times are in measuring windows.

    Keys: ``running`` and ``finished`` (masks), ``elapsed`` (time a task has run; 0 if it is not running),
    ``latency`` (of finished tasks; nan for others), ``threshold`` (minimum latency of a straggler),
    ``checkpoint`` (number of earlier decisions), and every name in :data:`COUNTERS` (mean over the windows of
    the task so far). All values except ``threshold`` and ``checkpoint`` are arrays of shape (n,).
    """
    view = JobView.of(observation)
    known: Known = {
        "running": view.running,
        "finished": view.finished,
        "elapsed": view.elapsed,
        "latency": view.latency,
        "threshold": view.threshold,
        "checkpoint": view.checkpoint,
    }
    return known | {name: view.x[:, list(counter_names).index(name)] for name in COUNTERS}


def play_job(flag: Callable[[Known], Any], seed: int = FIRST_TEST_SEED) -> dict[str, float]:
    """Simulate one job with a rule that flags stragglers, and return the metrics of the episode.

    Args:
        flag: Function of the knowledge at a checkpoint that returns, for each task, whether to flag it. Flags
            are permanent, and count only if the task has not yet run for the threshold.
        seed: Seed of the job; seeds from 20000 on are in the test split.
    """
    env: Any = gym.make("sysgym/StragglerPrediction-v0", scenario=SCENARIO, split="test")
    try:
        observation, info = env.reset(options={"episode_seed": seed})
        over = False
        while not over:
            known = known_now(observation, env.unwrapped.counter_names)
            action = np.zeros(env.action_space.shape, np.int64)
            flags = np.asarray(flag(known), np.bool_)
            action[: len(flags)] = flags
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
    finally:
        env.close()
    metrics: dict[str, float] = info["episode_metrics"]
    return metrics


def clock(share: float) -> Callable[[Known], NDArray[np.bool_]]:
    """Return a rule that flags all tasks that have run for a share of the threshold."""
    return lambda known: known["running"] & (known["elapsed"] >= share * known["threshold"])
