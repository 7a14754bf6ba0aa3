"""Pool of worker processes that survive failed jobs and end immediately on request or with their parent.

In `concurrent.futures`, a killed worker breaks the whole pool, and Ctrl-C prints a traceback from every
worker. In this module, each worker has its own pipe, and only the job of a killed worker fails.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from sysgym.bench.plugins import PluginFile, load_plugin
from sysgym.emulator.first_start import Silence, announce_with

ONE_THREAD: Mapping[str, str] = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    )
}
"""Environment variables that limit a worker to one thread, since workers run in parallel."""

SAFE_IMPORTS: Mapping[str, str] = {"PYTHONSAFEPATH": "1"}
"""Environment variables of Python processes that must not import from the current folder."""

EPISODE_LIMIT_S = 3600.0
"""Default time limit of an episode, s; far longer than any regular episode."""

PLAYING = "playing"
"""Report of a job that has finished importing and compiling, which starts its time limit."""

GRACE_S = 5.0
"""Time in which a worker can end by itself before it is killed, s."""


class Job(Protocol):
    """Job for another process; must be picklable."""

    @property
    def label(self) -> str:
        """Name of the job in messages."""

    def run(self, report: Callable[[Any], None]) -> Any:
        """Run the job and return its result; ``report`` sends progress to the parent process."""


@dataclass(frozen=True)
class Progress:
    """Progress of a running job."""

    job: Job
    news: Any


@dataclass(frozen=True)
class Done:
    """Result of a job."""

    job: Job
    result: Any


@dataclass(frozen=True)
class Failed:
    """Failure of a job that raised an exception or whose worker died."""

    job: Job
    reason: str
    trace: str


@dataclass(frozen=True)
class TimedOut(Failed):
    """Failure of a job that exceeded its time limit; its worker was killed."""


Event = Progress | Done | Failed


def _context() -> BaseContext:
    """Return the multiprocessing context of workers.

    Where possible, workers are forked from a server process in which all imports are loaded. The server
    lives as long as this process, so that every worker but the first starts in milliseconds. It has one
    thread and shares only the module search path with this process.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sysgym.bench.run.warm"])
    return context


class _Worker:
    def __init__(self, plugins: Sequence[PluginFile]) -> None:
        context = _context()
        self.connection, theirs = context.Pipe()
        with environment({**ONE_THREAD, **SAFE_IMPORTS}):
            _start_resource_tracker()
            arguments = (theirs, tuple(plugins), dict(os.environ))
            self.process: BaseProcess = context.Process(target=_work, args=arguments, daemon=True)  # type: ignore[attr-defined]
            with _without_interrupts():
                self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.limit_s = math.inf
        self.ends_s = math.inf  # deadline of the job, on the monotonic clock

    def give(self, job: Job) -> bool:
        """Send a job; return False if the process has died."""
        self.job = job
        try:
            self.connection.send(job)
        except OSError:
            return False
        return True

    def end_after(self, limit_s: float) -> None:
        """Set the time limit of the job, which starts now."""
        self.limit_s, self.ends_s = limit_s, time.monotonic() + limit_s

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()

    def stop(self) -> None:
        """Let an idle process exit by itself, so that it frees shared resources; terminate a busy process."""
        if self.job is None:
            self.connection.close()
        elif self.process.is_alive():
            self.process.terminate()


