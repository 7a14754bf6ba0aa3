"""Rules, compared with results computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import lognorm

from sysgym.agents import make_agent
from sysgym.agents.stragglers.rules import fit_log_normal, probability_of_saving
from sysgym.emulator.cluster.job import Job
from sysgym.envs.stragglers.view import JobView

ViewOf = Callable[..., JobView]


def flags(name: str, view: JobView, **arguments: Any) -> list[int]:
    agent: Any = make_agent(name, **arguments)
    return np.flatnonzero(agent.predict(view)).tolist()


def test_spark_waits_for_its_quantile_and_compares_with_the_median(view_of: ViewOf) -> None:
    latency = {0: 2.0, 1: 3.0, 2: 4.0, 3: 5.0, 4: 6.0, 5: 40.0}
    view = view_of(np.zeros(8), latency=latency, elapsed={6: 6.75, 7: 6.76})
    # Three quarters have finished, and 1.5 times their median 4.5 is 6.75: more is needed.
    assert flags("spark", view) == [7]
    assert flags("spark", view, multiplier=1.0) == [6, 7]
    assert flags("spark", view, quantile=0.76) == []


def test_the_clock_flags_what_has_nearly_run_for_the_threshold(view_of: ViewOf) -> None:
    elapsed = {1: 9.4, 2: 9.5, 3: 12.0}
    view = view_of(np.zeros(4), latency={0: 4.0}, elapsed=elapsed, threshold=10.0)
    assert flags("clock", view) == [2, 3]
    assert flags("clock", view, share=0.94) == [1, 2, 3]
    # Without a threshold: 1.5 times the median of the finished.
    assert flags("clock", view_of(np.zeros(2), latency={0: 4.0}, elapsed={1: 5.7})) == [1]
    assert flags("clock", view_of(np.zeros(2), latency={0: 4.0}, elapsed={1: 5.69})) == []


def test_late_takes_the_longest_up_to_its_cap(view_of: ViewOf) -> None:
    latency = {task: 3.0 for task in range(15)}
    elapsed = {15: 4.0, 16: 6.0, 17: 5.0, 18: 7.0, 19: 2.0}
    view = view_of(np.zeros(20), latency=latency, elapsed=elapsed)
    # A tenth of twenty: two of the four that are slower than three quarters of all.
    assert flags("late", view) == [16, 18]
    assert flags("late", view, cap=0.15) == [16, 17, 18]
    flagged = view_of(np.zeros(20), latency=latency, elapsed=elapsed, flagged=(18,))
    assert flags("late", flagged) == [16]


def test_late_calls_nobody_slow_while_most_run(view_of: ViewOf) -> None:
    view = view_of(np.zeros(8), latency={0: 3.0}, elapsed={task: 4.0 for task in range(1, 8)})
    assert flags("late", view) == []


def test_log_normal_fit_without_running_tasks_is_the_sample(view_of: ViewOf) -> None:
    finished = np.exp([0.0, 1.0, 2.0, 5.0])
    mean, sd = fit_log_normal(finished, np.zeros(0))
    assert mean == pytest.approx(2.0, abs=1e-3)
    assert sd == pytest.approx(np.std([0.0, 1.0, 2.0, 5.0]), rel=1e-3)


def test_log_normal_fit_sees_through_censoring() -> None:
    times = np.exp(np.random.default_rng(0).normal(2.0, 0.5, 4000))
    limit = np.quantile(times, 0.4)
    mean, sd = fit_log_normal(times[times < limit], np.full((times >= limit).sum(), limit))
    assert mean == pytest.approx(2.0, abs=0.03)
    assert sd == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("elapsed", [0.5, 8.0, 60.0])
def test_the_probability_of_saving_is_that_of_draws(elapsed: float) -> None:
    law = lognorm(0.9, scale=np.exp(1.5))
    rng = np.random.default_rng(0)
    whole = law.isf(law.sf(elapsed) * rng.uniform(size=200_000))
    fresh = law.rvs(200_000, random_state=rng)
    drawn = np.mean(whole - elapsed > 2.0 * fresh)
    assert probability_of_saving(np.array([elapsed]), 1.5, 0.9, 2.0)[0] == pytest.approx(drawn, abs=0.01)


def test_mantri_restarts_under_a_heavy_tail_and_not_under_a_light_one(view_of: ViewOf) -> None:
    quantiles = (np.arange(30) + 0.5) / 40
    for spread, expected in ((0.6, [30]), (0.2, [])):
        latency = dict(enumerate(lognorm(spread, scale=10.0).ppf(quantiles)))
        last = max(latency.values())
        elapsed = {30: 8.0 * last} | {task: 0.01 * last for task in range(31, 40)}
        assert flags("mantri", view_of(np.zeros(40), latency=latency, elapsed=elapsed)) == expected


def test_random_rate_is_its_rate_and_the_seeds(contended_job: Job, stage: Any) -> None:
    agent: Any = make_agent("random_rate", rate=0.25)
    env = stage(contended_job)
    drawn = []
    for seed in range(60):
        env.reset(options={"episode_seed": seed})
        agent.begin(env)
        drawn.append(agent._drawn)
    assert np.mean(drawn) == pytest.approx(0.25, abs=0.02)
    assert not np.array_equal(drawn[0], drawn[1])
    env.reset(options={"episode_seed": 0})
    agent.begin(env)
    assert np.array_equal(agent._drawn, drawn[0])


def test_dolly_copies_small_jobs_whole_and_only_where_it_can(
    contended_job: Job, stage: Any, play: Any
) -> None:
    observation = play(contended_job)[0]
    dolly = make_agent("dolly", tasks_max=100)
    dolly.begin(stage(contended_job, mitigates=True))
    assert np.array_equal(dolly.act(observation), 2 * observation["mask"])
    small = make_agent("dolly")
    small.begin(stage(contended_job, mitigates=True))
    assert not small.act(observation).any(), "a hundred tasks are no small job"
    dolly.begin(stage(contended_job))
    assert not dolly.act(observation).any()
