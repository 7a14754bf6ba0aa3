"""Jobs made by hand, and environments for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.emulator.cluster.job import Job

REGISTERED = sysgym.__version__
IDS = {
    "prediction": "sysgym/StragglerPrediction-v0",
    "mitigation": "sysgym/StragglerMitigation-v0",
}

MakeEnv = Callable[..., Any]


@dataclass(frozen=True)
class FixedSource:
    """Always the same job, or one for each seed in turn."""

    jobs: tuple[Job, ...]

    def job(self, split: str, episode_seed: int) -> Job:
        return self.jobs[episode_seed % len(self.jobs)]


def hand_made(
    latency_s: Sequence[float],
    later_s: Any = (),
    *,
    start_s: Any = 0.0,
    window_s: float = 1.0,
    counters: Any = None,
    name: str = "hand-made",
) -> Job:
    """Make a job.

    Args:
        latency_s: How long the first attempts take.
        later_s: How long the second, third, ... attempts take, one sequence or number for each.
        start_s: When tasks start.
        window_s: Measuring window.
        counters: Shape (n_tasks, n_attempts, n_windows, C); default: one that counts windows.
        name: Name of the job.
    """
    first = np.asarray(latency_s, dtype=np.float64)
    n = len(first)
    duration = np.stack([first, *(np.zeros(n) + one for one in later_s)], axis=1)
    windows = math.ceil(duration.max() / window_s)
    if counters is None:
        counters = np.zeros((*duration.shape, windows, 1)) + np.arange(1, windows + 1)[:, None]
    live = np.arange(windows) < np.ceil(duration[:, :, None] / window_s)
    return Job(
        name=name,
        window_s=window_s,
        counter_names=tuple(f"counter_{column}" for column in range(np.shape(counters)[3])),
        start_s=np.zeros(n) + start_s,
        duration_s=duration,
        counters=(counters * live[..., None]).astype(np.float32),
        cause=np.zeros(n, np.int8),
    )


def random_job(seed: int, n: int = 30, attempts: int = 3, starts: float = 3.0) -> Job:
    """Make a job of random durations and counters."""
    rng = np.random.default_rng(seed)
    duration = rng.lognormal(2.0, 0.5, (attempts, n))
    counters = rng.random((n, attempts, math.ceil(duration.max()), 3))
    return hand_made(duration[0], duration[1:], start_s=rng.uniform(0.0, starts, n), counters=counters)


@pytest.fixture(scope="session")
def make_job() -> Callable[..., Job]:
    return hand_made


@pytest.fixture(scope="session")
def make_random_job() -> Callable[..., Job]:
    return random_job


@pytest.fixture(scope="session")
def make_env() -> MakeEnv:
    """Makes ``prediction`` or ``mitigation``, of a scenario's jobs or of those given."""

    def make(kind: str, *jobs: Job, tasks_max: int = 40, **arguments: Any) -> Any:
        if jobs:
            arguments["source"] = FixedSource(jobs)
            small = {"jobs.tasks_min": 2, "jobs.tasks_max": tasks_max}
            arguments["overrides"] = small | arguments.pop("overrides", {})
        return gym.make(IDS[kind], **arguments).unwrapped

    return make
