"""Views of jobs: written out by hand, or of a small job whose causes are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import ArrayLike

from sysgym.emulator.cluster.execution import Execution
from sysgym.emulator.cluster.job import QUANTILE, Job
from sysgym.envs.stragglers.observation import Observation, ObservationBuilder
from sysgym.envs.stragglers.view import JobView

TASKS_MAX = 128


class Stage:
    """What an agent sees of an environment when an episode begins: spaces, job, scenario and seed."""

    def __init__(
        self, job: Job | None = None, *, mitigates: bool = False, tasks_max: int = TASKS_MAX
    ) -> None:
        self.action_space: gym.spaces.Space[Any] = (
            gym.spaces.MultiDiscrete([3] * tasks_max) if mitigates else gym.spaces.MultiBinary(tasks_max)
        )
        self.job = job
        self.scenario = SimpleNamespace(straggler=SimpleNamespace(definition=QUANTILE, value=0.9))
        self.episode_seed = 7

    @property
    def unwrapped(self) -> Stage:
        return self


@pytest.fixture(scope="session")
def stage() -> Callable[..., Any]:
    return Stage


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
            checkpoint=0.0,
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


def observations(job: Job, act: Callable[[Observation], Any] | None = None) -> Iterator[Observation]:
    """Play a job as the prediction environment does: from 4 % finished, one decision a window."""
    world = Execution(job)
    builder = ObservationBuilder(TASKS_MAX, job.counter_names, 200)
    flagged = np.zeros(job.n_tasks, dtype=np.bool_)
    threshold_s = job.threshold_s(QUANTILE, 0.9)
    checkpoint = 0
    while not world.done:
        world.advance(job.window_s)
        if world.share_finished < 0.04 or world.done:
            continue
        snapshot = world.snapshot()
        observation = builder.build(
            snapshot,
            window_s=job.window_s,
            checkpoint=checkpoint,
            threshold_s=threshold_s,
            flagged=flagged.copy(),
            mask=(snapshot.state == 1) & ~flagged,
        )
        yield observation
        if act is not None:
            flagged |= np.asarray(act(observation))[: job.n_tasks] > 0
        checkpoint += 1


@pytest.fixture(scope="session")
def play() -> Callable[..., list[Observation]]:
    """Plays a job and returns all observations; ``act`` may flag tasks."""

    def run(job: Job, act: Callable[[Observation], Any] | None = None) -> list[Observation]:
        return list(observations(job, act))

    return run
