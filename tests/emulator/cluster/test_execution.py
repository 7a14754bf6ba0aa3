"""Execution of one job: exact times, machines, waste and counters, also against a simple reference."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.cluster.execution import (
    FINISHED,
    PENDING,
    RUNNING,
    UNLIMITED,
    Execution,
    completion_with_relaunch,
)
from sysgym.emulator.cluster.job import Job


def make_job(duration_s: Any, start_s: Any = 0.0, window_s: float = 1.0, counters: Any = None) -> Job:
    """Make a job of given durations, shape (n_tasks, n_attempts); the counter of window w is its number."""
    duration = np.asarray(duration_s, dtype=np.float64)
    n, attempts = duration.shape
    windows = math.ceil(duration.max() / window_s)
    if counters is None:
        counters = np.zeros((n, attempts, windows, 1)) + np.arange(1, windows + 1)[:, None]
    live = np.arange(windows) < np.ceil(duration[:, :, None] / window_s)
    return Job(
        name="hand-made",
        window_s=window_s,
        counter_names=tuple(f"c{column}" for column in range(np.shape(counters)[3])),
        start_s=np.zeros(n) + start_s,
        duration_s=duration,
        counters=(counters * live[..., None]).astype(np.float32),
        cause=np.zeros(n, np.int8),
    )


def random_job(rng: np.random.Generator, n: int, attempts: int = 3) -> Job:
    """Make a job of random durations, some of them whole windows, some tasks starting late."""
    duration = rng.lognormal(1.5, 0.7, (n, attempts))
    whole = rng.random((n, attempts)) < 0.3
    duration = np.where(whole, np.ceil(duration), duration)
    start = np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0.0, 6.0, n))
    counters = rng.random((n, attempts, math.ceil(duration.max()), 2))
    return make_job(duration, start, counters=counters)


@dataclass
class Reference:
    """The same rules, one event and one machine at a time."""

    job: Job
    spare: int
    now_s: float = 0.0
    wasted_s: float = 0.0
    useful_s: float = 0.0
    idle_s: float = 0.0
    free: float = 0
    aside: int = 0
    line: list[tuple[int, bool]] = field(default_factory=list)
    running: dict[int, dict[int, float]] = field(default_factory=dict)
    started: dict[int, int] = field(default_factory=dict)
    finished: dict[int, tuple[float, int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = math.inf if self.spare == UNLIMITED else self.spare

    def events(self) -> list[tuple[float, int, int, int]]:
        """Coming starts and ends, soonest first: (time, end or start, task, attempt)."""
        found = []
        for task in range(self.job.n_tasks):
            if task not in self.started:
                found.append((float(self.job.start_s[task]), 1, task, 0))
            for attempt, begin in self.running.get(task, {}).items():
                found.append((begin + float(self.job.duration_s[task, attempt]), 0, task, attempt))
        return sorted(found)

    def pass_time(self, until_s: float) -> None:
        unused = self.job.n_tasks - len(self.started)
        free = 0 if math.isinf(self.free) else self.free
        self.idle_s += (until_s - self.now_s) * (unused + free + self.aside)
        self.now_s = until_s

    def advance(self, until_s: float) -> None:
        while (events := self.events()) and events[0][0] <= until_s:
            time_s, is_start, task, attempt = events[0]
            self.pass_time(time_s)
            if is_start:
                self.running[task] = {0: time_s}
                self.started[task] = 1
                continue
            for other, begin in self.running.pop(task).items():
                self.free += 1
                if other == attempt:
                    self.useful_s += time_s - begin
                    self.finished[task] = (time_s, attempt, begin)
                else:
                    self.wasted_s += time_s - begin
            following = self.events()
            if not following or following[0][0] > time_s or following[0][1]:
                self.serve()
        self.pass_time(until_s)

    def request(self, tasks: list[int], *, kill: bool) -> None:
        for task in tasks:
            waits = any(task == one for one, _ in self.line)
            if task in self.running and self.started[task] < self.job.n_attempts and not waits:
                self.line.append((task, kill))
        self.serve()

    def serve(self) -> None:
        while self.line and self.free > 0:
            task, kill = self.line.pop(0)
            if task in self.finished:
                continue
            if kill:
                for begin in self.running[task].values():
                    self.wasted_s += self.now_s - begin
                    self.aside += 1
                self.running[task] = {}
            self.running[task][self.started[task]] = self.now_s
            self.started[task] += 1
            self.free -= 1

    def shown(self, task: int) -> tuple[int, float, float]:
        """Attempt that is shown, how long it has run, and the windows to average over as a length of time."""
        if task in self.finished:
            end, attempt, begin = self.finished[task]
            return attempt, end - begin, float(self.job.duration_s[task, attempt])
        attempt = min(self.running[task])
        elapsed = self.now_s - self.running[task][attempt]
        return attempt, elapsed, math.floor(elapsed + 1e-9) * self.job.window_s

    def mean(self, task: int) -> Any:
        """Mean of the counters, window by window."""
        if task not in self.finished and task not in self.running:
            return np.zeros(len(self.job.counter_names))
        attempt, _, length = self.shown(task)
        parts = [max(min(length - w, 1.0), 0.0) for w in range(self.job.counters.shape[2])]
        total = sum(part * np.float64(self.job.counters[task, attempt, w]) for w, part in enumerate(parts))
        return total / sum(parts) if sum(parts) > 0.0 else np.zeros(len(self.job.counter_names))


JOBS = st.builds(
    lambda seed, n: random_job(np.random.default_rng(seed), n), st.integers(0, 2**32 - 1), st.integers(1, 12)
)
ACTIONS = st.lists(
    st.tuples(st.sampled_from([0.25, 1.0, 1.0, 2.5]), st.integers(0, 2**12 - 1), st.integers(0, 2**12 - 1)),
    min_size=1,
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(JOBS, ACTIONS, st.sampled_from([UNLIMITED, 0, 1, 2, 5]))
def test_it_is_what_a_simple_reference_says(job: Job, actions: Any, spare: int) -> None:
    world, reference = Execution(job, spare), Reference(job, spare)
    for duration_s, killed, copied in actions:
        world.advance(duration_s)
        reference.advance(world.now_s)
        snapshot = world.snapshot()
        for task in range(job.n_tasks):
            if task in reference.finished:
                assert snapshot.state[task] == FINISHED
                assert snapshot.latency_s[task] == pytest.approx(
                    reference.finished[task][0] - job.start_s[task]
                )
                assert snapshot.elapsed_s[task] == 0.0
            else:
                runs = task in reference.running
                assert snapshot.state[task] == (RUNNING if runs else PENDING)
                assert math.isnan(snapshot.latency_s[task])
                elapsed = reference.shown(task)[1] if runs else 0.0
                assert snapshot.elapsed_s[task] == pytest.approx(elapsed)
            assert snapshot.attempts[task] == reference.started.get(task, 0)
            assert snapshot.running_attempts[task] == len(reference.running.get(task, {}))
            assert snapshot.counters_mean[task] == pytest.approx(reference.mean(task), rel=1e-6, abs=1e-12)
        assert world.wasted_s == pytest.approx(reference.wasted_s)
        assert world.useful_s == pytest.approx(reference.useful_s)
        if spare != UNLIMITED:
            assert snapshot.free_machines == reference.free
            assert world.idle_s == pytest.approx(reference.idle_s, abs=1e-9)
        for mask, kill in ((killed, True), (copied, False)):
            tasks = [task for task in range(job.n_tasks) if mask >> task & 1]
            (world.relaunch if kill else world.copy)(tasks)
            reference.request(tasks, kill=kill)


@settings(max_examples=60, deadline=None)
@given(JOBS, ACTIONS, st.sampled_from([UNLIMITED, 0, 1, 5]))
def test_machine_seconds_are_conserved(job: Job, actions: Any, spare: int) -> None:
    world = Execution(job, spare)
    for duration_s, killed, copied in actions:
        world.advance(duration_s)
        assert world.machine_s == pytest.approx(world.used_s + world.idle_s)
        world.relaunch(task for task in range(job.n_tasks) if killed >> task & 1)
        world.copy(task for task in range(job.n_tasks) if copied >> task & 1)
    world.run_to_end()
    assert world.done
    assert world.running_s == 0.0
    assert world.machine_s == pytest.approx(world.useful_s + world.wasted_s + world.idle_s)


@settings(max_examples=60, deadline=None)
@given(JOBS, st.sampled_from([UNLIMITED, 0, 3]), st.sampled_from([0.3, 1.0, 100.0]))
def test_without_action_the_job_takes_its_own_time(job: Job, spare: int, step_s: float) -> None:
    world = Execution(job, spare)
    while not world.done:
        world.advance(step_s)
    assert world.completion_s == job.completion_s
    assert np.array_equal(world.finish_s, job.start_s + job.latency_s)
    assert world.wasted_s == 0.0
    assert world.useful_s == pytest.approx(job.latency_s.sum())
    assert completion_with_relaunch(job, np.full(job.n_tasks, np.inf), spare) == job.completion_s


def test_it_finishes_at_exact_times_within_a_step() -> None:
    world = Execution(make_job([[2.25], [7.5]], start_s=[0.5, 0.0]))
    world.advance(10.0)
    assert world.finish_s.tolist() == [2.75, 7.5]
    assert world.completion_s == 7.5
    assert world.snapshot().latency_s.tolist() == [2.25, 7.5]


def test_a_relaunch_kills_and_starts_the_next_attempt() -> None:
    world = Execution(make_job([[10.0, 3.0, 1.0]]))
    world.advance(2.0)
    assert world.relaunch([0]).tolist() == [0]
    assert world.wasted_s == 2.0
    world.advance(1.0)
    snapshot = world.snapshot()
    assert (snapshot.elapsed_s[0], snapshot.attempts[0], snapshot.running_attempts[0]) == (1.0, 2, 1)
    world.advance(5.0)
    assert (world.completion_s, world.wasted_s, world.useful_s) == (5.0, 2.0, 3.0)


@pytest.mark.parametrize(("second", "end", "waste"), [(3.0, 5.0, 5.0), (20.0, 10.0, 8.0), (8.0, 10.0, 8.0)])
def test_the_first_to_finish_wins_and_the_other_is_waste(second: float, end: float, waste: float) -> None:
    world = Execution(make_job([[10.0, second]]))
    world.advance(2.0)
    world.copy([0])
    world.advance(1.0)
    snapshot = world.snapshot()
    assert (snapshot.elapsed_s[0], snapshot.attempts[0], snapshot.running_attempts[0]) == (3.0, 2, 2)
    world.advance(30.0)
    assert (world.completion_s, world.wasted_s) == (end, waste)


def test_a_finished_task_shows_the_attempt_that_finished() -> None:
    counters = np.zeros((1, 2, 10, 1)) + np.asarray([5.0, 7.0])[:, None, None]
    world = Execution(make_job([[10.0, 2.5]], counters=counters))
    world.advance(2.0)
    world.copy([0])
    world.advance(1.0)
    assert world.snapshot().counters_mean.tolist() == [[5.0]]
    world.advance(2.0)
    assert world.snapshot().counters_mean.tolist() == [[7.0]]


def test_a_relaunch_of_a_copied_task_kills_both() -> None:
    world = Execution(make_job([[10.0, 10.0, 1.0]]))
    world.advance(2.0)
    world.copy([0])
    world.advance(1.0)
    world.relaunch([0])
    world.advance(5.0)
    assert (world.completion_s, world.wasted_s) == (4.0, 4.0)


def test_exhausted_attempts_are_masked_and_ignored() -> None:
    world = Execution(make_job([[10.0, 10.0], [10.0, 10.0]]))
    world.advance(1.0)
    world.relaunch([0])
    assert world.snapshot().can_act.tolist() == [False, True]
    assert world.relaunch([0]).tolist() == []
    assert world.copy([0]).tolist() == []
    world.advance(20.0)
    assert world.finish_s.tolist() == [11.0, 10.0]


def test_what_does_not_run_cannot_be_relaunched() -> None:
    world = Execution(make_job([[1.0, 1.0], [5.0, 1.0], [5.0, 1.0]], start_s=[0.0, 0.0, 3.0]))
    world.advance(2.0)
    assert world.relaunch([0, 1, 1, 2]).tolist() == [1]


def test_a_relaunch_waits_for_a_machine_and_runs_meanwhile() -> None:
    world = Execution(make_job([[4.0, 9.0], [10.0, 2.0], [12.0, 2.0]]), spare_machines=0)
    world.advance(1.0)
    assert world.relaunch([1, 2]).tolist() == [1, 2]
    snapshot = world.snapshot()
    assert snapshot.waiting.tolist() == [False, True, True]
    assert snapshot.can_act.tolist() == [True, False, False]
    assert (snapshot.elapsed_s[1], snapshot.attempts[1], world.wasted_s) == (1.0, 1, 0.0)
    # Task 0 ends at 4 and hands its machine to task 1, which ends at 6 and hands it to task 2.
    world.advance(4.5)
    assert world.snapshot().elapsed_s.tolist() == [0.0, 1.5, 5.5]
    assert world.wasted_s == 4.0
    world.advance(10.0)
    assert world.finish_s.tolist() == [4.0, 6.0, 8.0]
    assert world.wasted_s == 4.0 + 6.0


def test_the_machine_of_a_killed_attempt_is_set_aside() -> None:
    world = Execution(make_job([[10.0, 9.0], [10.0, 2.0]]), spare_machines=1)
    world.advance(1.0)
    world.relaunch([0, 1])
    snapshot = world.snapshot()
    assert snapshot.attempts.tolist() == [2, 1]
    assert snapshot.free_machines == 0


def test_a_request_lapses_when_the_task_finishes_first() -> None:
    world = Execution(make_job([[4.0, 1.0], [10.0, 1.0]]), spare_machines=0)
    world.advance(1.0)
    world.relaunch([0])
    world.run_to_end()
    assert world.finish_s.tolist() == [4.0, 10.0]
    assert (world.relaunches, world.wasted_s) == (0, 0.0)


def test_completion_with_relaunch_by_hand() -> None:
    job = make_job([[4.0, 9.0], [10.0, 2.0], [12.0, 2.0]])
    flags = np.asarray([np.inf, 1.0, 1.0])
    assert completion_with_relaunch(job, flags) == 4.0
    assert completion_with_relaunch(job, flags, spare_machines=1) == 5.0
    assert completion_with_relaunch(job, flags, spare_machines=0) == 8.0
    assert completion_with_relaunch(job, np.asarray([0.0, np.inf, np.inf])) == 12.0


def test_a_negative_number_of_machines_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected -1"):
        Execution(make_job([[1.0]]), spare_machines=-2)


def test_ten_thousand_tasks_take_milliseconds() -> None:
    """A guard against quadratic work: the limit is far above the few milliseconds that it takes."""
    rng = np.random.default_rng(0)
    n, windows = 10_000, 30
    duration = np.minimum(rng.lognormal(2.3, 0.3, (n, 2)), windows)
    job = make_job(duration, counters=rng.random((n, 2, windows, 15), dtype=np.float32))
    world = Execution(job, spare_machines=100)
    began = time.process_time()
    for _ in range(20):
        world.advance(1.0)
        world.relaunch(range(0, n, 97))
        world.snapshot()
    assert (time.process_time() - began) / 20 < 0.1
