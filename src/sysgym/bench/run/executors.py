"""Executors, which run the jobs of a benchmark on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sysgym.bench.plugins import PluginFile
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.bench.run.pool import Event, Job, run_jobs
from sysgym.errors import SysgymError, UnknownName

LOCAL, RAY, SLURM, SLURM_HERE = "local", "ray", "slurm", "slurm-here"
EXECUTORS = {
    LOCAL: "processes of this machine",
    RAY: "a Ray cluster (extra ray)",
    SLURM: "jobs of Slurm (extra slurm)",
    SLURM_HERE: "the same jobs as processes of this machine",
}
"""Descriptions of the executors by name."""


class Executor(Protocol):
    """Executor of the jobs of a benchmark."""

    def run_jobs(
        self,
        next_job: Callable[[], Job | None],
        plugins: Sequence[PluginFile] = (),
        episode_limit_s: float | None = None,
    ) -> Generator[Event]:
        """Yield events of jobs as they happen; closing the iterator stops all jobs.

        Args:
            next_job: Returns a job that can start now, or None. The run ends when it returns None and no job
                is running.
            plugins: Python files that every process imports first.
            episode_limit_s: Time limit of an episode, s; None: none.
        """


class LocalExecutor:
    """Executor that runs jobs in processes on this machine.

    Args:
        n_workers: Number of processes.
    """

    def __init__(self, n_workers: int) -> None:
        self._n_workers = n_workers

    def run_jobs(
        self,
        next_job: Callable[[], Job | None],
        plugins: Sequence[PluginFile] = (),
        episode_limit_s: float | None = None,
    ) -> Generator[Event]:
        """Yield events; see :class:`Executor`. Trainings have no time limit."""

        def limit_s(job: Job) -> float | None:
            return episode_limit_s if isinstance(job, EpisodeJob) else None

        return run_jobs(next_job, self._n_workers, plugins, limit_s)


def make_executor(
    name: str,
    folder: Path,
    n_workers: int,
    *,
    address: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Executor:
    """Return an executor.

    Args:
        name: One of :data:`EXECUTORS`.
        folder: Results folder; for a cluster, on a file system that its machines share.
        n_workers: Number of processes; for a cluster, the maximum number of concurrent tasks, where 0 is the
            default of the cluster's backend.
        address: Address of a Ray cluster; None: a new cluster of processes on this machine.
        options: Parameters of Slurm jobs, as accepted by submitit's ``AutoExecutor``.

    Raises:
        UnknownName: If there is no such executor.
        SysgymError: If an option belongs to another executor, or the cluster cannot be reached.
        MissingExtra: If the library of the cluster is not installed.
    """
    if name not in EXECUTORS:
        raise UnknownName("executor", name, EXECUTORS)
    if address is not None and name != RAY:
        raise SysgymError(f"--address applies to --on ray, not to --on {name}")
    if options and name not in (SLURM, SLURM_HERE):
        raise SysgymError(f"--cluster applies to --on slurm, not to --on {name}")
    if name == LOCAL:
        return LocalExecutor(n_workers)
    from sysgym.bench.run.cluster.executor import ClusterExecutor

    if name == RAY:
        from sysgym.bench.run.cluster.on_ray import RayBackend

        return ClusterExecutor(RayBackend(address), folder, n_workers)
    from sysgym.bench.run.cluster.on_slurm import SlurmBackend

    backend = SlurmBackend(folder, options, here=name == SLURM_HERE)
    return ClusterExecutor(backend, folder, n_workers)
