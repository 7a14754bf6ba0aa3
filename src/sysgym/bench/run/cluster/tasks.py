"""Tasks: units of work for one process of a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sysgym.bench.plugins import PluginFile, load_plugin
from sysgym.bench.results.records import RUN
from sysgym.bench.results.rows import Row
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.cluster.shards import SHARDS, Failure, Shard, key_of, path_of, write_shard
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.bench.run.pool import PLAYING, Job
from sysgym.bench.run.training import Training
from sysgym.emulator.first_start import Silence, announce_with
from sysgym.errors import SysgymError
from sysgym.scenarios.files import write_atomically
from sysgym.scenarios.locks import alone_in

REPORT_EVERY_S = 1.0
"""Minimum time between two reports of a training, s; each report is written to a file."""

LOCK_WAIT_S = 120.0
"""Time to wait for another process that runs the same training, s.

The processes of a benchmark that was killed can take a while to end.
"""

LOCK = ".task.lock"
"""File name of the lock of a training's task; the training itself locks its folder with another file."""


class ClusterEnded(SysgymError):
    """Raised when a cluster has ended, so that no further task can be done."""


class EpisodeTimeout(SysgymError):
    """Raised when an episode exceeds its time limit."""


@dataclass(frozen=True)
class Task:
    """Jobs that one process runs one after another; must be picklable.

    Attributes:
        folder: Results folder, an absolute path that is the same on all machines.
        jobs: The jobs: a chunk of episodes, or one other job.
        plugins: The user's Python files.
        versions: Versions of the benchmark that the machine must have.
        work_folder: Folder to which relative paths of scenarios refer.
        limit_s: Time limit of an episode, s; None: none.
    """

    folder: str
    jobs: tuple[Job, ...]
    plugins: tuple[PluginFile, ...]
    versions: tuple[Any, ...]
    work_folder: str
    limit_s: float | None = None

    @property
    def key(self) -> str:
        """Name of the task's shard."""
        whats = [repr(job.cell) if isinstance(job, EpisodeJob) else job.label for job in self.jobs]
        return key_of([whats, list(self.versions)])

    @property
    def label(self) -> str:
        """Name of the task in messages."""
        more = len(self.jobs) - 1
        return self.jobs[0].label + (f" and {more} more" if more else "")


def perform(task: Task) -> str:
    """Perform a task on this machine, unless its shard exists already, and return the name of the shard.

    Raises:
        SysgymError: If the results folder does not exist on this machine, or its versions differ from those
            of the benchmark.
    """
    folder = Path(task.folder)
    if not (folder / RUN).is_file():
        raise SysgymError(
            f"{platform.node()}: the results folder {folder} does not exist, or belongs to another"
            " benchmark; expected a folder shared by all machines of the cluster; choose another --out"
        )
    ours = must_match(versions())
    if list(ours) != list(task.versions):
        raise SysgymError(
            f"{platform.node()}: sysgym or a library differs: expected {task.versions}, got {ours};"
            " install the same versions on all machines"
        )
    if path_of(folder, task.key).is_file():
        return task.key
    with contextlib.suppress(OSError):
        os.chdir(task.work_folder)
    announce_with(Silence())
    rows: dict[int, Row] = {}
    failures = []
    for number, job in enumerate(task.jobs):
        try:
            for plugin in task.plugins:
                load_plugin(*plugin)
            with _limited(job, task.limit_s) as began:
                result = _run(job, Reports(folder, task.key, began))
        except Exception as error:
            failures.append(Failure(number, f"{type(error).__name__}: {error}", traceback.format_exc()))
        else:
            if isinstance(result, Row):
                rows[number] = result
    write_shard(folder, task.key, Shard(rows, failures))
    return task.key


class Reports:
    """Writer of the reports of a running job, to a file beside the shards.

    Args:
        folder: Results folder.
        key: Name of the task's shard.
        began: Called when an episode begins to play.
    """

    def __init__(self, folder: Path, key: str, began: Callable[[], None]) -> None:
        self._path, self._began, self._last_s = report_path(folder, key), began, -REPORT_EVERY_S

    def __call__(self, news: Any) -> None:
        """Handle a report: :data:`PLAYING` starts the time limit; others are written, but not too often."""
        if news == PLAYING:
            self._began()
        elif time.monotonic() - self._last_s >= REPORT_EVERY_S:
            self._last_s = time.monotonic()
            self._path.parent.mkdir(exist_ok=True)
            write_atomically(self._path, json.dumps(news).encode())


def report_path(folder: Path, key: str) -> Path:
    """Return the path of a task's latest report."""
    return folder / SHARDS / f"{key}.report"


def _run(job: Job, report: Reports) -> Any:
    if not isinstance(job, Training):
        return job.run(report)
    with alone_in(Path(job.folder), "trains in", wait_s=LOCK_WAIT_S, name=LOCK):
        # Another process may have finished the training in the meantime.
        return job.finished() or job.run(report)


def _end_after(limit_s: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, limit_s)


@contextlib.contextmanager
def _limited(job: Job, limit_s: float | None) -> Iterator[Callable[[], None]]:
    """Raise EpisodeTimeout in an episode that exceeds the time limit.

    The limit needs signals, which only main threads receive; both Ray and submitit run tasks in main threads.

    Yields:
        A function that starts the time limit.
    """
    limited = limit_s is not None and isinstance(job, EpisodeJob)
    if not limited or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    assert limit_s is not None

    def stop(number: int, frame: Any) -> None:
        raise EpisodeTimeout(f"exceeded the time limit of {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield lambda: _end_after(limit_s)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
