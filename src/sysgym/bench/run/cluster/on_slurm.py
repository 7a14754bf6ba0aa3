"""Tasks as jobs of Slurm, by submitit; or the same as processes of this machine, to try it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sysgym.bench.run.cluster.tasks import Task, perform
from sysgym.bench.run.pool import ONE_THREAD, environment
from sysgym.errors import MissingExtra, SysgymError

JOBS = "slurm"
"""Folder of submitit's files, in the results folder."""

MOST_JOBS = 100
"""Jobs in the queue at a time, unless said otherwise."""


class Performer:
    """Callable for submitit that is queued again when its time is up; trainings go on where they were."""

    def __call__(self, task: Task) -> str:
        """Do the task."""
        return perform(task)

    def checkpoint(self, task: Task) -> Any:
        """Return the job to queue again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)


class SlurmBackend:
    """Backend of Slurm; each task is a job with one CPU.

    Args:
        folder: Results folder.
        options: Parameters of submitit's ``AutoExecutor``, such as ``slurm_partition`` or ``timeout_min``.
        here: Whether jobs are processes of this machine.

    Raises:
        MissingExtra: If submitit is not installed.
        SysgymError: If there is no Slurm, or an option is not known.
    """

    target_s = 60.0

    def __init__(self, folder: Path, options: Mapping[str, Any] | None = None, *, here: bool = False) -> None:
        try:
            import submitit
        except ImportError as error:
            raise MissingExtra("slurm", "sysgym bench --on slurm") from error
        self._here = here
        if here:
            self.target_s = 5.0
        try:
            self._executor = submitit.AutoExecutor(
                folder=folder.resolve() / JOBS, cluster="local" if here else "slurm"
            )
            self._executor.update_parameters(
                **{"name": "sysgym", "timeout_min": 240, "cpus_per_task": 1, **(options or {})}
            )
        except (RuntimeError, NameError, TypeError, ValueError) as error:
            raise SysgymError(f"Slurm: {error}") from error

    def slots(self) -> int:
        """Return the number of jobs that may be in the queue."""
        return (os.cpu_count() or 1) if self._here else MOST_JOBS

    def submit(self, task: Task) -> Any:
        """Queue a job."""
        with environment(ONE_THREAD):  # jobs inherit the variables
            return self._executor.submit(Performer(), task)

    def ended(self, handles: Sequence[Any], wait_s: float) -> list[Any]:
        """Return the jobs that have ended."""
        done = [handle for handle in handles if handle.done()]
        if not done:
            time.sleep(wait_s)
        return done

    def check(self, handle: Any) -> None:
        """Raise an exception if the job has failed."""
        error = handle.exception()
        if error is not None:
            raise SysgymError(f"job {handle.job_id}: {error}")

    def cancel(self, handle: Any) -> None:
        """Cancel the job."""
        handle.cancel()

    def close(self) -> None:
        """Do nothing."""
