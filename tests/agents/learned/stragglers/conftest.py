"""Jobs with known completion times, views of them, and short trainings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import ArrayLike

import sysgym
from sysgym.agents.learned.stragglers.examples import Examples
from sysgym.agents.learned.stragglers.transfer import train_transfer
from sysgym.emulator.cluster.job import Job
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario, load_scenario

REGISTERED = sysgym.__version__
IDS = {"prediction": "sysgym/StragglerPrediction-v0", "mitigation": "sysgym/StragglerMitigation-v0"}
SMALL = {"jobs.tasks_min": 20, "jobs.tasks_max": 30}


@dataclass(frozen=True)
class Jobs:
    """A source whose job hangs on the seed; remembers what was asked of it."""

    make: Callable[[int], Job]
    asked: list[tuple[str, int]]

    def job(self, split: str, episode_seed: int) -> Job:
        self.asked.append((split, episode_seed))
        return self.make(episode_seed)


def hand_made(
    latency_s: ArrayLike,
    second_s: Any = None,
    *,
    start_s: Any = 0.0,
    window_s: float = 1.0,
    name: str = "hand-made",
    level: Any = 1.0,
) -> Job:
    """Make a job whose counters are constant levels, shape (n, attempts, C)."""
    first = np.asarray(latency_s, dtype=np.float64)
    n = len(first)
    attempts = [first] if second_s is None else [first, np.zeros(n) + second_s]
    duration_s = np.stack(attempts, axis=1)
    windows = math.ceil(duration_s.max() / window_s) + 1
    levels = np.zeros((n, len(attempts), 1)) + level
    live = np.arange(windows) < np.ceil(duration_s / window_s)[..., None]
    return Job(
        name=name,
        window_s=window_s,
        counter_names=tuple(f"counter_{column}" for column in range(levels.shape[2])),
        start_s=np.zeros(n) + start_s,
        duration_s=duration_s,
        counters=(levels[:, :, None] * live[..., None]).astype(np.float32),
        cause=np.zeros(n, np.int8),
    )


def revealing(seed: int) -> Job:
    """Make a job of which a tenth is three times as slow, which a counter shows; a second attempt is not."""
    rng = np.random.default_rng(seed)
    n = 40
    slow = np.zeros(n, dtype=bool)
    slow[rng.choice(n, n // 10, replace=False)] = True
    latency_s = np.where(slow, rng.uniform(25.0, 35.0, n), rng.uniform(8.0, 14.0, n))
    level = np.stack([np.where(slow, 3.0, 1.0), np.ones(n)], axis=-1) * np.exp(rng.normal(0.0, 0.1, (n, 2)))
    return hand_made(latency_s, rng.uniform(8.0, 14.0, n), name=f"revealing-{seed}", level=level[:, None])


@pytest.fixture(scope="session")
def make_job() -> Callable[..., Job]:
    return hand_made


@pytest.fixture(scope="session")
def make_source() -> Callable[..., Jobs]:
    """Makes a source: the same job always, or what a function makes of the seed."""

    def make(job: Job | Callable[[int], Job]) -> Jobs:
        return Jobs((lambda _: job) if isinstance(job, Job) else job, [])

    return make


@pytest.fixture
def revealing_jobs(make_source: Callable[..., Jobs]) -> Jobs:
    return make_source(revealing)


@pytest.fixture(scope="session")
def small() -> StragglerScenario:
    """Google's counters, jobs of 20 to 30 tasks."""
    return load_scenario("google-2011", overrides=SMALL, expect=StragglerScenario)


@pytest.fixture(scope="session")
def roomy() -> StragglerScenario:
    """A scenario with room for jobs made by hand."""
    return load_scenario("google-2011", overrides={**SMALL, "jobs.tasks_max": 60}, expect=StragglerScenario)


@pytest.fixture(scope="session")
def make_env() -> Callable[..., Any]:
    """Makes ``prediction`` or ``mitigation``."""

    def make(kind: str, **arguments: Any) -> Any:
        return gym.make(IDS[kind], disable_env_checker=True, **arguments)

    return make


@pytest.fixture(scope="session")
def make_view() -> Callable[..., JobView]:
    """Makes a view from status, counters and times; tasks neither finished nor running are pending."""

    def make(
        *,
        running: Any,
        finished: Any,
        x: Any,
        last: Any = None,
        elapsed: Any = 0.0,
        latency: Any = 0.0,
        threshold: float = float("nan"),
        checkpoint: int = 0,
    ) -> JobView:
        run, done = np.asarray(running, dtype=bool), np.asarray(finished, dtype=bool)
        n = len(run)
        counters = np.asarray(x, dtype=np.float64).reshape(n, -1)
        return JobView(
            tasks_max=n,
            pending=~run & ~done,
            running=run,
            finished=done,
            x=counters,
            last=counters if last is None else np.asarray(last, dtype=np.float64).reshape(n, -1),
            elapsed=np.where(run, elapsed, 0.0),
            latency=np.where(done, latency, np.nan),
            flagged=np.zeros(n, dtype=bool),
            attempts=np.ones(n, dtype=np.int64),
            can_act=run,
            threshold=threshold,
            quantiles=np.zeros(4),
            share_finished=float(done.mean()) if n else 0.0,
            checkpoint=checkpoint,
            free_machines=-1.0,
        )

    return make


@pytest.fixture(scope="session")
def make_examples() -> Callable[..., Examples]:
    """Makes examples from rows of (job, task, checkpoint, straggler, in time, saving)."""

    def make(rows: Sequence[tuple[int, int, int, bool, bool, float]]) -> Examples:
        job, task, checkpoint, straggler, in_time, saving = (
            np.array(column) for column in zip(*rows, strict=True)
        )
        end = 11.0 + checkpoint + saving
        completion = np.zeros(job.max() + 1)
        np.maximum.at(completion, job[checkpoint == 0], end[checkpoint == 0])
        return Examples(
            counter_names=("counter",),
            features=np.zeros((len(rows), 10), np.float32),
            straggler=straggler.astype(bool),
            in_time=in_time.astype(bool),
            now=1.0 + checkpoint,
            elapsed=1.0 + checkpoint,
            remaining=10.0 + saving,
            again=np.full(len(rows), 10.0),
            others_end=np.full(len(rows), 10.0),
            completion=completion[job],
            n_tasks=np.full(len(rows), 4),
            job=job,
            group=job,
            task=task,
            checkpoint=checkpoint,
            elapsed_share=np.where(in_time, 0.3 + 0.4 * checkpoint, 1.0),
        )

    return make


@pytest.fixture(scope="session")
def transfer_checkpoint(small: StragglerScenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What transfer learned from six hundred checkpoints of small jobs."""
    return train_transfer(small, total_steps=600, out=tmp_path_factory.mktemp("transfer"))