def run_jobs(
    next_job: Callable[[], Job | None],
    n_workers: int,
    plugins: Sequence[PluginFile] = (),
    limit_s: Callable[[Job], float | None] = lambda job: None,
) -> Generator[Event]:
    """Yield events of jobs as they happen.

    Closing the iterator, or an exception at a ``yield`` such as KeyboardInterrupt, stops all workers
    immediately.

    Args:
        next_job: Returns a job that can start now, or None. The function is called whenever a worker is idle;
            the run ends when it returns None and no worker is busy.
        n_workers: Maximum number of processes, which are started as needed.
        plugins: Python files that every worker imports first, provided that their digests are unchanged.
        limit_s: Returns the time limit of a job after its report :data:`PLAYING`, s; None: no limit. If there
            is a limit, the time before that report is limited too, to the limit or to an hour, whichever is
            longer. A job that exceeds its limit is :class:`TimedOut`, and its worker is replaced.
    """
    workers: list[_Worker] = []
    try:
        while True:
            _hand_out(next_job, workers, n_workers, plugins)
            busy = {worker.connection: worker for worker in workers if worker.job is not None}
            if not busy:
                return
            ends_s = min(worker.ends_s for worker in busy.values())
            left_s = None if ends_s == math.inf else max(ends_s - time.monotonic(), 0.0)
            for connection in wait(list(busy), left_s):
                worker = busy.pop(connection)  # type: ignore[call-overload]
                event = _receive(worker, limit_s)
                if isinstance(event, Failed) and not worker.process.is_alive():
                    worker.connection.close()
                    workers.remove(worker)
                if event is not None:
                    yield event
            for worker in busy.values():
                if worker.ends_s <= time.monotonic():
                    worker.kill()
                    workers.remove(worker)
                    yield _timed_out(worker)
    finally:
        _stop(workers)


def _hand_out(
    next_job: Callable[[], Job | None], workers: list[_Worker], n_workers: int, plugins: Sequence[PluginFile]
) -> None:
    idle = [worker for worker in workers if worker.job is None]
    while (idle or len(workers) < n_workers) and (job := next_job()) is not None:
        while idle:
            worker = idle.pop()
            if worker.give(job):
                break
            worker.kill()
            workers.remove(worker)
        else:
            workers.append(_Worker(plugins))
            workers[-1].give(job)  # if it has died too, the job fails when its result is received


def _receive(worker: _Worker, limit_s: Callable[[Job], float | None]) -> Event | None:
    """Return the event of a worker; None for a message that only starts a time limit."""
    job = worker.job
    assert job is not None
    try:
        kind, content = worker.connection.recv()
    except (EOFError, ConnectionResetError):
        worker.process.join(GRACE_S)
        code = worker.process.exitcode
        reason = f"the worker process died ({_exit_words(code)})"
        return Failed(job, reason, reason + "\n")
    if kind == "began" or (kind == "progress" and content == PLAYING):
        limit = limit_s(job)
        if limit is not None:
            worker.end_after(max(limit, EPISODE_LIMIT_S) if kind == "began" else limit)
        return None
    if kind == "progress":
        return Progress(job, content)
    worker.job, worker.ends_s = None, math.inf
    return Done(job, content) if kind == "done" else Failed(job, *content)


def _timed_out(worker: _Worker) -> TimedOut:
    assert worker.job is not None
    reason = f"exceeded the time limit of {worker.limit_s:g} s; its process was ended"
    return TimedOut(worker.job, reason, reason + "\n")


def _exit_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    words = f"signal {-code}, {signal.Signals(-code).name}"
    return words + "; out of memory?" if -code == signal.SIGKILL else words


def _stop(workers: Sequence[_Worker]) -> None:
    with _without_interrupts():
        for worker in workers:
            worker.stop()
        deadline = time.monotonic() + GRACE_S
        for worker in workers:
            worker.process.join(max(deadline - time.monotonic(), 0.0))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()


def _work(connection: Connection, plugins: tuple[PluginFile, ...], variables: Mapping[str, str]) -> None:
    """Run jobs until the parent closes the connection; main function of a worker."""
    os.environ.clear()  # a forked process has the variables of the server process
    os.environ.update(variables)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole process group; the parent stops its workers
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    announce_with(Silence())  # compilation is announced once, not by every worker
    loaded = False
    while True:
        try:
            job: Job = connection.recv()
        except EOFError:
            return
        try:
            if not loaded:
                for plugin in plugins:
                    load_plugin(*plugin)
                loaded = True
            connection.send(("began", None))
            result = job.run(lambda news: connection.send(("progress", news)))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            connection.send(("failed", (reason, traceback.format_exc())))
        else:
            connection.send(("done", result))


def _leave_with_parent() -> None:
    """End this process when its parent ends, since two trainings must not write to the same checkpoint."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes started inside the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start_resource_tracker() -> None:
    """Start multiprocessing's resource tracker before the first worker, because its start unblocks Ctrl-C."""
    if os.name != "nt":
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block; processes started in the block never receive Ctrl-C.

    On Windows, this has no effect.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
