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
from sysgym.scenarios.schema.stragglers import SHARE_OF_WARMUP

MOST_WINDOWS = 2048
"""Most windows of a task: every window of every task is held in memory, so jobs with more are left out."""

TOO_FEW_TASKS = "fewer than tasks_min tasks"
TOO_MANY_TASKS = "more than tasks_max tasks"
TOO_SHORT = "median latency less than median_min_s"
TOO_MANY_WINDOWS = f"its longest task has more than {MOST_WINDOWS} windows"
TOO_MANY_TIES = "many latencies equal the quantile from which on tasks are stragglers"

_MOST_STRAGGLERS = 1.5
"""Most stragglers of a job, over the number above a quantile if no two latencies were equal."""

_LONGER = 1.0 + 1e-9
"""Factor on a window, so that the warm-up does not take one more window because of rounding."""


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

    def leave_out_ties(self, quantile: float) -> None:
        """Leave out the jobs in which far more tasks reach a quantile of the latencies than lie above it.

        Durations in whole seconds have ties. If a tenth and more of a job's tasks take equally long, their
        latency may be the quantile 0.9, and all of them would be stragglers, in the extreme the whole job.
        """
        tied = [name for name, index in self._index.items() if _is_tied(self._durations_s(index), quantile)]
        for name in tied:
            del self._index[name]
        self.names = tuple(self._index)
        if tied:
            self.left_out_jobs[TOO_MANY_TIES] = len(tied)

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
        if isinstance(which, str) and which not in self._index:
            # A trace has thousands of names: the most similar one and a few others are listed.
            close = closest_name(which, self.names)
            known = {*self.names[:5], *([close] if close else [])}
            raise UnknownName("job of the trace", which, known, hint=f"of {len(self.names)} jobs")
        name = which if isinstance(which, str) else self.names[which]
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

    @abstractmethod
    def _durations_s(self, index: int) -> FloatArray:
        """Return the duration of each task of a job, without reading counters."""


def window_until_warmup(ends_s: FloatArray, least_s: float, n_windows: int) -> float:
    """Return a window that is known when 4 % of a job's tasks have finished.

    A fraction of the job's median would tell an agent that median long before it can be known.

    Args:
        ends_s: End of each task after the job's submission, shape (n_tasks,).
        least_s: Least time that is divided into windows, s.
        n_windows: Number of windows in that time.
    """
    shares = np.arange(1, len(ends_s) + 1) / len(ends_s)
    warm_s = float(np.sort(ends_s)[np.searchsorted(shares, SHARE_OF_WARMUP)])
    return max(warm_s, least_s) / n_windows * _LONGER


def _is_tied(duration_s: FloatArray, quantile: float) -> bool:
    """Return whether more tasks reach a quantile than :data:`_MOST_STRAGGLERS` allows, and one more."""
    n_tasks = len(duration_s)
    n_stragglers = int(np.count_nonzero(duration_s >= np.quantile(duration_s, quantile)))
    return n_stragglers > _MOST_STRAGGLERS * (n_tasks - quantile * n_tasks) + 1.0
