"""Worker processes: their imports, and jobs that do not end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.run import pool
from sysgym.bench.run.pool import PLAYING, Done, Failed, Job, TimedOut, run_jobs

PLANTED = ("multiprocessing", "numpy", "sysgym", "json")


@dataclass(frozen=True)
class Sleep:
    """A job that takes its time, before it is ready or after."""

    ready_s: float = 0.0
    takes_s: float = 0.0

    @property
    def label(self) -> str:
        """Name of the job in messages."""
        return f"sleep {self.ready_s} {self.takes_s}"

    def run(self, report: Callable[[Any], None]) -> int:
        """Sleep twice and return the process."""
        time.sleep(self.ready_s)
        report(PLAYING)
        time.sleep(self.takes_s)
        return os.getpid()


def test_workers_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(tmp_path)
    jobs: list[Job] = [Sleep()]
    events = list(run_jobs(lambda: jobs.pop() if jobs else None, 1))
    assert not (tmp_path / "was-run").exists()
    assert [type(event) for event in events] == [Done]
    assert "PYTHONSAFEPATH" not in os.environ


@dataclass(frozen=True)
class Clean:
    """A job that leaves something to be done when its process ends."""

    path: Path
    label: str = "clean"

    def run(self, report: Callable[[Any], None]) -> None:
        """Ask for the file to be written at the end."""
        Finalize(None, self.path.write_text, args=("cleaned",), exitpriority=0)


def test_a_worker_without_a_job_ends_by_itself_and_frees_what_it_shares(tmp_path: Path) -> None:
    """Otherwise multiprocessing complains of leaked semaphores at the end of a benchmark."""
    jobs: list[Job] = [Clean(tmp_path / "cleaned")]
    assert [type(event) for event in run_jobs(lambda: jobs.pop() if jobs else None, 1)] == [Done]
    assert (tmp_path / "cleaned").read_text() == "cleaned"


START_A_WORKER = """
from multiprocessing.forkserver import _forkserver
from pathlib import Path

from sysgym.bench.run.pool import _Worker

worker = _Worker(())
status = Path(f"/proc/{_forkserver._forkserver_pid}/status").read_text()
worker.kill()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells which signals a process blocks")
def test_the_process_that_workers_are_forked_from_never_hears_ctrl_c() -> None:
    """Not even the first one of a program, which imports for a second."""
    done = subprocess.run([sys.executable, "-c", START_A_WORKER], capture_output=True, text=True, check=True)
    assert int(done.stdout, 16) & 1 << (signal.SIGINT - 1)


def test_a_job_that_is_late_is_given_up_and_its_worker_replaced() -> None:
    """Getting ready does not count."""
    queue: list[Job] = [Sleep(ready_s=1.0), Sleep(takes_s=60.0), Sleep()]
    began_s = time.monotonic()
    with closing(run_jobs(lambda: queue.pop() if queue else None, 1, limit_s=lambda job: 0.5)) as running:
        first, late, last = running
    assert time.monotonic() - began_s < 50.0
    assert isinstance(late, TimedOut)
    assert isinstance(late, Failed)
    assert late.reason == "exceeded the time limit of 0.5 s; its process was ended"
    assert isinstance(first, Done)
    assert isinstance(last, Done)
    assert first.result != last.result


def test_the_limit_that_is_told_is_that_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "EPISODE_LIMIT_S", 0.5)
    queue: list[Job] = [Sleep(ready_s=60.0)]
    (late,) = run_jobs(lambda: queue.pop() if queue else None, 1, limit_s=lambda job: 0.01)
    assert isinstance(late, TimedOut)
    assert late.reason == "exceeded the time limit of 0.5 s; its process was ended"


def _kill(pid: int) -> None:
    """Kill a worker and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    deadline_s = time.monotonic() + 10.0
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells in /proc whether a process is gone")
@pytest.mark.parametrize("n_workers", [1, 2])
def test_the_death_of_an_idle_worker_costs_no_job(n_workers: int) -> None:
    queue: list[Job] = [Sleep() for _ in range(4)]
    with closing(run_jobs(lambda: queue.pop() if queue else None, n_workers)) as running:
        first = next(running)
        assert isinstance(first, Done)
        _kill(first.result)
        others = list(running)
    assert [type(event) for event in others] == [Done] * 3
    assert first.result not in {event.result for event in others if isinstance(event, Done)}


def test_a_worker_that_dies_before_its_first_job_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one worker after the other would be started in vain."""

    class Dying(pool._Worker):
        def __init__(self, plugins: Any) -> None:
            super().__init__(plugins)
            self.process.kill()
            self.process.join()

    monkeypatch.setattr(pool, "_Worker", Dying)
    queue: list[Job] = [Sleep(), Sleep()]
    events = list(run_jobs(lambda: queue.pop() if queue else None, 1))
    reasons = [event.reason for event in events if isinstance(event, Failed)]
    assert reasons == ["the worker process died (signal 9, SIGKILL; out of memory?)"] * 2
