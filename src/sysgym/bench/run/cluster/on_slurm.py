"""Backend that runs tasks as Slurm jobs through submitit, or, for a trial, as processes on this machine."""

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
"""Name of the folder of submitit's files in the results folder."""

MOST_JOBS = 100
"""Default maximum number of jobs in Slurm's queue."""


class Performer:
    """Callable for submitit that is queued again after its time limit; trainings are then resumed."""

    def __call__(self, task: Task) -> str:
        """Perform the task and return the name of its shard."""
        return perform(task)

    def checkpoint(self, task: Task) -> Any:
        """Return the submission with which submitit queues the task again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)


class SlurmBackend:
    """Backend of Slurm; each task is a job with one CPU.

    Args:
        folder: Results folder.
        options: Parameters of submitit's ``AutoExecutor``, such as ``slurm_partition`` or ``timeout_min``.
        here: Whether to run the jobs as processes on this machine, without Slurm.

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
        """Return the maximum number of jobs in the queue."""
        return (os.cpu_count() or 1) if self._here else MOST_JOBS

    def submit(self, task: Task) -> Any:
        """Submit a task as a job and return the job."""
        with environment(ONE_THREAD):  # jobs inherit the variables
            return self._executor.submit(Performer(), task)

    def ended(self, handles: Sequence[Any], wait_s: float) -> list[Any]:
        """Return the jobs that have ended; if there are none, wait for ``wait_s`` and return none."""
        done = [handle for handle in handles if handle.done()]
        if not done:
            time.sleep(wait_s)
        return done

    def check(self, handle: Any) -> None:
        """Check that a job has not failed.

        Raises:
            SysgymError: If the job has failed.
        """
        error = handle.exception()
        if error is not None:
            raise SysgymError(f"job {handle.job_id}: {error}")

    def cancel(self, handle: Any) -> None:
        """Cancel the job."""
        handle.cancel()

    def close(self) -> None:
        """Do nothing."""
