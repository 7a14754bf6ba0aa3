"""Backend that runs tasks on a Ray cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from sysgym.bench.run.cluster.tasks import ClusterEnded, Task, perform
from sysgym.bench.run.pool import ONE_THREAD, SAFE_IMPORTS
from sysgym.errors import MissingExtra, SysgymError

RETRIES = 5
"""Number of times that a task is retried after its process has died."""


class RayBackend:
    """Backend of a Ray cluster; each task has one CPU.

    Args:
        address: Address of the cluster, such as ``auto`` or ``10.0.0.1:6379``; None: a new cluster of
            processes on this machine, which ends with the benchmark.

    Raises:
        MissingExtra: If Ray is not installed.
        SysgymError: If there is no cluster at the address.
    """

    target_s = 3.0

    def __init__(self, address: str | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingExtra("ray", "sysgym bench --on ray") from error
        self._ray = ray
        options: dict[str, Any] = {} if address else {"include_dashboard": False}
        try:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": {**ONE_THREAD, **SAFE_IMPORTS}},
                **options,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise SysgymError(
                f"no Ray cluster at {address or 'this machine'}: {error}; start one with: ray start --head"
            ) from error
        self._perform = ray.remote(num_cpus=1, max_retries=RETRIES)(perform)

    def slots(self) -> int:
        """Return the number of CPUs of the cluster."""
        resources = self._ray.cluster_resources()  # type: ignore[no-untyped-call]
        return max(int(resources.get("CPU", 1)), 1)

    def submit(self, task: Task) -> Any:
        """Submit a task and return its handle."""
        return self._perform.remote(task)

    def ended(self, handles: Sequence[Any], wait_s: float) -> list[Any]:
        """Return the handles of tasks that have ended; if there are none, wait for up to ``wait_s`` first."""
        # Results are not fetched, since they are in shards.
        done, _ = self._ray.wait(list(handles), num_returns=len(handles), timeout=0.0, fetch_local=False)
        if not done:
            done, _ = self._ray.wait(list(handles), num_returns=1, timeout=wait_s, fetch_local=False)
        return list(done)

    def check(self, handle: Any) -> None:
        """Raise the exception of a task that has failed.

        Raises:
            ClusterEnded: If the part of the cluster on this machine has ended.
        """
        errors = self._ray.exceptions
        try:
            self._ray.get(handle)
        except (errors.LocalRayletDiedError, errors.RaySystemError) as error:
            raise ClusterEnded(
                "the Ray cluster has ended; finished episodes are in the results; run the same command again"
            ) from error
        except errors.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, SysgymError) else error) from None

    def cancel(self, handle: Any) -> None:
        """Kill the process of a task."""
        self._ray.cancel(handle, force=True)

    def close(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()
