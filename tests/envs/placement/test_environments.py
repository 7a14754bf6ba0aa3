"""Environments of the placement family: Gymnasium's and stable-baselines3's checkers, and use."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_with_gymnasium
from stable_baselines3.common.env_checker import check_env as check_with_sb3

import sysgym
from sysgym.envs.placement.metrics import EPISODE_METRICS, STEP_METRICS
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, UnknownName

MakeEnv = Callable[..., Any]
Rollout = Callable[..., list[Any]]
Digest = Callable[[list[Any]], str]

REGISTERED = sysgym.__version__
IDS = {
    "placement": "sysgym/CollectivePlacement-v0",
    "program": "sysgym/ReductionProgram-v0",
    "joint": "sysgym/JointPlacement-v0",
}
SHIPPED = [info.name for info in list_scenarios() if info.family == "placement"]
every = pytest.mark.parametrize("kind", list(IDS))


@pytest.mark.parametrize("scenario", SHIPPED)
def test_both_checkers_accept_every_shipped_scenario(scenario: str) -> None:
    env_id = load_scenario(scenario).env_id
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_with_gymnasium(gym.make(env_id, scenario=scenario).unwrapped, skip_render_check=True)
        check_with_sb3(gym.make(env_id, scenario=scenario).unwrapped)
    # SB3 advises to flatten tables, which its MultiInputPolicy does by itself.
    messages = [str(warning.message) for warning in caught]
    assert [text for text in messages if "unconventional shape" not in text] == []


@every
@pytest.mark.parametrize("scenario", SHIPPED)
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_every_environment_plays_every_scenario_of_the_family(
    kind: str, scenario: str, split: str, make_env: MakeEnv, rollout: Rollout
) -> None:
    env = make_env(kind, scenario=scenario, split=split)
    trace = rollout(env, seed=1, episodes=2)
    assert all(env.observation_space.contains(observation) for observation, *_ in trace)
    assert trace[-1][4]["episode_metrics"]["valid"] == 1.0


@every
def test_it_can_be_pickled(kind: str, make_env: MakeEnv, rollout: Rollout, digest: Digest) -> None:
    arguments = {"split": "test", "overrides": {"problem.axes_max": 2}}
    if kind == "program":
        arguments["mask"] = "valid"
    env = make_env(kind, **arguments)
    again = pickle.loads(pickle.dumps(env))
    assert again.scenario == env.scenario
    assert digest(rollout(again, seed=1, episodes=3)) == digest(rollout(env, seed=1, episodes=3))


@every
def test_returned_types_are_pythons_and_metrics_are_described(
    kind: str, make_env: MakeEnv, rollout: Rollout
) -> None:
    env = make_env(kind)
    for observation, *rest in rollout(env, seed=0, episodes=3):
        if len(rest) == 1:
            continue  # what reset returned
        reward, terminated, truncated, info = rest
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert not truncated
        assert reward == sum(info["reward_terms"].values())
        assert info["reward_terms"].keys() == env.reward.weights.keys()
        assert set(info["metrics"]) <= set(STEP_METRICS)
        assert all(type(value) is float for value in info["metrics"].values())
        assert ("episode_metrics" in info) == terminated
        assert np.array_equal(info["action_mask"], observation["action_mask"])
        assert info["metrics"]["allowed"] == info["action_mask"].sum()
        if terminated:
            assert set(info["episode_metrics"]) <= set(EPISODE_METRICS)
            assert all(type(value) is float for value in info["episode_metrics"].values())
            assert observation["action_mask"].sum() == 0.0


def test_every_metric_is_reported_by_some_environment(make_env: MakeEnv, rollout: Rollout) -> None:
    step: set[str] = set()
    episode: set[str] = set()
    for kind in IDS:
        for _, *rest in rollout(make_env(kind), seed=0, episodes=6):
            step |= rest[-1]["metrics"].keys()
            episode |= rest[-1].get("episode_metrics", {}).keys()
    assert step == set(STEP_METRICS)
    assert episode == set(EPISODE_METRICS)


@every
def test_an_action_that_the_mask_forbids_ends_the_episode_with_the_default_and_a_penalty(
    kind: str, make_env: MakeEnv
) -> None:
    env = make_env(kind)
    for seed in range(4):
        env.reset(seed=seed)
        forbidden = np.flatnonzero(~env.action_masks())
        if not len(forbidden):  # joint: measurements are allowed until the budget is spent
            continue
        _, reward, terminated, _, info = env.step(int(forbidden[seed % len(forbidden)]))
        assert terminated
        assert reward == -1.0
        assert info["reward_terms"]["invalid"] == -1.0
        metrics = info["episode_metrics"]
        assert (metrics["valid"], metrics["speedup"]) == (0.0, 1.0)
        assert metrics["time_s"] == metrics["default_time_s"]
        assert metrics["regret"] >= 0.0
        assert metrics["optimal"] == 0.0, "not even if the default is the best"


@every
def test_a_return_is_the_log_of_the_speedup_less_what_was_paid(
    kind: str, make_env: MakeEnv, rollout: Rollout
) -> None:
    env = make_env(kind)
    total = 0.0
    for _, *rest in rollout(env, seed=2, episodes=8):
        total = 0.0 if len(rest) == 1 else total + rest[0]
        metrics = rest[-1].get("episode_metrics")
        if metrics:
            paid = env.scenario.joint.measurement_price * metrics.get("measurements", 0.0)
            expected = np.log(metrics["default_time_s"] / metrics["time_s"])
            assert total == pytest.approx(expected - paid, abs=1e-9)
            assert np.log(metrics["speedup"]) == pytest.approx(expected, abs=1e-9)
            assert metrics["regret"] == pytest.approx(
                np.log(metrics["time_s"] / metrics["best_time_s"]), abs=2e-9
            )
            assert metrics["optimal"] == (metrics["regret"] == 0.0 and metrics["valid"] == 1.0)


@every
def test_impossible_actions_are_errors(kind: str, make_env: MakeEnv) -> None:
    env = make_env(kind)
    env.reset(seed=0)
    for action in (-1, int(env.action_space.n), 0.5, np.array([0, 1]), "0"):
        with pytest.raises(ValueError, match="expected a whole number from 0 to"):
            env.step(action)


@every
def test_what_needs_a_reset_says_so(kind: str, make_env: MakeEnv, rollout: Rollout) -> None:
    env = make_env(kind, render_mode="ansi")
    for call in (lambda: env.step(0), env.render, env.action_masks):
        with pytest.raises(gym.error.ResetNeeded):
            call()
    rollout(env, seed=0, episodes=1)
    assert not env.action_masks().any()
    with pytest.raises(gym.error.ResetNeeded, match="the episode is over"):
        env.step(0)


@every
@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        ({"split": "tests"}, "test"),
        ({"reward": "defalt"}, "default"),
        ({"scenario": "p2-system"}, "p2-systems"),
    ],
)
def test_wrong_names_are_errors_with_advice(kind: str, arguments: dict[str, Any], suggestion: str) -> None:
    with pytest.raises((UnknownName, ScenarioError), match=f'did you mean "{suggestion}"'):
        gym.make(IDS[kind], **arguments)


def test_an_unknown_mask_is_an_error_with_advice(make_env: MakeEnv) -> None:
    with pytest.raises(UnknownName, match='did you mean "live"'):
        make_env("program", mask="lives")


@every
def test_a_scenario_sets_weights_for_any_of_them(kind: str, make_env: MakeEnv) -> None:
    env = make_env(kind, overrides={"reward.weights": {"measurements": 2.0, "invalid": 5.0}})
    expected = {"speedup": 1.0, "measurements": 2.0, "invalid": 5.0}
    assert env.reward.weights == {name: expected[name] for name in env.REWARDS["default"].weights}
    with pytest.raises(UnknownName, match='did you mean "speedup"'):
        make_env(kind, overrides={"reward.weights": {"sped": 0.5}})


@every
def test_a_scenario_may_be_given_as_data_or_as_an_object(
    kind: str, make_env: MakeEnv, rollout: Rollout, digest: Digest
) -> None:
    scenario = load_scenario("placement-unseen")
    expected = digest(rollout(make_env(kind, scenario="placement-unseen"), seed=4, episodes=3))
    assert digest(rollout(make_env(kind, scenario=scenario), seed=4, episodes=3)) == expected
    assert digest(rollout(make_env(kind, scenario=scenario.resolved()), seed=4, episodes=3)) == expected
    with pytest.raises(ScenarioError):
        make_env(kind, scenario="google-2011")
