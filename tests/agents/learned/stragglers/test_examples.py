"""Training examples from jobs, compared with known values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.agents.learned.stragglers.examples import Examples, collect
from sysgym.agents.learned.stragglers.features import feature_names
from sysgym.emulator.cluster.job import Job
from sysgym.scenarios import StragglerScenario
from sysgym.scenarios.errors import SysgymError

MakeJob = Callable[..., Job]


@pytest.fixture(scope="module")
def job(make_job: MakeJob) -> Job:
    """Ten tasks in windows of half a second, one of which starts late; the last one straggles."""
    latency_s = [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0, 6.0]
    start_s = [0.0] * 8 + [0.5, 0.0]
    return make_job(latency_s, 2.0, start_s=start_s, window_s=0.5)


@pytest.fixture(scope="module")
def examples(roomy: StragglerScenario, job: Job, make_source: Any) -> Examples:
    """One watching of the job."""
    return collect(roomy, 1, 0, source=make_source(job))


def equal(a: Examples, b: Examples) -> bool:
    """Return whether two lists of examples are the same."""
    return all(np.array_equal(value, vars(b)[name]) for name, value in vars(a).items())


def test_a_row_for_every_running_task_at_every_checkpoint(examples: Examples, job: Job) -> None:
    # The first decision is when the first task has finished, at 1 s; the job ends at 6 s.
    expected = [
        (task, checkpoint)
        for checkpoint in range(10)
        for task in range(10)
        if job.start_s[task] + job.latency_s[task] > 1.0 + 0.5 * checkpoint
    ]
    assert list(zip(examples.task.tolist(), examples.checkpoint.tolist(), strict=True)) == expected
    assert set(examples.job) == set(examples.group) == {0}
    assert examples.features.shape == (len(expected), len(feature_names(job.counter_names)))
    assert examples.counter_names == job.counter_names


def test_labels_and_savings_are_the_jobs_own(examples: Examples, job: Job) -> None:
    # Of ten latencies the quantile 0.9 is a tenth of the way from the second longest to the longest.
    threshold_s = float(np.quantile(job.latency_s, 0.9))
    assert threshold_s == pytest.approx(3.3)
    assert np.array_equal(examples.straggler, examples.task == 9)
    now_s = 1.0 + 0.5 * examples.checkpoint
    elapsed_s = now_s - job.start_s[examples.task]
    assert examples.elapsed_share == pytest.approx(elapsed_s / threshold_s)
    assert np.array_equal(examples.in_time, elapsed_s < threshold_s)
    assert examples.now == pytest.approx(now_s / 0.5)
    assert examples.elapsed == pytest.approx(elapsed_s / 0.5)
    assert examples.remaining == pytest.approx((job.latency_s[examples.task] - elapsed_s) / 0.5)
    assert (examples.again == 4.0).all()
    assert (examples.completion == 12.0).all()
    assert (examples.n_tasks == 10).all()
    straggler = examples.where(examples.task == 9)
    assert straggler.in_time.tolist() == [True] * 5 + [False] * 5


def test_a_second_attempt_shortens_the_job_if_it_cures_the_last_task(examples: Examples) -> None:
    # At 1 s all others can have ended after 2 s: seven by themselves after 1 s, the late one by a second
    # attempt. At 2 s only the late one runs, for another 1.5 s.
    straggler = examples.where(examples.task == 9)
    assert straggler.others_end.tolist()[:4] == [4.0, 4.0, 3.0, 2.0]
    assert straggler.others_end.tolist()[5:] == [0.0] * 5
    # Left alone it ends at 6 s. At 4 s a second attempt would end just then: nothing is saved.
    assert straggler.shortens.tolist() == [True] * 6 + [False] * 4
    # The late one would end at 3.5 s, or at 3 s if it were begun anew at 1 s: the straggler ends at 3 s too.
    late = examples.where(examples.task == 8)
    assert late.shortens.tolist() == [True] + [False] * (len(late.task) - 1)
    assert not examples.where(examples.task < 8).shortens.any()


@pytest.mark.parametrize("window_s", [0.1, 0.3, 0.7, 1.0 / 3.0])
def test_in_time_is_what_the_environment_pays_for(
    make_job: MakeJob, make_source: Any, make_env: Any, roomy: StragglerScenario, window_s: float
) -> None:
    """Also where a checkpoint falls on the threshold, but for the last bits."""
    windows = np.array([1, 5, 5, 5, 5, 9])
    source = make_source(make_job(windows * window_s, window_s=window_s, start_s=np.arange(6) * window_s))
    scenario = roomy.with_overrides({"straggler.value": 0.5})
    seen = collect(scenario, 1, 0, source=source)
    env = make_env("prediction", scenario=scenario, source=source).unwrapped
    for checkpoint in np.unique(seen.checkpoint):
        rows = seen.where(seen.checkpoint == checkpoint)
        env.reset(seed=0)
        for _ in range(checkpoint):
            env.step(np.zeros(60, np.int8))
        env.step(np.ones(60, np.int8))
        assert np.array_equal(env.flags.true[rows.task], rows.straggler & rows.in_time)


def test_a_job_without_second_attempts_has_no_cure(
    make_job: MakeJob, make_source: Any, roomy: StragglerScenario
) -> None:
    job = make_job([1.0, 2.0, 3.0, 30.0])
    seen = collect(roomy, 1, 0, source=make_source(job))
    assert np.isinf(seen.again).all()
    assert not seen.shortens.any()


def test_a_job_that_has_not_begun_shows_nothing(
    make_job: MakeJob, make_source: Any, roomy: StragglerScenario
) -> None:
    job = make_job([2.0, 3.0], start_s=[3.0, 4.0])
    scenario = roomy.with_overrides({"control.warmup_fraction": 0.0})
    seen = collect(scenario, 1, 0, source=make_source(job))
    assert seen.checkpoint.min() == 3


def test_jobs_are_watched_to_their_end_and_progress_is_told(
    roomy: StragglerScenario, job: Job, make_source: Any
) -> None:
    told: list[int] = []
    seen = collect(roomy, 11, 0, told.append, make_source(job))
    assert told == [10, 11]
    assert np.unique(seen.job).tolist() == [0, 1]
    assert (np.bincount(seen.job) == len(seen.job) / 2).all()


def test_a_job_seen_again_is_known_by_its_name(
    roomy: StragglerScenario, make_job: MakeJob, make_source: Any
) -> None:
    source = make_source(lambda seed: make_job([1.0, 2.0, 3.0, 9.0], name=f"job {seed % 2}"))
    seen = collect(roomy, 80, 0, source=source)
    # The first question was for the counters' names, the last job was not watched any more.
    names = [seed % 2 for _, seed in source.asked[1:-1]]
    assert len(np.unique(seen.job)) == len(names)
    assert np.unique(seen.group).tolist() == [0, 1]
    group_of = {episode: group for episode, group in zip(seen.job, seen.group, strict=True)}
    assert all((group_of[episode] == group_of[0]) == (name == names[0]) for episode, name in enumerate(names))


def test_the_train_split_only(
    small: StragglerScenario, revealing_jobs: Any, roomy: StragglerScenario
) -> None:
    collect(roomy, 100, 0, source=revealing_jobs)
    first, last = small.splits["train"].seeds
    # The first job is asked for its counters, which are the source's own.
    assert len(revealing_jobs.asked) > 3
    assert {split for split, _ in revealing_jobs.asked} == {"train"}
    assert all(first <= seed <= last for _, seed in revealing_jobs.asked)


def test_same_seed_same_examples(small: StragglerScenario) -> None:
    once = collect(small, 60, 5)
    assert equal(once, collect(small, 60, 5))
    assert not equal(once, collect(small, 60, 6))


def test_a_task_key_is_one_task_of_one_job(small: StragglerScenario) -> None:
    seen = collect(small, 60, 0)
    pairs = {(int(job), int(task)) for job, task in zip(seen.job, seen.task, strict=True)}
    assert len(np.unique(seen.task_key)) == len(pairs)
    straggling = {
        (int(key), bool(straggler)) for key, straggler in zip(seen.task_key, seen.straggler, strict=True)
    }
    assert len(straggling) == len(pairs), "a task is a straggler or is not"


def test_nothing_cannot_be_watched(small: StragglerScenario) -> None:
    with pytest.raises(SysgymError, match="expected at least 1, got 0"):
        collect(small, 0, 0)
