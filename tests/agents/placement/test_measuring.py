"""Rules for measuring: tables by hand, the budget, and their results over many episodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sysgym.agents import make_agent, play_episode
from sysgym.agents.placement.base import Choice, JointView

Play = Callable[..., tuple[Any, float, dict[str, float]]]
MEASURING = ["topk", "ucb", "bayes"]
JOINT = "joint-unseen"
MATCHED = "joint-unseen-matched"


def view_of(nominal: list[float], levels: list[list[float]], **known: Any) -> JointView:
    """Candidates of all-reduces alone: levels may be slower than nominal, collectives are not."""
    k = len(nominal)
    base = JointView(
        nominal=np.array(nominal),
        level_shares=np.array(levels),
        collective_shares=np.eye(5)[[0] * k] * np.sum(levels, axis=1, keepdims=True),
        count=np.zeros(k, np.int64),
        mean=np.zeros(k),
        left=20,
        price=0.01,
        noise_sd=0.05,
        level_sd=0.4,
        collective_sd=0.0,
        background=0.0,
        background_sd=0.0,
    )
    arrays = {name: np.asarray(value) for name, value in known.items() if isinstance(value, list)}
    return replace(base, **(known | arrays))


def choose(name: str, view: JointView, **parameters: Any) -> Choice:
    agent: Any = make_agent(name, family="placement", **parameters)
    choice: Choice = agent.choose(view)
    return choice


def test_an_observation_is_read_by_name(make_env: Callable[..., Any]) -> None:
    env = make_env(MATCHED)
    observation, _ = env.reset(options={"episode_seed": 20_003})
    view, world = JointView.of(observation), env.unwrapped
    assert view.n_candidates == len(world.candidates)
    times = world.candidates.times[world.order]
    n_levels = world.problem.hierarchy.n_levels
    assert view.level_shares[:, :n_levels] == pytest.approx(times.level_shares, abs=1e-6)
    assert view.collective_shares == pytest.approx(times.collective_shares, abs=1e-6)
    assert (view.left, view.count.sum()) == (world.joint.budget, 0)
    joint = world.joint
    assert [view.price, view.noise_sd] == pytest.approx([joint.measurement_price, joint.noise_log_sd])
    assert [view.level_sd, view.collective_sd] == pytest.approx(
        [joint.bandwidth_log_sd, joint.collective_log_sd]
    )
    assert [view.background, view.background_sd] == pytest.approx(
        [joint.background_share_mean, joint.background_share_sd]
    )
    observation, *_ = env.step(2)
    after = JointView.of(observation)
    assert after.left == world.joint.budget - 1
    assert after.count.tolist() == [int(row == 2) for row in range(view.n_candidates)]
    assert after.mean[2] == pytest.approx(
        np.log(world.measured_s[2][0] / world.candidates.default_times.nominal_s[0])
    )


def test_topk_measures_in_turns_and_takes_the_best_mean() -> None:
    nominal, levels = [0.3, 0.0, 0.1, 0.2], [[1.0, 0.0]] * 4
    view = view_of(nominal, levels)
    assert choose("topk", view, measured=2) == Choice(1, commit=False)
    assert choose("topk", replace(view, count=np.array([0, 1, 0, 0])), measured=2) == Choice(2, commit=False)
    done = replace(view, count=np.array([0, 1, 1, 0]), mean=np.array([0.0, 0.2, 0.1, 0.0]))
    assert choose("topk", done, measured=2) == Choice(2, commit=True)
    assert choose("topk", done, measured=2, repeats=2) == Choice(1, commit=False)
    # The budget ends in the middle of a turn: what has been measured counts.
    assert choose(
        "topk", replace(view_of(nominal, levels, count=[0, 1, 0, 0]), left=0), measured=2
    ) == Choice(1, commit=True)
    assert choose("topk", replace(view, left=0)) == Choice(1, commit=True)


def test_ucb_measures_the_most_hopeful_and_stops_when_it_does_not_pay() -> None:
    levels = [[1.0, 0.0]] * 3
    view = view_of([0.0, 0.02, 0.5], levels)
    assert choose("ucb", view) == Choice(0, commit=False)
    # Measured as slow: now the second may be better.
    slow = replace(view, count=np.array([2, 0, 0]), mean=np.array([0.1, 0.0, 0.0]))
    assert choose("ucb", slow) == Choice(1, commit=False)
    # Measured as fast: others may be so too, and a look at the second says that they are not.
    fast = replace(view, count=np.array([2, 0, 0]), mean=np.array([-0.3, 0.0, 0.0]))
    assert choose("ucb", fast) == Choice(1, commit=False)
    both = replace(view, count=np.array([2, 2, 0]), mean=np.array([-0.3, 0.0, 0.0]))
    assert choose("ucb", both) == Choice(0, commit=True)
    assert choose("ucb", replace(view, price=0.5)) == Choice(0, commit=True)
    assert choose("ucb", replace(view, left=0)) == Choice(0, commit=True)


def test_bayes_does_not_measure_what_moves_all_alike() -> None:
    assert choose("bayes", view_of([0.0, 0.05, 0.1], [[1.0, 0.0]] * 3)) == Choice(0, commit=True)
    assert choose("ucb", view_of([0.0, 0.05, 0.1], [[1.0, 0.0]] * 3)).commit is False


def test_bayes_measures_one_and_learns_about_the_others() -> None:
    # Two levels, candidates of either; the price is far below what a wrong choice costs.
    nominal, levels = [0.0, 0.1, 0.1, 0.15], [[1.0, 0.0], [0.0, 1.0], [0.05, 0.95], [0.0, 1.0]]
    view = view_of(nominal, levels)
    assert choose("bayes", view).commit is False
    # The first is slow: so is its level, and the second is taken without a look at it.
    slow = replace(view, count=np.array([2, 0, 0, 0]), mean=np.array([0.9, 0.0, 0.0, 0.0]))
    assert choose("bayes", slow).candidate in (1, 2)
    # The fourth is fast: so is its level, and the second is of the same level and nominally faster.
    fast = replace(view, count=np.array([0, 0, 0, 3]), mean=np.array([0.0, 0.0, 0.0, -0.8]))
    assert choose("bayes", fast) == Choice(1, commit=True)
    assert choose("bayes", replace(view, left=0)) == Choice(0, commit=True)
    assert choose("bayes", replace(view, price=1.0)) == Choice(0, commit=True)


def test_bayes_repeats_only_what_it_has_measurements_for() -> None:
    # A gap that one noisy measurement hardly closes.
    view = view_of([0.0, 0.35], [[1.0, 0.0], [0.0, 1.0]], noise_sd=1.0, price=0.0015)
    assert choose("bayes", view).commit is False
    assert choose("bayes", replace(view, left=1)).commit is True


@pytest.mark.parametrize("name", MEASURING)
@pytest.mark.parametrize("budget", [0, 1, 5])
def test_the_budget_is_respected(play: Play, name: str, budget: int) -> None:
    for seed in range(20_000, 20_010):
        # Measurements that cost nothing: everybody wants as many as there are.
        world, _, metrics = play(
            make_agent("topk", family="placement", repeats=4) if name == "topk" else name,
            JOINT,
            seed,
            overrides={"joint.budget": budget, "joint.measurement_price": 0.0},
        )
        assert metrics["valid"] == 1.0
        assert metrics["measurements"] <= budget
        if name == "topk":
            assert metrics["measurements"] == min(budget, 4 * min(3, len(world.candidates)))


@pytest.mark.parametrize("name", ["ucb", "bayes"])
def test_nobody_pays_more_than_it_is_worth(play: Play, name: str) -> None:
    for seed in range(20_000, 20_010):
        _, total, metrics = play(name, JOINT, seed, overrides={"joint.measurement_price": 5.0})
        assert metrics["measurements"] == 0.0
        assert total == pytest.approx(np.log(metrics["speedup"]), abs=1e-9)


def test_the_oracle_has_no_regret_and_greedy_takes_the_nominally_best(play: Play) -> None:
    for seed in range(20_000, 20_015):
        assert play("oracle", JOINT, seed)[2]["regret"] == 0.0
        world, _, metrics = play("greedy", JOINT, seed)
        nominal_s = world.candidates.times.nominal_s[world.order]
        assert nominal_s[world.committed] == pytest.approx(nominal_s.min(), rel=1e-6)
        assert metrics["measurements"] == 0.0


def test_without_anything_hidden_the_nominal_order_is_the_true_one(play: Play) -> None:
    known = {"joint.measurement_price": 0.05} | {
        f"joint.{key}": 0.0
        for key in (
            "bandwidth_log_sd",
            "collective_log_sd",
            "noise_log_sd",
            "background_share_mean",
            "background_share_sd",
        )
    }
    for seed in range(20_000, 20_010):
        for name in ("greedy", "bayes", "oracle"):
            metrics = play(name, MATCHED, seed, overrides=known)[2]
            assert metrics["regret"] == pytest.approx(0.0, abs=1e-6)
            # bayes is not told that nothing is hidden, and may pay to tell near equals apart.
            assert metrics["measurements"] <= (3.0 if name == "bayes" else 0.0)


def test_what_measurements_are_worth_where_the_truth_is_the_model(make_env: Callable[..., Any]) -> None:
    env = make_env(MATCHED)

    def returns(name: str) -> np.ndarray:
        agent = make_agent(name, family="placement")
        return np.array(
            [play_episode(env, agent, options={"episode_seed": seed})[0] for seed in range(20_000, 20_150)]
        )

    # Each step is more than twice its standard error.
    for worse, better in itertools.pairwise(map(returns, ("greedy", "topk", "bayes"))):
        gain = better - worse
        assert gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain))
