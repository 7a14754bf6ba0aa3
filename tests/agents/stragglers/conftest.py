"""Views of jobs, written by hand or of a small job with known causes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from sysgym.emulator.cluster.job import Job
from sysgym.envs.stragglers.base import StragglerEnv
from sysgym.envs.stragglers.mitigation import StragglerMitigation
from sysgym.envs.stragglers.observation import Observation
from sysgym.envs.stragglers.prediction import StragglerPrediction
from sysgym.envs.stragglers.view import JobView

TASKS_MAX = 128


class OneJob:
    """A source of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def job(self, split: str, episode_seed: int) -> Job:
        return self._job


@pytest.fixture(scope="session")
def stage() -> Callable[..., StragglerEnv]:
    """Makes an environment in which a job has just begun."""

    def make(job: Job, *, mitigates: bool = False) -> StragglerEnv:
        world = StragglerMitigation if mitigates else StragglerPrediction
        env = world(overrides={"jobs.tasks_max": TASKS_MAX}, source=OneJob(job))
        env.reset(options={"episode_seed": 7})
        return env

    return make


@pytest.fixture(scope="session")
def view_of() -> Callable[..., JobView]:
    """Makes a view; tasks with a latency have finished, tasks with a time run are running."""

    def make(
        x: ArrayLike,
        *,
        latency: dict[int, float],
        elapsed: dict[int, float],
        threshold: float = float("nan"),
        flagged: tuple[int, ...] = (),
    ) -> JobView:
        counters = np.asarray(x, dtype=np.float64).reshape(len(latency) + len(elapsed), -1)
        n = len(counters)
        finished, running = (np.isin(np.arange(n), list(part)) for part in (latency, elapsed))
        known, run, marked = np.full(n, np.nan), np.zeros(n), np.zeros(n, dtype=np.bool_)
        known[list(latency)], run[list(elapsed)] = list(latency.values()), list(elapsed.values())
        marked[list(flagged)] = True
        return JobView(
            tasks_max=n + 2,
            pending=np.zeros(n, dtype=np.bool_),
            running=running,
            finished=finished,
            x=counters,
            last=counters,
            elapsed=run,
            latency=known,
            flagged=marked,
            attempts=np.ones(n, dtype=np.int64),
            can_act=running & ~marked,
            threshold=threshold,
            quantiles=np.zeros(4),
            share_finished=len(latency) / n,
            checkpoint=0,
            free_machines=-1.0,
        )

    return make


@pytest.fixture(scope="session")
def contended_job() -> Job:
    """A hundred tasks: an eighth on contended machines, twice as slow and more, which two counters show."""
    rng = np.random.default_rng(3)
    n, windows, attempts = 100, 60, 2
    slowdown = np.ones((n, attempts))
    slowdown[:: n // 12, 0] = rng.uniform(1.8, 2.6, len(slowdown[:: n // 12]))
    duration_s = 10.0 * slowdown * np.exp(rng.normal(0.0, 0.12, (n, attempts)))
    noise = np.exp(rng.normal(0.0, 0.08, (n, attempts, windows, 4)))
    level = np.stack(
        [1.0 / slowdown, slowdown**0.7, np.ones_like(slowdown), np.full_like(slowdown, 2.0)], axis=-1
    )
    alive = np.arange(windows) < np.ceil(duration_s)[..., None]
    counters = (level[:, :, None] * noise * alive[..., None]).astype(np.float32)
    return Job(
        name="contended",
        window_s=1.0,
        counter_names=("cpu", "cpi", "memory", "disk"),
        start_s=np.zeros(n),
        duration_s=duration_s,
        counters=counters,
        cause=np.where(slowdown[:, 0] > 1.0, 2, 0).astype(np.int8),
    )


@pytest.fixture(scope="session")
def play(stage: Callable[..., StragglerEnv]) -> Callable[..., list[Observation]]:
    """Plays a job in the prediction environment and returns what was seen at every decision."""

    def run(job: Job, act: Callable[[Observation], Any] | None = None) -> list[Observation]:
        env = stage(job)
        observation, _ = env.reset(options={"episode_seed": 7})
        seen, over = [], False
        while not over:
            seen.append(observation)
            action = np.zeros(TASKS_MAX, dtype=np.int8) if act is None else act(observation)
            observation, _, over, _, _ = env.step(action)
        return seen

    return run
