"""Rewards and metrics on jobs small enough to compute by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.cluster.execution import Execution
from sysgym.emulator.cluster.job import Job
from sysgym.envs.stragglers.ceiling import best_completion_s
from sysgym.envs.stragglers.mitigation import COPY, NOTHING, RELAUNCH
from sysgym.envs.stragglers.view import JobView

MakeEnv = Callable[..., Any]
MakeJob = Callable[..., Job]
Policy = Callable[[JobView], Iterable[int]]

# Ten tasks; the last two are stragglers at 1.5 times the median, which is 8.
TEN = [2.0, 4.0, 6.0, 7.0, 7.9, 8.1, 9.0, 10.0, 16.0, 20.0]
MULTIPLE = {"straggler.definition": "median_multiple", "straggler.value": 1.5}


def play(env: Any, actions: dict[int, dict[int, int]] | Policy) -> tuple[float, dict[str, Any], list[Any]]:
    """Play an episode; returns its return, the last info, and the reward terms of all steps.

    Actions are given as checkpoint -> {task: action}, or as a function of the view that names tasks to flag.
    """
    observation, _ = env.reset(seed=0)
    total, terms, over, checkpoint = 0.0, [], False, 0
    info: dict[str, Any] = {}
    while not over:
        action = np.zeros(env.action_space.shape, np.int8)
        chosen = (
            {task: 1 for task in actions(JobView.of(observation))}
            if callable(actions)
            else actions.get(checkpoint, {})
        )
        for task, what in chosen.items():
            action[task] = what
        observation, reward, over, _, info = env.step(action)
        total += reward
        terms.append(info["reward_terms"])
        checkpoint += 1
    return total, info, terms


@pytest.fixture
def ten(make_env: MakeEnv, make_job: MakeJob) -> Any:
    """Prediction on the ten tasks; the first decision is at 2 s, the threshold at 12 s."""
    return make_env("prediction", make_job(TEN, [5.0]), overrides=MULTIPLE)


def test_flags_by_hand(ten: Any) -> None:
    # At 2 s task 5 is flagged falsely; at 8 s task 8 in time; at 13 s task 9 too late.
    total, info, terms = play(ten, {0: {5: 1}, 6: {8: 1}, 11: {9: 1}})
    assert ten.threshold_s == pytest.approx(12.0)
    # Seven others had not finished at the first decision.
    assert terms[0] == pytest.approx({"true_flags": 0.0, "false_flags": -1 / 7, "missed": 0.0})
    assert terms[6] == pytest.approx({"true_flags": (12 - 8) / 12 / 2, "false_flags": 0.0, "missed": 0.0})
    assert terms[11] == pytest.approx({"true_flags": 0.0, "false_flags": 0.0, "missed": 0.0})
    assert terms[-1] == pytest.approx({"true_flags": 0.0, "false_flags": 0.0, "missed": -0.5})
    assert total == pytest.approx(1 / 6 - 1 / 7 - 0.5)
    metrics = info["episode_metrics"]
    expected = {
        "n_tasks": 10.0,
        "stragglers": 2.0,
        "threshold_s": 12.0,
        "tpr": 0.5,
        "recall": 0.5,
        "fnr": 0.5,
        "fpr": 1 / 8,
        "precision": 0.5,
        "f1": 0.5,
        # Task 5's flag came at 2 s, 17 % of the threshold, task 8's at 8 s, 67 %, task 9's after it.
        "f1_at_10": 0.0,
        "f1_at_20": 0.0,
        "f1_at_60": 0.0,
        "f1_at_70": 0.5,
        "f1_at_100": 0.5,
        # Nothing up to 60 %, then four tenths of 0.5.
        "f1_over_time": 0.2,
        "tpr_at_60": 0.0,
        "tpr_at_70": 0.5,
        "fpr_at_10": 0.0,
        "fpr_at_20": 1 / 8,
        "fpr_at_100": 1 / 8,
        "precision_at_20": 0.0,
        "precision_at_70": 0.5,
        "true_flags": 1.0,
        "false_flags": 1.0,
        "late_flags": 1.0,
        "lead_time_mean_s": 4.0,
        "lead_time_mean": 1 / 3,
        # The quantiles .95 and .99 of the latencies are 18.2 and 19.64.
        "recall_p99_max": 0.0,
        "completion_s": 20.0,
        "completion_unaided_s": 20.0,
        # Relaunched when flagged, task 5 ends at 7, task 8 at 13 and task 9 at 18.
        "completion_reduction_unlimited": 0.1,
        # Relaunched at once, at 2 s, all would end by 10 at the latest, or at 7.
        "completion_reduction_unlimited_oracle": 1.0 - 7.0 / 20.0,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    # Nobody is there: 16 s lies below the quantile .9, 16.4 s.
    assert "recall_p90_p95" not in metrics
    assert "recall_p95_p99" not in metrics
    # Before the first flag there is none to be precise.
    assert "precision_at_10" not in metrics


@pytest.mark.parametrize("waits_s", [3.0, 12.0, 40.0])
def test_time_in_a_queue_does_not_count(
    make_env: MakeEnv, make_job: MakeJob, ten: Any, waits_s: float
) -> None:
    """The whole job waits for machines: the same flags at the same ages of tasks have the same scores."""
    actions = {0: {9: 1}, 1: {5: 1}, 6: {8: 1}}
    expected = play(ten, actions)[1]["episode_metrics"]
    waiting = make_env("prediction", make_job(TEN, [5.0], start_s=waits_s), overrides=MULTIPLE)
    metrics = play(waiting, actions)[1]["episode_metrics"]
    assert expected["f1_over_time"] > 0.5
    for name, value in expected.items():
        if "completion" not in name:
            assert metrics[name] == pytest.approx(value), name


def test_flags_of_tasks_that_start_later_are_not_late(make_env: MakeEnv, make_job: MakeJob) -> None:
    """Tasks begin in waves; each straggler is flagged a second after its start."""
    start_s = [0.0, 0.0, 0.0, 0.0, 10.0, 10.0, 10.0, 20.0, 0.0, 30.0]
    env = make_env("prediction", make_job(TEN, start_s=start_s), overrides=MULTIPLE)
    metrics = play(env, lambda view: [task for task in (8, 9) if view.elapsed[task] >= 1.0])[1][
        "episode_metrics"
    ]
    # The first decision is at 2 s, 17 % of the threshold; the flag at 31 s is that of a task of 1 s.
    assert [metrics[f"tpr_at_{percent}"] for percent in (10, 20, 100)] == [0.5, 1.0, 1.0]
    assert metrics["f1_over_time"] == pytest.approx((2 / 3 + 9) / 10)


def test_machines_limit_what_flags_are_worth(make_env: MakeEnv, make_job: MakeJob) -> None:
    env = make_env(
        "prediction",
        make_job(TEN, [5.0]),
        overrides=MULTIPLE | {"mitigation.spare_machines": 0},
    )
    # Flagged at 2 s, with task 0's machine free: task 9 is on it up to 7; task 8 gets task 1's at 4, up to 9.
    metrics = play(env, {0: {9: 1}, 1: {8: 1}})[1]["episode_metrics"]
    assert metrics["completion_reduction_unlimited"] == pytest.approx(0.5)
    assert metrics["completion_reduction_limited"] == pytest.approx(0.5)
    metrics = play(env, {0: {7: 1, 8: 1, 9: 1}})[1]["episode_metrics"]
    # By index: 7 at 2 s up to 7; 8 at 4 s up to 9; 9 waits for task 2's machine, 6 s, up to 11.
    assert metrics["completion_reduction_limited"] == pytest.approx(1.0 - 11.0 / 20.0)


def test_the_oracle_is_right_about_everything(ten: Any) -> None:
    total, info, _ = play(ten, lambda view: [8, 9])
    metrics = info["episode_metrics"]
    assert [metrics[name] for name in ("recall", "precision", "f1", "fpr", "late_flags")] == [1, 1, 1, 0, 0]
    assert total == pytest.approx(10 / 12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 3.0, 30.0]), st.sampled_from([0.0, 0.04, 0.5]))
def test_flagging_all_or_nothing_is_worth_nothing(
    make_env: MakeEnv, make_random_job: MakeJob, seed: int, starts: float, warmup: float
) -> None:
    job = make_random_job(seed, starts=starts)
    env = make_env("prediction", job, overrides={"control.warmup_fraction": warmup})
    nothing, info, _ = play(env, {})
    assert nothing == pytest.approx(-1.0)
    assert info["episode_metrics"]["f1"] == 0.0
    assert "precision" not in info["episode_metrics"]
    everything, _, terms = play(env, lambda view: range(view.n_tasks))
    assert everything <= 1e-12
    assert max(abs(value) for step in terms for value in step.values()) <= 1.0 + 1e-12
    stragglers = np.flatnonzero(env.flags.stragglers)
    right, info, _ = play(env, lambda view: stragglers)
    # Who knows the answer misses only those that were late already when the warm-up was over.
    in_time = env.first_decision_s - job.start_s[stragglers] < env.threshold_s
    assert info["episode_metrics"]["recall"] == pytest.approx(in_time.mean())
    assert info["episode_metrics"]["fpr"] == 0.0
    assert info["episode_metrics"].get("precision", 1.0) == 1.0
    assert right > 0.0 or not in_time.all()


def test_flags_latch_and_only_running_tasks_take_them(make_env: MakeEnv, make_job: MakeJob) -> None:
    job = make_job([2.0, 5.0, 9.0, 9.0], start_s=[0.0, 0.0, 0.0, 4.0])
    env = make_env("prediction", job)
    env.reset(seed=0)
    everything = np.ones(40, np.int8)
    env.step(everything)
    assert env.flags.flagged.tolist() == [False, True, True, False]
    env.step(np.zeros(40, np.int8))
    assert env.flags.flagged.tolist() == [False, True, True, False]
    env.step(everything)
    assert env.flags.raised_s.tolist() == [np.inf, 2.0, 2.0, 4.0]


def test_a_job_without_stragglers_has_no_recall(make_env: MakeEnv, make_job: MakeJob) -> None:
    env = make_env("prediction", make_job([4.0, 4.0, 4.2, 5.0]), overrides=MULTIPLE)
    total, info, _ = play(env, {})
    assert total == 0.0
    assert not {"tpr", "recall", "fnr", "f1", "precision"} & set(info["episode_metrics"])
    assert info["episode_metrics"]["fpr"] == 0.0


@pytest.mark.parametrize("spare", [-1, 0, 2])
def test_doing_nothing_costs_the_jobs_own_time(make_env: MakeEnv, make_job: MakeJob, spare: int) -> None:
    env = make_env("mitigation", make_job(TEN, [5.0]), overrides={"mitigation.spare_machines": spare})
    total, info, terms = play(env, {})
    assert total == pytest.approx(-1.0)
    # The first step pays for the warm-up of 2 s and for its own second.
    assert terms[0] == pytest.approx({"time": -3.0 / 20.0, "waste": 0.0})
    assert info["episode_metrics"]["completion_reduction"] == 0.0
    assert info["episode_metrics"]["waste_share"] == 0.0


def test_mitigation_by_hand(make_env: MakeEnv, make_job: MakeJob) -> None:
    env = make_env(
        "mitigation",
        make_job(TEN, [5.5, 1.0]),
        overrides=MULTIPLE | {"mitigation.waste_price": 0.5, "mitigation.attempts": 3},
    )
    # At 2 s task 9 is relaunched (2 s wasted) and ends at 7.5; at 3 s task 8 is copied, the copy ends at 8.5
    # and the original loses 8.5 s. Task 7 ends the job at 10.
    total, info, _ = play(env, {0: {9: 1}, 1: {8: 2}})
    metrics = info["episode_metrics"]
    assert metrics["completion_s"] == 10.0
    assert metrics["completion_reduction"] == pytest.approx(0.5)
    # A second attempt of every task at 2 s, and a third at 3 s, which ends at 4.
    assert metrics["completion_reduction_oracle"] == pytest.approx(1.0 - 4.0 / 20.0)
    assert metrics["waste_share"] == pytest.approx(10.5 / sum(TEN))
    assert (metrics["relaunches"], metrics["copies"]) == (1.0, 1.0)
    assert metrics["recall"] == 1.0
    assert total == pytest.approx(-(10.0 + 0.5 * 10.5 / 10) / 20.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([-1, 0, 2]), st.sampled_from([2, 200]), st.floats(0.0, 0.3))
def test_a_return_is_completion_time_and_waste(
    make_env: MakeEnv, make_random_job: MakeJob, seed: int, spare: int, most: int, rate: float
) -> None:
    job = make_random_job(seed)
    rule = {
        "mitigation.spare_machines": spare,
        "mitigation.waste_price": 0.3,
        "control.max_checkpoints": most,
    }
    env = make_env("mitigation", job, overrides=rule)
    rng = np.random.default_rng(seed)
    actions = {
        step: {int(task): int(rng.integers(1, 3)) for task in np.flatnonzero(rng.random(30) < rate)}
        for step in range(60)
    }
    total, info, _ = play(env, actions)
    waste_s = env.world.wasted_s / job.n_tasks
    assert total == pytest.approx(-(env.world.completion_s + 0.3 * waste_s) / job.completion_s)
    assert info["episode_metrics"]["completion_s"] == env.world.completion_s
    # Without a limit on machines it is a bound for anybody.
    if spare == -1:
        assert best_completion_s(job, env.first_decision_s, -1) <= env.world.completion_s + 1e-9


def test_what_the_mask_excludes_has_no_effect(make_env: MakeEnv, make_job: MakeJob) -> None:
    job = make_job([2.0, 30.0, 30.0, 30.0], [20.0], start_s=[0.0, 0.0, 0.0, 9.0])
    env = make_env("mitigation", job, overrides={"mitigation.spare_machines": 0, "mitigation.attempts": 2})
    assert JobView.of(env.reset(seed=0)[0]).can_act.tolist() == [False, True, True, False]
    relaunch = np.ones(40, np.int64)
    view = JobView.of(env.step(relaunch)[0])
    # Task 0's machine goes to task 1, which has no attempt left; task 2 waits; task 3 has not started.
    assert view.can_act.tolist() == [False] * 4
    assert view.flagged.tolist() == [False, True, True, False]
    assert view.attempts.tolist() == [1, 2, 1, 0]
    assert view.elapsed.tolist() == [0.0, 1.0, 3.0, 0.0]
    assert env.step(relaunch)[4]["metrics"]["waiting_tasks"] == 1.0


def test_actions_can_be_rationed(make_env: MakeEnv, make_job: MakeJob) -> None:
    env = make_env(
        "mitigation",
        make_job([1.0, 30.0, 30.0, 30.0], [20.0, 5.0]),
        overrides={"mitigation.actions_per_checkpoint": 2},
    )
    env.reset(seed=0)
    action = np.zeros(40, np.int64)
    action[[0, 1, 2, 3]] = [1, 2, 1, 1]
    metrics = env.step(action)[4]["metrics"]
    assert (metrics["copies"], metrics["relaunches"]) == (1.0, 1.0)
    assert env.flags.flagged.tolist() == [False, True, True, False]


def test_the_best_completion_by_hand(make_job: MakeJob) -> None:
    job = make_job([4.0, 10.0, 12.0], [[9.0, 2.0, 2.0]])
    assert best_completion_s(job, 1.0, -1) == 4.0
    # One spare machine: task 2 on it up to 3, and then its machine, or that of task 0 from 4 on, for task 1.
    assert best_completion_s(job, 1.0, 1) == 5.0
    assert best_completion_s(job, 1.0, 0) == pytest.approx(8.0)
    assert best_completion_s(make_job([4.0, 10.0]), 1.0, -1) == 10.0


def best_of_all_policies_s(world: Execution) -> float:
    """Return the earliest completion over every sequence of actions, one for each task and checkpoint."""
    if world.done:
        return world.completion_s
    able = world.can_act()
    choices = [(NOTHING, RELAUNCH, COPY) if can_act else (NOTHING,) for can_act in able]
    if not able.any() and (world.job.start_s <= world.now_s).all():
        world.run_to_end()
        return world.completion_s
    best_s = np.inf
    for actions in itertools.product(*choices):
        tried = deepcopy(world)
        for act, name in ((tried.relaunch, RELAUNCH), (tried.copy, COPY)):
            act([task for task, action in enumerate(actions) if action == name])
        tried.advance(world.job.window_s)
        best_s = min(best_s, best_of_all_policies_s(tried))
    return best_s


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=2),
    st.integers(0, 2),
)
def test_without_a_limit_the_best_completion_is_that_of_all_policies(
    make_job: MakeJob, durations_s: list[tuple[int, int, int]], start_s: int
) -> None:
    first_s, *later_s = np.array(durations_s, np.float64).T
    starts_s = np.append(0.0, np.full(len(first_s) - 1, start_s))
    job = make_job(first_s, later_s, start_s=starts_s)
    world = Execution(job)
    world.advance(1.0)
    assert best_completion_s(job, 1.0, -1) == pytest.approx(best_of_all_policies_s(world))


def test_a_third_attempt_begins_a_window_after_the_second(make_job: MakeJob) -> None:
    job = make_job([20.0], [[15.0], [3.0]])
    assert best_completion_s(job, 1.0, -1) == 5.0
    assert best_completion_s(job, 1.0, -1, copies=False) == 16.0


def test_flagging_everything_pays_where_nothing_else_is_left(make_env: MakeEnv, make_job: MakeJob) -> None:
    total, _, _ = play(make_env("prediction", make_job([3.0, 9.0])), lambda view: range(view.n_tasks))
    # The quantile 0.9 is 8.4 s, and the first decision is at 3 s.
    assert total == pytest.approx((8.4 - 3.0) / 8.4)
