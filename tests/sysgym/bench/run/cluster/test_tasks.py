"""Tasks and chunks: sizes, shared folders, versions, limits, one process for each training."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.plan import Plan, make_plan
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.cluster import tasks
from sysgym.bench.run.cluster.chunks import MOST_EPISODES, Chunks
from sysgym.bench.run.cluster.shards import path_of, read_shard
from sysgym.bench.run.cluster.tasks import Task, perform, report_path
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.bench.run.pool import PLAYING, Job
from sysgym.bench.run.runner import RUN
from sysgym.bench.run.training import Training
from sysgym.errors import SysgymError
from sysgym.scenarios import load_suite
from sysgym.scenarios.locks import alone_in

WriteSuite = Callable[..., Path]


def episodes(plan: Plan, folder: Path) -> list[EpisodeJob]:
    return [
        EpisodeJob(
            cell.scenario.resolved(),
            cell.scenario.sha256(),
            cell.split,
            cell.contender,
            cell.seed,
            str(folder),
        )
        for cell in plan.cells
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "out"
    out.mkdir()
    (out / RUN).write_text("{}")
    return out


def task_of(folder: Path, jobs: Any, **fields: Any) -> Task:
    task = Task(str(folder), tuple(jobs), (), must_match(versions()), str(folder))
    return replace(task, **fields)


def test_a_task_writes_its_shard_once(folder: Path, write_suite: WriteSuite) -> None:
    jobs = episodes(make_plan(load_suite(write_suite()), folder), folder)
    task = pickle.loads(pickle.dumps(task_of(folder, jobs)))
    assert perform(task) == task.key
    path = path_of(folder, task.key)
    shard = read_shard(path)
    assert [shard.rows[number].cell for number in range(4)] == [job.cell for job in jobs]
    assert shard.failures == []
    written = path.stat().st_mtime_ns
    assert perform(task) == task.key
    assert path.stat().st_mtime_ns == written


def test_keys_follow_from_jobs_and_versions(folder: Path, write_suite: WriteSuite) -> None:
    jobs = episodes(make_plan(load_suite(write_suite()), folder), folder)
    keys = {
        task_of(folder, jobs).key,
        task_of(folder, jobs[:3]).key,
        task_of(folder, jobs, versions=("another",)).key,
    }
    assert len(keys) == 3
    assert task_of(folder, jobs, limit_s=3.0).key in keys


def test_a_failed_episode_does_not_stop_the_others(folder: Path, write_suite: WriteSuite) -> None:
    first, second, *_ = episodes(make_plan(load_suite(write_suite()), folder), folder)
    task = task_of(folder, [replace(first, seed=1), second])
    perform(task)
    shard = read_shard(path_of(folder, task.key))
    assert list(shard.rows) == [1]
    assert [failure.job for failure in shard.failures] == [0]
    assert "outside the split" in shard.failures[0].reason
    assert "Traceback" in shard.failures[0].trace


def test_machines_need_the_folder_and_the_versions(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(SysgymError, match="a folder shared by all machines of the cluster"):
        perform(task_of(tmp_path / "elsewhere", []))
    with pytest.raises(SysgymError, match="install the same versions on all machines"):
        perform(task_of(folder, [], versions=("0.0.0",)))


@dataclass(frozen=True)
class Endless(EpisodeJob):
    """An episode that does not end."""

    def run(self, report: Callable[[Any], None]) -> Any:
        report(PLAYING)
        while True:
            time.sleep(0.01)


def test_the_time_limit_of_an_episode(folder: Path, write_suite: WriteSuite) -> None:
    job, *_ = episodes(make_plan(load_suite(write_suite()), folder), folder)
    endless = Endless(**{name: getattr(job, name) for name in EpisodeJob.__dataclass_fields__})
    task = task_of(folder, [endless, job], limit_s=0.2)
    perform(task)
    shard = read_shard(path_of(folder, task.key))
    assert shard.failures[0].reason == "EpisodeTimeout: exceeded the time limit of 0.2 s"
    assert list(shard.rows) == [1]


@dataclass(frozen=True)
class Quick(Training):
    """A training that takes no time."""

    def finished(self) -> None:
        return None

    def run(self, report: Callable[[Any], None]) -> Any:
        report(10)
        report(20)
        return None


def quick(folder: Path) -> Quick:
    return Quick("quick", "ppo", "tiny", "0", 100, 1, 1, "log", (), str(folder / "training" / "quick"))


def test_a_training_reports_now_and_then(folder: Path) -> None:
    task = task_of(folder, [quick(folder)])
    perform(task)
    assert report_path(folder, task.key).read_text() == "10"


def test_a_training_is_done_by_one_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "LOCK_WAIT_S", 0.0)
    job = quick(folder)
    task = task_of(folder, [job])
    with alone_in(Path(job.folder), "trains in", name=tasks.LOCK):
        perform(task)
    assert "another process trains" in read_shard(path_of(folder, task.key)).failures[0].reason
    path_of(folder, task.key).unlink()
    perform(task)
    assert not read_shard(path_of(folder, task.key)).failures


def test_chunks_grow_with_what_is_known(folder: Path, write_suite: WriteSuite, make_row: Any) -> None:
    jobs = episodes(make_plan(load_suite(write_suite(n_seeds=20)), folder), folder)
    training = quick(folder)
    everything: list[Job] = [*jobs[:10], training, *jobs[10:]]
    queue = iter(everything)
    chunks = Chunks(lambda: next(queue, None), target_s=4.0)
    assert chunks.next() == (jobs[0],)
    chunks.note(jobs[0], replace(make_row(), wall_s=1.0))
    chunks.note(jobs[1], replace(make_row(), wall_s=3.0))
    assert chunks.next() == tuple(jobs[1:3])
    chunks.note(jobs[2], replace(make_row(), wall_s=0.0))
    assert [len(chunks.next()) for _ in range(3)] == [3, 3, 1]
    assert chunks.next() == (training,)
    rest: list[Job] = []
    while chunk := chunks.next():
        rest += chunk
    assert rest == jobs[10:]
    chunks.again(jobs[:3])
    assert [chunks.next() for _ in range(4)] == [(jobs[0],), (jobs[1],), (jobs[2],), ()]


def test_chunks_have_a_largest_size(folder: Path, write_suite: WriteSuite, make_row: Any) -> None:
    job, *_ = episodes(make_plan(load_suite(write_suite()), folder), folder)
    chunks = Chunks(lambda: job, target_s=4.0)
    chunks.note(job, replace(make_row(), wall_s=0.0))
    assert len(chunks.next()) == MOST_EPISODES
