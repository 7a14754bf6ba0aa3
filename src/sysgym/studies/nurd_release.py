"""Study of NURD's released evaluation and its four leaks, to show the effect of each.

The evaluation released with NURD (y-ding/nurd-mlsys22-code, e76bbe2) uses knowledge that is not available
while a job runs. It has four leaks, described here from the behaviour of the code, which can be enabled
separately:

- ``features``: a row's mean is divided by the task's final latency instead of the elapsed time;
- ``scaling``: features and latencies are scaled by the extremes of all tasks at their completion;
- ``filter``: stragglers with few windows and other tasks with many windows are dropped before scoring;
- ``lateness``: a flag counts at any checkpoint, even after its task has run for the threshold.

The checkpoints of the released code are rows of each task's own series, as if all tasks began at the same
time. Its figures must not be compared with any others, and are never stored among a benchmark's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents import make_agent
from sysgym.agents.stragglers.learner import Checkpoint, one_thread, scaled
from sysgym.agents.stragglers.nurd import (
    DEFAULT_ALPHA,
    calibration,
    centroid_ratio,
    predict_latency,
    propensity,
    rescaled,
    weights,
)
from sysgym.bench import statistics
from sysgym.bench.run.episodes import play
from sysgym.bench.run.pool import SAFE_IMPORTS, environment
from sysgym.emulator.cluster.job import BoolArray, FloatArray, Job
from sysgym.errors import SysgymError
from sysgym.scenarios import StragglerScenario, Suite, load_scenario

LEAKS = ("features", "scaling", "filter", "lateness")
AGENTS = ("gbtr", "nurd", "nurd_nc")
COLUMNS = ("honest", "no leak", *LEAKS, "all four")
"""Columns of the table; ``honest``: the environment; ``no leak``: the released loop without any leak."""

PREDICTION = "sysgym/StragglerPrediction-v0"
WARM_UP = 0.04
WARNING = (
    "NURD's released evaluation uses information from the future. These figures show the effect of each "
    "leak and must not be compared with any others."
)


class Scored(NamedTuple):
    """F1 scores of one job, by agent and column."""

    scenario: str
    seed: int
    f1: dict[tuple[str, str], float]


@dataclass(frozen=True)
class Rows:
    """Features of a job in the released code.

    Attributes:
        mean: Mean of the counters up to each row, shape (n_tasks, n_rows, C).
        final: Mean over the whole task, shape (n_tasks, C).
        n_rows: Number of rows of every task.
    """

    mean: FloatArray
    final: FloatArray
    n_rows: NDArray[np.int64]


def rows_of(job: Job, *, leaked: bool) -> Rows:
    """Return the cumulative means of a job's counters; with the leak, divided by the final latency.

    Args:
        job: The job; only first attempts count.
        leaked: Whether the leak ``features`` is enabled.
    """
    latency_s = job.latency_s[:, None]
    ends_s = np.minimum(job.window_s * np.arange(1, job.counters.shape[2] + 1), latency_s)
    lengths_s = np.diff(ends_s, axis=1, prepend=0.0)
    total = np.cumsum(job.counters[:, 0].astype(np.float64) * lengths_s[:, :, None], axis=1)
    mean = total / (latency_s if leaked else ends_s)[:, :, None]
    n_rows = np.maximum(np.ceil(job.latency_s / job.window_s - 1e-9), 1).astype(np.int64)
    return Rows(mean, total[:, -1] / latency_s, n_rows)


def flagged_at(
    job: Job, threshold_s: float, *, features: bool, scaling: bool
) -> dict[str, NDArray[np.int64]]:
    """Return the row at which each agent flags each task, 0 for never.

    Args:
        job: The job.
        threshold_s: Least latency of a straggler.
        features: Whether the leak ``features`` is enabled.
        scaling: Whether the leak ``scaling`` is enabled.
    """
    rows = rows_of(job, leaked=features)
    early = job.latency_s <= np.quantile(job.latency_s, WARM_UP)
    found = {agent: np.zeros(job.n_tasks, dtype=np.int64) for agent in AGENTS}
    delta = None
    longest = int(rows.n_rows[job.stragglers(threshold_s)].max(initial=0))
    for row in range(2, longest):
        finished = early | (rows.n_rows < row)
        running = ~finished
        if not running.any() or finished.sum() < 2:
            continue
        now = _checkpoint(job, threshold_s, rows, row, finished, scaling=scaling)
        if not now.x_finished.shape[1]:
            continue
        with one_thread():
            predicted = predict_latency(now, "histogram")
            likely = propensity(now.x_finished, now.x_running)
        if delta is None:
            delta = calibration(centroid_ratio(now.x_finished, now.x_running), DEFAULT_ALPHA)
        adjusted = {
            "gbtr": predicted,
            "nurd": predicted / weights(likely, delta),
            "nurd_nc": predicted / np.maximum(likely, 1e-12),
        }
        for agent, latency in adjusted.items():
            new = np.zeros(job.n_tasks, dtype=bool)
            new[running] = latency >= now.threshold
            found[agent][new & (found[agent] == 0)] = row
    return found


def _checkpoint(
    job: Job, threshold_s: float, rows: Rows, row: int, finished: BoolArray, *, scaling: bool
) -> Checkpoint:
    x_finished, x_running = rows.final[finished], rows.mean[~finished, row - 1]
    latency_s, elapsed = job.latency_s[finished], np.full(int((~finished).sum()), float(row))
    if not scaling:
        x_finished, x_running = scaled(x_finished, x_running)
        return rescaled(Checkpoint(x_finished, latency_s, x_running, elapsed, threshold_s))
    low, high = rows.final.min(axis=0), rows.final.max(axis=0)
    varies = high > low
    span = (high - low)[varies]
    shortest, longest = float(job.latency_s.min()), float(job.latency_s.max())
    return Checkpoint(
        (x_finished[:, varies] - low[varies]) / span,
        (latency_s - shortest) / (longest - shortest),
        (x_running[:, varies] - low[varies]) / span,
        elapsed,
        (threshold_s - shortest) / (longest - shortest),
    )


def kept_by_filter(job: Job, threshold_s: float) -> BoolArray:
    """Return the tasks that the leak ``filter`` keeps in the test set.

    It drops stragglers with fewer windows than the stragglers' mean minus 1, and other tasks with more than
    the others' mean plus 1.
    """
    straggles, n_rows = job.stragglers(threshold_s), rows_of(job, leaked=False).n_rows
    short = straggles & (n_rows < n_rows[straggles].mean() - 1)
    long = ~straggles & (n_rows > n_rows[~straggles].mean() + 1)
    return np.asarray(~(short | long))


def f1_of(
    job: Job, threshold_s: float, at_row: NDArray[np.int64], *, filtered: bool, late_counts: bool
) -> float:
    """Return the F1 of flags raised at given rows.

    Args:
        job: The job.
        threshold_s: Least latency of a straggler.
        at_row: Rows from :func:`flagged_at`.
        filtered: Whether the leak ``filter`` is enabled.
        late_counts: Whether the leak ``lateness`` is enabled.
    """
    straggles, flagged = job.stragglers(threshold_s), at_row > 0
    in_time = flagged & (late_counts | (at_row * job.window_s < threshold_s))
    scored = kept_by_filter(job, threshold_s) if filtered else np.ones(job.n_tasks, dtype=bool)
    true = int((straggles & in_time & scored).sum())
    false = int((~straggles & flagged & scored).sum())
    return 2 * true / max(true + false + int((straggles & scored).sum()), 1)


def score(scenario: StragglerScenario, seed: int) -> Scored:
    """Return the F1 of every agent on one job, for every column."""
    found: dict[tuple[str, str], float] = {}
    env: Any = gym.make(PREDICTION, scenario=scenario, split="test", disable_env_checker=True)
    for agent in AGENTS:
        played = play(env, make_agent(agent, family="stragglers"), seed)
        found[agent, "honest"] = played.info["episode_metrics"]["f1"]
    job, threshold_s = env.unwrapped.job, env.unwrapped.threshold_s
    for features in (False, True):
        for scaling in (False, True):
            flags = flagged_at(job, threshold_s, features=features, scaling=scaling)
            for column, filtered, late in _scorings(features=features, scaling=scaling):
                for agent in AGENTS:
                    found[agent, column] = f1_of(
                        job, threshold_s, flags[agent], filtered=filtered, late_counts=late
                    )
    return Scored(scenario.name, seed, found)


def _scorings(*, features: bool, scaling: bool) -> Iterator[tuple[str, bool, bool]]:
    """Yield the columns that use flags with these leaks: name, and whether to enable filter and lateness."""
    if features and scaling:
        yield "all four", True, True
    elif features or scaling:
        yield ("features" if features else "scaling"), False, False
    else:
        yield from (("no leak", False, False), ("filter", True, False), ("lateness", False, True))


def evaluate(
    suite: Suite, n_seeds: int | None, n_workers: int, progress: Callable[[int, int], None]
) -> list[Scored]:
    """Score the jobs of a suite's straggler prediction tasks.

    Args:
        suite: The suite.
        n_seeds: Number of jobs of every task; None: that of the suite.
        n_workers: Number of processes.
        progress: Callback with the number of finished jobs and of all jobs.

    Raises:
        SysgymError: The suite has no task of straggler prediction.
    """
    jobs: list[tuple[StragglerScenario, int]] = []
    for task in suite.tasks:
        scenario = load_scenario(task.scenario)
        if isinstance(scenario, StragglerScenario) and scenario.env_id == PREDICTION:
            jobs += [(scenario, seed) for seed in task.seed_values[:n_seeds]]
    if not jobs:
        raise SysgymError(f'the suite "{suite.name}" has no straggler prediction; choose another suite')
    done = []
    with environment(SAFE_IMPORTS), ProcessPoolExecutor(n_workers, mp_context=get_context("spawn")) as pool:
        for scored in pool.map(score, *zip(*jobs, strict=True)):
            done.append(scored)
            progress(len(done), len(jobs))
    return done


def table(results: Sequence[Scored]) -> Iterator[tuple[str, list[str]]]:
    """Yield label and cells for every scenario and agent: F1, interquartile mean and 95 % interval."""
    for scenario in dict.fromkeys(one.scenario for one in results):
        mine = [one.f1 for one in results if one.scenario == scenario]
        for agent in AGENTS:
            cells = []
            for column in COLUMNS:
                value, low, high = statistics.estimate(np.array([[f1[agent, column] for f1 in mine]]))
                cells.append(f"{value:.2f} [{low:.2f}, {high:.2f}]")
            yield f"{scenario}, {agent}", cells


def markdown(results: Sequence[Scored]) -> str:
    """Return the table as a Markdown page."""
    lines = ["# NURD's released evaluation", "", f"> **{WARNING}**", ""]
    lines += ["F1, interquartile mean over jobs with its 95 % interval.", ""]
    lines += ["| | " + " | ".join(COLUMNS) + " |", "| --- |" + " ---: |" * len(COLUMNS)]
    lines += [f"| {label} | " + " | ".join(cells) + " |" for label, cells in table(results)]
    return "\n".join(lines) + "\n"
