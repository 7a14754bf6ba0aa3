"""Calls on several threads: their order, their errors, and jobs that are not begun after one."""

from __future__ import annotations

import threading
import time

import pytest

from sysgym.emulator.threads import as_they_end, in_threads


def square(number: int) -> int:
    time.sleep(0.02 * (3 - number))  # the first one ends last
    return number * number


def test_results_have_the_order_of_the_jobs() -> None:
    assert in_threads(square, range(3), 3) == [0, 1, 4]
    assert in_threads(square, iter(()), 2) == []


def test_they_are_told_as_they_end() -> None:
    assert dict(as_they_end(square, range(3), 3)) == {0: 0, 1: 1, 2: 4}
    assert [number for number, _ in as_they_end(square, range(3), 3)] == [2, 1, 0]


def test_as_many_jobs_are_played_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(3, timeout=30)
    assert len(in_threads(lambda _: together.wait(), range(3), 3)) == 3


def test_an_error_is_raised_and_no_other_job_is_begun() -> None:
    begun = []

    def play(number: int) -> None:
        begun.append(number)
        time.sleep(0.01)
        if number == 2:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_threads(play, range(1000), 2)
    n_begun = len(begun)
    assert n_begun < 100
    time.sleep(0.05)
    assert len(begun) == n_begun


def test_a_generator_that_is_closed_begins_no_other_job() -> None:
    begun = []

    def play(number: int) -> None:
        begun.append(number)
        time.sleep(0.01)

    ending = as_they_end(play, range(1000), 1)
    next(ending)
    ending.close()
    n_begun = len(begun)
    assert n_begun < 100
    time.sleep(0.05)
    assert len(begun) == n_begun


def test_more_threads_than_jobs_are_not_needed() -> None:
    names = set(in_threads(lambda _: threading.current_thread().name, range(2), 8))
    assert len(names) <= 2
