"""Observations of a job: status and counters of tasks, and a few numbers for the whole job.

Nothing that the future decides is in it, except the threshold where the scenario gives it away. All lengths
of time are in measuring windows of the job, so that long and short jobs look alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.execution import FINISHED, PENDING, RUNNING, UNLIMITED, Snapshot
from sysgym.emulator.cluster.job import BoolArray

Array = NDArray[np.float32]
Observation = dict[str, Array]

QUANTILES = (0.25, 0.5, 0.75, 0.9)
LARGEST = 1e9
"""Upper bound of counters and of times in windows; what is larger is clipped."""


class Column(NamedTuple):
    """One column of an array of the observation."""

    meaning: str
    unit: str
    low: float
    high: float


TASK_COLUMNS: dict[str, Column] = {
    "pending": Column("the task has not started", "0 or 1", 0.0, 1.0),
    "running": Column("an attempt of it runs", "0 or 1", 0.0, 1.0),
    "finished": Column("it has finished", "0 or 1", 0.0, 1.0),
    "elapsed": Column("how long its oldest running attempt has run", "windows", 0.0, LARGEST),
    "latency": Column("of a finished task, from its start to its end", "windows", 0.0, LARGEST),
    "flagged": Column("it was flagged, relaunched or copied before", "0 or 1", 0.0, 1.0),
    "attempts": Column("attempts started", "count", 0.0, LARGEST),
}
"""Columns of ``tasks``."""

JOB_COLUMNS: dict[str, Column] = {
    "share_finished": Column("tasks that have finished", "fraction of tasks", 0.0, 1.0),
    "checkpoint": Column("decisions taken before", "count", 0.0, LARGEST),
    "threshold": Column("latency from which on a task is a straggler; 0: not known", "windows", 0.0, LARGEST),
    "latency_q25": Column("quantile 0.25 of finished tasks' latencies", "windows", 0.0, LARGEST),
    "latency_q50": Column("quantile 0.5 of the same", "windows", 0.0, LARGEST),
    "latency_q75": Column("quantile 0.75 of the same", "windows", 0.0, LARGEST),
    "latency_q90": Column("quantile 0.9 of the same", "windows", 0.0, LARGEST),
    "free_machines": Column("machines that nobody uses; -1: no limit", "fraction of tasks", -1.0, LARGEST),
    "n_tasks": Column("tasks of the job", "fraction of N", 0.0, 1.0),
}
"""Columns of ``job``."""


class ObservationBuilder:
    """Turns snapshots into observations of one shape.

    Args:
        tasks_max: N, rows for tasks; jobs with fewer are padded with zeros.
        counter_names: The C counters of a window.
    """

    def __init__(self, tasks_max: int, counter_names: Sequence[str]) -> None:
        self.tasks_max = tasks_max
        self.counter_names = tuple(counter_names)
        self.counter_columns = tuple(
            f"{kind} {name}" for kind in ("mean", "last") for name in self.counter_names
        )

    def space(self) -> gym.Space[Any]:
        """Return the space of the observations, a ``Dict``."""
        n = self.tasks_max

        def table(columns: dict[str, Column], rows: tuple[int, ...]) -> gym.spaces.Box:
            low, high = ([getattr(column, end) for column in columns.values()] for end in ("low", "high"))
            return gym.spaces.Box(
                np.broadcast_to(np.asarray(low, np.float32), (*rows, len(columns))),
                np.broadcast_to(np.asarray(high, np.float32), (*rows, len(columns))),
                dtype=np.float32,
            )

        return gym.spaces.Dict(
            {
                "tasks": table(TASK_COLUMNS, (n,)),
                "counters": gym.spaces.Box(0.0, LARGEST, (n, len(self.counter_columns)), np.float32),
                "job": table(JOB_COLUMNS, ()),
                "mask": gym.spaces.Box(0.0, 1.0, (n,), np.float32),
            }
        )

    def build(
        self,
        snapshot: Snapshot,
        *,
        window_s: float,
        checkpoint: int,
        threshold_s: float | None,
        flagged: BoolArray,
        mask: BoolArray,
    ) -> Observation:
        """Return the observation at a checkpoint.

        Args:
            snapshot: What can be seen of the job, n tasks.
            window_s: The job's measuring window, s.
            checkpoint: Decisions taken so far.
            threshold_s: Latency from which on a task is a straggler; None if the agent must not know.
            flagged: Tasks that were flagged or acted on, shape (n,).
            mask: Tasks that may be, shape (n,).
        """
        n = len(snapshot.state)
        finished = snapshot.state == FINISHED
        latency = np.where(finished, snapshot.latency_s, 0.0) / window_s
        tasks = np.zeros((self.tasks_max, len(TASK_COLUMNS)), np.float32)
        tasks[:n, 0] = snapshot.state == PENDING
        tasks[:n, 1] = snapshot.state == RUNNING
        tasks[:n, 2] = finished
        tasks[:n, 3] = np.minimum(snapshot.elapsed_s / window_s, LARGEST)
        tasks[:n, 4] = np.minimum(latency, LARGEST)
        tasks[:n, 5] = flagged
        tasks[:n, 6] = snapshot.attempts

        columns = len(self.counter_names)
        counters = np.zeros((self.tasks_max, 2 * columns), np.float32)
        counters[:n, :columns] = np.clip(snapshot.counters_mean, 0.0, LARGEST)
        counters[:n, columns:] = np.clip(snapshot.counters_last, 0.0, LARGEST)

        # Before anything has finished there is no quantile: 0.
        quantiles = np.quantile(latency[finished], QUANTILES) if finished.any() else np.zeros(len(QUANTILES))
        free = snapshot.free_machines
        job = [
            float(finished.mean()),
            float(checkpoint),
            0.0 if threshold_s is None else threshold_s / window_s,
            *quantiles,
            float(free) if free == UNLIMITED else free / n,
            n / self.tasks_max,
        ]
        padded = np.zeros(self.tasks_max, np.float32)
        padded[:n] = mask
        return {
            "tasks": tasks,
            "counters": counters,
            "job": np.clip(job, -1.0, LARGEST).astype(np.float32),
            "mask": padded,
        }
