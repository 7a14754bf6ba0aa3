"""Chunks of episodes, long enough to be submitted at low cost, and short enough that little is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from sysgym.bench.results.rows import Row
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.bench.run.pool import Job

MOST_EPISODES = 1000


class Chunks:
    """Division of a queue of jobs into chunks.

    The expected time of an episode is the mean time of earlier episodes of the same scenario and contender.
    Without earlier episodes, the expected time is ``target_s``, so that the episode is the last one of its
    chunk.

    Args:
        next_job: Returns a job that can start now, or None.
        target_s: Time that a chunk should take, s.
    """

    def __init__(self, next_job: Callable[[], Job | None], target_s: float) -> None:
        self._next_job, self._target_s = next_job, target_s
        self._held: Job | None = None
        self._alone: deque[Job] = deque()
        self._played: dict[tuple[str, str], tuple[int, float]] = {}

    def note(self, job: EpisodeJob, row: Row) -> None:
        """Record the time that an episode took."""
        n, total_s = self._played.get(_kind(job), (0, 0.0))
        self._played[_kind(job)] = (n + 1, total_s + row.wall_s)

    def again(self, jobs: Iterable[Job]) -> None:
        """Queue the jobs of a lost task again, each in its own chunk, so that none can fail the others."""
        self._alone.extend(jobs)

    def next(self) -> tuple[Job, ...]:
        """Return the jobs of the next task: some episodes or one other job; empty if no job can start now."""
        if self._alone:
            return (self._alone.popleft(),)
        chunk: list[Job] = []
        expected_s = 0.0
        while expected_s < self._target_s and len(chunk) < MOST_EPISODES:
            job, self._held = self._held or self._next_job(), None
            if job is None:
                break
            if not isinstance(job, EpisodeJob):
                if not chunk:
                    return (job,)
                self._held = job
                break
            chunk.append(job)
            n, total_s = self._played.get(_kind(job), (0, 0.0))
            expected_s += total_s / n if n else self._target_s
        return tuple(chunk)


def _kind(job: EpisodeJob) -> tuple[str, str]:
    return job.scenario_sha256, job.contender.name
