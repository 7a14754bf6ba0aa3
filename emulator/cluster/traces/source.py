"""Base of replayed traces: jobs by name, and simulated second attempts."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import CAUSES, FloatArray, Job
from sysgym.emulator.cluster.traces.reading import Tally
from sysgym.scenarios.errors import UnknownName, closest_name

MOST_WINDOWS = 2048
"""Most windows of a task: every window of every task is held in memory, so jobs with more are left out."""

TOO_FEW_TASKS = "fewer than tasks_min tasks"
TOO_MANY_TASKS = "more than tasks_max tasks"
TOO_SHORT = "median latency less than median_min_s"
TOO_MANY_WINDOWS = f"its longest task has more than {MOST_WINDOWS} windows"


@dataclass(frozen=True)
class FirstAttempts:
    """Content of a trace about one job.

    Attributes:
        window_s: Length of a measuring window.
        start_s: Start of each task after the job's submission, shape (n_tasks,).
        duration_s: Duration of each task, shape (n_tasks,), positive.
        counters: As in :class:`Job` but without attempts, shape (n_tasks, n_windows, C).
    """

    window_s: float
    start_s: FloatArray
    duration_s: FloatArray
    counters: NDArray[np.float32]


class Origin(NamedTuple):
    """Where a job comes from, as far as its trace tells.

    Attributes:
        begin_s: Submission, on the trace's clock; nan if unknown.
        end_s: End of its last task.
        user: User who submitted it; empty if unknown.
        program: What it repeats: Google's logical job name, PAI's group; empty if unknown.
    """

    begin_s: float = math.nan
    end_s: float = math.nan
    user: str = ""
    program: str = ""


class TraceSource(ABC):
    """The jobs of a trace that can be replayed. It holds arrays and no open file, so it can be pickled.

    Attributes:
        names: Names of the jobs, sorted.
        counter_names: Names of the counters.
        rows_read: Number of rows of all files.
        malformed: Number of rows that break the format, by reason; they are ignored.
        left_out_rows: Number of valid rows that are not used, by reason.
        left_out_jobs: Number of jobs that are not replayed, by reason. A job with more than ``tasks_max``
            tasks is left out as a whole: a sample of its tasks would have another threshold, other stragglers
            and another end than the job in the trace.
        missing_values: Number of missing values in used rows, by counter; they are 0, as in NURD's
            preprocessing.
        span_s: Begin and end of the files on the trace's clock; nan if the trace has no times.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        counter_names: tuple[str, ...],
        tally: Tally,
        left_out: Mapping[str, int],
        origins: Sequence[Origin] = (),
        span_s: tuple[float, float] = (math.nan, math.nan),
    ) -> None:
        self.names = names
        self.counter_names = counter_names
        self.rows_read = tally.rows_read
        self.malformed = dict(tally.malformed)
        self.left_out_rows = dict(tally.left_out_rows)
        self.missing_values = dict(tally.missing_values)
        self.left_out_jobs = dict(left_out)
        self.span_s = span_s
        self._index = {name: i for i, name in enumerate(names)}
        self._origins = tuple(origins)

    def __len__(self) -> int:
        return len(self.names)

    def submission(self, name: str) -> str:
        """Return the name of what a user submitted of which a job is a part; the job's own if it is all.

        Parts of one submission have much in common, so they belong to one split.
        """
        return name

    def origin(self, name: str) -> Origin:
        """Return where a job comes from."""
        return self._origins[self._index[name]] if self._origins else Origin()

    def job(self, which: int | str, attempts: int = 1, seed: int = 0) -> Job:
        """Return a job, with the durations and counters of every attempt of every task.

        First attempts are the trace's. The duration of a second attempt is unknown, because the trace has
        none: each one is that of a task of the same job, drawn uniformly with replacement, with its duration
        and its counters (NURD draws a relaunched task's latency from the job's observed latencies in the same
        way; Ding et al., MLSys 2022). A replayed job therefore does not show which tasks a relaunch would
        have helped: a second attempt is independent of the cause of the first one's latency.

        Args:
            which: Index into ``names``, or a name.
            attempts: Attempts of every task, at least 1.
            seed: Seed of the second attempts, together with the job's name.

        Raises:
            UnknownName: There is no job of that name.
            IndexError: There is no job of that index.
        """
        if attempts < 1:
            raise ValueError(f"attempts: expected 1 or more, got {attempts}")
        if isinstance(which, str):
            if which not in self._index:
                # A trace has thousands of names: the most similar one and a few others are listed.
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
        """Return the trace's content about a job."""
