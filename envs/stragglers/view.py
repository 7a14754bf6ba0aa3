"""View of an observation as arrays over the real tasks of a job, for agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import BoolArray, FloatArray
from sysgym.envs.stragglers.observation import JOB_COLUMNS, TASK_COLUMNS

_TASK = {name: column for column, name in enumerate(TASK_COLUMNS)}
_JOB = {name: column for column, name in enumerate(JOB_COLUMNS)}


@dataclass(frozen=True)
class JobView:
    """Observable state of a job of n tasks and C counters; times are in measuring windows.

    Attributes:
        tasks_max: Length N of an action; tasks n..N-1 do not exist.
        pending: Mask of tasks that have not started, shape (n,).
        running: Mask of running tasks, shape (n,).
        finished: Mask of finished tasks, shape (n,).
        x: Mean of every counter over the complete windows of the attempt so far, shape (n, C).
        last: Value of every counter in its last complete window, shape (n, C).
        elapsed: Running time of the oldest running attempt, 0 for other tasks, shape (n,).
        latency: Latency of finished tasks, NaN for others, shape (n,).
        flagged: Mask of tasks that were flagged or acted on, shape (n,).
        attempts: Number of attempts started, shape (n,).
        can_act: Mask of tasks that may be flagged or acted on now, shape (n,).
        threshold: Latency at and above which a task is a straggler; NaN if unknown.
        quantiles: Quantiles .25, .5, .75 and .9 of the latencies of finished tasks; 0 before any.
        share_finished: Share of the tasks that have finished.
        checkpoint: Number of previous decisions.
        free_machines: Number of free machines divided by n; -1 for no limit.
    """

    tasks_max: int
    pending: BoolArray
    running: BoolArray
    finished: BoolArray
    x: FloatArray
    last: FloatArray
    elapsed: FloatArray
    latency: FloatArray
    flagged: BoolArray
    attempts: NDArray[np.int64]
    can_act: BoolArray
    threshold: float
    quantiles: FloatArray
    share_finished: float
    checkpoint: int
    free_machines: float

    @classmethod
    def of(cls, observation: Mapping[str, NDArray[np.float32]]) -> JobView:
        """Return the view of one observation; its arrays are copies."""
        every = np.asarray(observation["tasks"], dtype=np.float64)
        # Every real task is pending, running or finished; padding rows are all 0 and come last.
        n = int(every[:, : _TASK["finished"] + 1].sum())
        tasks, job = every[:n], np.asarray(observation["job"], dtype=np.float64)
        counters = np.asarray(observation["counters"], dtype=np.float64)[:n]
        columns = counters.shape[1] // 2
        finished = tasks[:, _TASK["finished"]] > 0.5
        threshold = float(job[_JOB["threshold"]])
        return cls(
            tasks_max=len(every),
            pending=tasks[:, _TASK["pending"]] > 0.5,
            running=tasks[:, _TASK["running"]] > 0.5,
            finished=finished,
            x=counters[:, :columns],
            last=counters[:, columns:],
            elapsed=tasks[:, _TASK["elapsed"]].copy(),
            latency=np.where(finished, tasks[:, _TASK["latency"]], np.nan),
            flagged=tasks[:, _TASK["flagged"]] > 0.5,
            attempts=tasks[:, _TASK["attempts"]].astype(np.int64),
            can_act=np.asarray(observation["mask"][:n]) > 0.5,
            threshold=threshold if threshold > 0.0 else float("nan"),
            quantiles=job[_JOB["latency_q25"] : _JOB["latency_q90"] + 1].copy(),
            share_finished=float(job[_JOB["share_finished"]]),
            checkpoint=int(job[_JOB["checkpoint"]]),
            free_machines=float(job[_JOB["free_machines"]]),
        )

    @property
    def n_tasks(self) -> int:
        """Number of tasks of the job."""
        return len(self.running)
