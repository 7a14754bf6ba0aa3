"""Observations of a job: status and counters of tasks, and features of the whole job.

Observations contain no information about the future, except the threshold if the scenario discloses it. All
times are in measuring windows of the job, so that long and short jobs look alike. The unit itself must not
tell the future either: the window of a traced job depends on what has happened before the first decision (or
on the trace's monitor), and that of a generated job is a fraction of its typical duration, which a scheduler
would know from earlier runs; the true median is 0.76 to 1.16 times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.execution import FINISHED, PENDING, RUNNING, UNLIMITED, Snapshot
from sysgym.emulator.cluster.job import BoolArray
from sysgym.envs.observations import Column, Columns, Observer, flags_space, table_space

Array = NDArray[np.float32]
Observation = dict[str, Array]

QUANTILES = (0.25, 0.5, 0.75, 0.9)
LARGEST = 1e9
"""Upper bound to which counters and times in windows are clipped."""


TASK_COLUMNS: Columns = {
    "pending": Column("the task has not started", "0 or 1", 0.0, 1.0),
    "running": Column("an attempt of it runs", "0 or 1", 0.0, 1.0),
    "finished": Column("it has finished", "0 or 1", 0.0, 1.0),
    "elapsed": Column("run time of its oldest running attempt", "windows", 0.0, LARGEST),
    "latency": Column("time of a finished task from its start to its end", "windows", 0.0, LARGEST),
    "flagged": Column("it was flagged, relaunched or copied before", "0 or 1", 0.0, 1.0),
    "attempts": Column("attempts started", "count", 0.0, LARGEST),
}
"""Columns of ``tasks``."""

JOB_COLUMNS: Columns = {
    "share_finished": Column("tasks that have finished", "fraction of tasks", 0.0, 1.0),
    "checkpoint": Column("number of previous decisions", "count", 0.0, LARGEST),
    "threshold": Column("least latency of a straggler; 0: not known", "windows", 0.0, LARGEST),
    "latency_q25": Column("quantile 0.25 of finished tasks' latencies", "windows", 0.0, LARGEST),
    "latency_q50": Column("quantile 0.5 of the same", "windows", 0.0, LARGEST),
    "latency_q75": Column("quantile 0.75 of the same", "windows", 0.0, LARGEST),
    "latency_q90": Column("quantile 0.9 of the same", "windows", 0.0, LARGEST),
    "free_machines": Column("unused machines; -1: no limit", "fraction of tasks", -1.0, LARGEST),
    "n_tasks": Column("tasks of the job", "fraction of N", 0.0, 1.0),
}
"""Columns of ``job``."""


class JobLayout(NamedTuple):
    """Properties of jobs that are known before any episode.

    Attributes:
        tasks_max: Number N of tasks at most.
        counter_names: Names of the C counters of a window.
    """

    tasks_max: int
    counter_names: tuple[str, ...]

    @property
    def counter_columns(self) -> tuple[str, ...]:
        """Name of each column of ``counters``."""
        return tuple(f"{kind} {name}" for kind in ("mean", "last") for name in self.counter_names)


class JobState(NamedTuple):
    """State of a job of n tasks at a checkpoint, as far as an agent may know it.

    Attributes:
        tasks_max: Number N of tasks at most.
        snapshot: Status, times and counters of the tasks.
        window_s: Measuring window of the job, s.
        checkpoint: Number of decisions taken so far.
        threshold_s: Latency at and above which a task is a straggler; None if the scenario hides it.
        flagged: Mask of tasks that were flagged or acted on, shape (n,).
        can_act: Mask of tasks that may be flagged or acted on, shape (n,).
    """

    tasks_max: int
    snapshot: Snapshot
    window_s: float
    checkpoint: int
    threshold_s: float | None
    flagged: BoolArray
    can_act: BoolArray


class JobTables:
    """Tables of fixed shape, padded with zeros."""

    def space(self, layout: JobLayout, /) -> gym.Space[Any]:
        """Return the space of the observations, a ``Dict``."""
        n = layout.tasks_max
        return gym.spaces.Dict(
            {
                "tasks": table_space(TASK_COLUMNS, n),
                "counters": gym.spaces.Box(0.0, LARGEST, (n, len(layout.counter_columns)), np.float32),
                "job": table_space(JOB_COLUMNS),
                "mask": flags_space(n),
            }
        )

    def observe(self, state: JobState, /) -> Observation:
        """Return the tables."""
        snapshot, tasks_max, window_s = state.snapshot, state.tasks_max, state.window_s
        n = len(snapshot.state)
        finished = snapshot.state == FINISHED
        latency = np.where(finished, snapshot.latency_s, 0.0) / window_s
        tasks = np.zeros((tasks_max, len(TASK_COLUMNS)), np.float32)
        tasks[:n, 0] = snapshot.state == PENDING
        tasks[:n, 1] = snapshot.state == RUNNING
        tasks[:n, 2] = finished
        tasks[:n, 3] = np.minimum(snapshot.elapsed_s / window_s, LARGEST)
        tasks[:n, 4] = np.minimum(latency, LARGEST)
        tasks[:n, 5] = state.flagged
        tasks[:n, 6] = snapshot.attempts

        columns = snapshot.counters_mean.shape[1]
        counters = np.zeros((tasks_max, 2 * columns), np.float32)
        counters[:n, :columns] = np.clip(snapshot.counters_mean, 0.0, LARGEST)
        counters[:n, columns:] = np.clip(snapshot.counters_last, 0.0, LARGEST)

        # Before any task has finished, quantiles are 0.
        quantiles = np.quantile(latency[finished], QUANTILES) if finished.any() else np.zeros(len(QUANTILES))
        free = snapshot.free_machines
        job = [
            float(finished.mean()),
            float(state.checkpoint),
            0.0 if state.threshold_s is None else state.threshold_s / window_s,
            *quantiles,
            float(free) if free == UNLIMITED else free / n,
            n / tasks_max,
        ]
        mask = np.zeros(tasks_max, np.float32)
        mask[:n] = state.can_act
        return {
            "tasks": tasks,
            "counters": counters,
            "job": np.clip(job, -1.0, LARGEST).astype(np.float32),
            "mask": mask,
        }


OBSERVERS: Mapping[str, Observer[JobLayout, JobState]] = {"default": JobTables()}
"""Observations of both environments."""
