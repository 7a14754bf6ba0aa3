"""Base of replayed traces: jobs by name, and simulated second attempts."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import CAUSES, FloatArray, Job
from sysgym.emulator.cluster.traces.reading import Tally
from sysgym.scenarios.errors import UnknownName, closest_name

MOST_WINDOWS = 2048
"""Jobs whose longest task has more windows are left out: every window of every task is held in memory."""

TOO_FEW_TASKS = "fewer than tasks_min tasks"
TOO_MANY_TASKS = "more than tasks_max tasks"
TOO_SHORT = "median latency less than median_min_s"
TOO_MANY_WINDOWS = f"its longest task has more than {MOST_WINDOWS} windows"


@dataclass(frozen=True)
class FirstAttempts:
    """What a trace says of one job.

    Attributes:
        window_s: Length of a measuring window.
        start_s: When each task starts after the job's submission, shape (n_tasks,).
        duration_s: How long each task takes, shape (n_tasks,), positive.
        counters: As in :class:`Job`, without attempts: shape (n_tasks, n_windows, C).
    """

    window_s: float
    start_s: FloatArray
    duration_s: FloatArray
    counters: NDArray[np.float32]


class TraceSource(ABC):
    """The jobs of a trace that can be replayed. Holds arrays, no open file: it can be pickled and forked.

    Attributes:
        names: Names of the jobs, sorted.
        counter_names: What is measured.
        rows_read: Rows of all files.
        malformed: Rows that break the format, by reason; they are used for nothing.
        left_out_rows: Sound rows that are of no use here, by reason.
        left_out_jobs: Jobs that are not replayed, by reason. A job with more than ``tasks_max`` tasks is left
            out as a whole: a subsample of its tasks would have another threshold, other stragglers and
            another end than the job in the trace.
        missing_values: Values that used rows lack, by counter; they are 0, as in NURD's preprocessing.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        counter_names: tuple[str, ...],
        tally: Tally,
        left_out: Mapping[str, int],
    ) -> None:
        self.names = names
        self.counter_names = counter_names
        self.rows_read = tally.rows_read
        self.malformed = dict(tally.malformed)
        self.left_out_rows = dict(tally.left_out_rows)
        self.missing_values = dict(tally.missing_values)
        self.left_out_jobs = dict(left_out)
        self._index = {name: i for i, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.names)

    def job(self, which: int | str, attempts: int = 1, seed: int = 0) -> Job:
        """Return a job, with what every attempt of every task will take and show.

        First attempts are the trace's. What a second attempt would have taken is unknown, for nobody made it:
        each one is that of a task of the same job, drawn uniformly with replacement, with its duration and
        its counters (NURD draws a relaunched task's latency from the job's observed ones in the same way;
        Ding et al., MLSys 2022). A replayed job therefore says nothing about which tasks a relaunch would
        have cured: a second attempt is independent of the first one's cause.

        Args:
            which: Index into ``names``, or a name.
            attempts: Attempts of every task, at least 1.
            seed: Draws the second attempts, together with the job's name.

        Raises:
            UnknownName: There is no job of that name.
            IndexError: There is no job of that index.
        """
        if attempts < 1:
            raise ValueError(f"attempts: expected 1 or more, got {attempts}")
        if isinstance(which, str):
            if which not in self._index:
                # The names of a trace are thousands: the likely one and a few are listed.
                close = closest_name(which, self.names)
                known = {*self.names[:5], *([close] if close else [])}
                raise UnknownName("job of the trace", which, known, hint=f"of {len(self.names)} jobs")
            which = self._index[which]
        name = self.names[which]
        first = self._first_attempts(self._index[name])
        n = len(first.duration_s)
        digest = hashlib.sha256(name.encode()).digest()
        rng = np.random.default_rng([seed, int.from_bytes(digest[:8], "little")])
        donor = np.empty((n, attempts), np.int64)
        donor[:, 0] = np.arange(n)
        donor[:, 1:] = rng.integers(n, size=(n, attempts - 1))
        return Job(
            name=name,
            window_s=first.window_s,
            counter_names=self.counter_names,
            start_s=first.start_s,
            duration_s=first.duration_s[donor],
            counters=first.counters[donor],
            cause=np.full(n, CAUSES.index("unknown"), np.int8),
        )

    @abstractmethod
    def _first_attempts(self, index: int) -> FirstAttempts:
        """Return what the trace says of a job."""
