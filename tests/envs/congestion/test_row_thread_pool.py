"""Threads that share rows: in a process that was forked."""

from __future__ import annotations

import multiprocessing
import warnings

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.envs.congestion import row_thread_pool

REGISTERED = sysgym.__version__
LIMIT_S = 60

forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)


def _forked(work: object) -> None:
    """Run ``work`` in a forked process, and check that it ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = multiprocessing.get_context("fork").Process(target=work)  # type: ignore[arg-type]
        child.start()
    child.join(LIMIT_S)
    ended = not child.is_alive()
    child.kill()
    child.join()
    assert ended, "the child waits for threads that it does not have"
    assert child.exitcode == 0


@forks
def test_a_forked_process_starts_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_thread_pool, "WORTH_SHARING_S", 0.0)
    pool = row_thread_pool.RowThreadPool(2)

    def work() -> None:
        rows: list[int] = []
        pool.map_rows(lambda first, behind_last: rows.extend(range(first, behind_last)), 8)
        assert sorted(rows) == list(range(8))

    for _ in range(2):  # the first call is not shared: it measures a row
        work()
    assert pool._pool is not None
    _forked(work)
    _forked(pool.close)
    work()
    pool.close()


@forks
def test_a_vector_environment_goes_on_in_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_thread_pool, "WORTH_SHARING_S", 0.0)
    envs = gym.make_vec(
        "sysgym/DatacenterCC-v0",
        num_envs=4,
        vectorization_mode="vector_entry_point",
        scenario="incast-32",
        threads=2,
    )
    envs.reset(seed=1)
    ones = np.ones(envs.action_space.shape or (), np.float32)
    for _ in range(3):
        envs.step(ones)

    def work() -> None:
        envs.step(ones)
        envs.close()

    _forked(work)
    envs.step(ones)
    envs.close()
