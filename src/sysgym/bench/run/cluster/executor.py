"""Execution of jobs on a cluster, by tasks whose results are shards."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sysgym.bench.plugins import PluginFile
from sysgym.bench.results.rows import Row
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.cluster.chunks import Chunks
from sysgym.bench.run.cluster.shards import path_of, read_shard, remove_shard
from sysgym.bench.run.cluster.tasks import ClusterEnded, EpisodeTimeout, Task, report_path
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.bench.run.pool import Done, Event, Failed, Job, Progress, TimedOut
from sysgym.bench.run.training import Training
from sysgym.bench.run.tuning import Tuning
from sysgym.errors import SysgymError
from sysgym.scenarios.files import read_json

POLL_S = 0.5
"""Maximum time between two checks of running tasks, s."""


class Backend(Protocol):
    """Dispatcher of tasks to machines.

    Attributes:
        target_s: Time that a chunk of episodes should take, s; long compared with the time to submit it.
    """

    target_s: float

    def slots(self) -> int:
        """Return the maximum number of concurrent tasks, which may change over time."""

    def submit(self, task: Task) -> Any:
        """Submit a task to :func:`~sysgym.bench.run.cluster.tasks.perform` and return a handle of it."""

    def ended(self, handles: Sequence[Any], wait_s: float) -> list[Any]:
        """Return the handles of tasks that have ended; if there are none, wait for up to ``wait_s`` first."""

    def check(self, handle: Any) -> None:
        """Raise the exception of a task that has failed.

        Raises:
            ClusterEnded: If the cluster has ended, so that no task can be done.
        """

    def cancel(self, handle: Any) -> None:
        """Stop a task, as far as possible."""

    def close(self) -> None:
        """Leave the cluster."""


class _Out(NamedTuple):
    task: Task
    handle: Any
    reported: list[Any]


class ClusterExecutor:
    """Executor of jobs on a cluster.

    Args:
        backend: Dispatcher of tasks.
        folder: Results folder, on a file system that all machines share.
        n_workers: Maximum number of concurrent tasks; 0: that of the backend.
    """

    def __init__(self, backend: Backend, folder: Path, n_workers: int = 0) -> None:
        self._backend, self._folder, self._n_workers = backend, folder.resolve(), n_workers

    def run_jobs(
        self,
        next_job: Callable[[], Job | None],
        plugins: Sequence[PluginFile] = (),
        episode_limit_s: float | None = None,
    ) -> Generator[Event]:
        """Yield events of jobs as they happen; a shard is removed after all its events were consumed.

        Closing the iterator, or an exception at a ``yield``, cancels all tasks.

        Args:
            next_job: Returns a job that can start now, or None.
            plugins: Python files that every process imports first.
            episode_limit_s: Time limit of an episode, s; None: none.

        Raises:
            ClusterEnded: If the cluster has ended.
        """
        chunks = Chunks(next_job, self._backend.target_s)
        out: list[_Out] = []
        try:
            while True:
                while len(out) < (self._n_workers or self._backend.slots()) and (jobs := chunks.next()):
                    task = Task(
                        str(self._folder),
                        jobs,
                        tuple(plugins),
                        must_match(versions()),
                        os.getcwd(),
                        episode_limit_s,
                    )
                    out.append(_Out(task, self._backend.submit(task), [None]))
                if not out:
                    return
                ended = self._backend.ended([one.handle for one in out], POLL_S)
                for one in [one for one in out if any(one.handle is handle for handle in ended)]:
                    out.remove(one)
                    yield from self._events(one, chunks)
                for one in out:
                    yield from self._news(one)
        finally:
            for one in out:
                with suppress(Exception):  # the cluster may be gone
                    self._backend.cancel(one.handle)
            self._backend.close()

    def _events(self, one: _Out, chunks: Chunks) -> Generator[Event]:
        """Yield the events of a task that has ended."""
        path = path_of(self._folder, one.task.key)
        try:
            if not path.is_file():  # a killed process may have written its shard before
                self._backend.check(one.handle)
            shard = read_shard(path)
        except ClusterEnded:
            raise
        except Exception as error:
            if len(one.task.jobs) > 1:
                chunks.again(one.task.jobs)
                return
            reason = f"{type(error).__name__}: {error}"
            yield Failed(one.task.jobs[0], reason.partition("\n")[0], f"{reason}\n")
            return
        failed = {failure.job: failure for failure in shard.failures}
        for number, job in enumerate(one.task.jobs):
            if number in failed:
                reason = failed[number].reason
                late = reason.startswith(EpisodeTimeout.__name__)
                yield (TimedOut if late else Failed)(job, reason, failed[number].trace)
                continue
            result = _result_of(job, shard.rows.get(number))
            if isinstance(job, EpisodeJob) and isinstance(result, Row):
                chunks.note(job, result)
            if isinstance(result, SysgymError):
                yield Failed(job, str(result), f"{result}\n")
            else:
                yield Done(job, result)
        # The caller has stored the rows in the results by now.
        remove_shard(path)
        remove_shard(report_path(self._folder, one.task.key))

    def _news(self, one: _Out) -> Generator[Event]:
        """Yield the progress of a training."""
        job = one.task.jobs[0]
        if isinstance(job, Training):
            with suppress(SysgymError):
                news = read_json(report_path(self._folder, one.task.key))
                if news != one.reported[0]:
                    one.reported[0] = news
                    yield Progress(job, news)


def _result_of(job: Job, row: Row | None) -> Any:
    """Return the result of a job of a shard, or an error if the result is missing."""
    if isinstance(job, Training):
        return job.finished() or SysgymError(f"{job.label}: there is no checkpoint; its folder was changed")
    if isinstance(job, Tuning):
        return job.finished() or SysgymError(f"{job.label}: there is no result; its file was changed")
    if isinstance(job, EpisodeJob):
        if row is None or row.cell != job.cell:
            return SysgymError(f"{job.label}: its row is not in the shard; run the same command again")
        return row
    return None
