"""``sysgym/TrainingTuning-v0``: checkers, masks, rewards, budgets, determinism, pictures, views."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_with_gymnasium
from stable_baselines3.common.env_checker import check_env as check_with_sb3

import sysgym
from sysgym.emulator.tuning.plans import in_order
from sysgym.emulator.tuning.timing import Plan
from sysgym.envs.tuning.live import live_view
from sysgym.envs.tuning.metrics import EPISODE_METRICS, STEP_METRICS
from sysgym.envs.tuning.show import draw, in_words
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.tuning import TuningScenario

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("tuning")]
every = pytest.mark.parametrize("scenario", SHIPPED)


def make(scenario: str = "tuning-buckets", **arguments: Any) -> Any:
    return gym.make("sysgym/TrainingTuning-v0", scenario=scenario, **arguments).unwrapped


def play(env: Any, action_seed: int = 0, episode_seed: int = 3) -> list[Any]:
    """Play random allowed changes to the end; returns all that was returned."""
    rng = np.random.default_rng(action_seed)
    trace = [env.reset(options={"episode_seed": episode_seed})]
    while len(trace) == 1 or not trace[-1][2]:
        choices = np.flatnonzero(env.action_masks())
        trace.append(env.step(int(rng.choice(choices[choices > 0]))))
    return trace


@every
def test_both_checkers_accept_every_shipped_scenario(scenario: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_with_gymnasium(make(scenario), skip_render_check=True)
        check_with_sb3(make(scenario))
    messages = [str(warning.message) for warning in caught]
    assert [text for text in messages if "unconventional shape" not in text] == []


@every
def test_observations_are_in_the_space_and_metrics_are_described(scenario: str) -> None:
    for start in ("25_mb", "one_bucket", "one_layer"):
        env = make(scenario, split="test", overrides={"job.start": start})
        trace = play(env)
        assert all(env.observation_space.contains(observation) for observation, *_ in trace)
        assert set(trace[0][1]["metrics"]) == set(STEP_METRICS)
        assert set(trace[-1][-1]["episode_metrics"]) == set(EPISODE_METRICS)
        assert trace[-1][-1]["episode_metrics"]["tried"] == env.scenario.control.episode_steps


@pytest.mark.parametrize("action_seed", range(3))
def test_the_return_is_the_share_of_the_time_that_was_saved(action_seed: int) -> None:
    env = make()
    trace = play(env, action_seed)
    metrics = trace[-1][-1]["episode_metrics"]
    total = sum(reward for _, reward, *_ in trace[1:])
    assert total == pytest.approx(1.0 - 1.0 / metrics["speedup"], abs=1e-12)
    env = make(reward="present")
    trace = play(env, action_seed)
    total = sum(reward for _, reward, *_ in trace[1:])
    assert total == pytest.approx(1.0 - env.measured_s / env.first_s)


def test_masks_stop_and_forbidden_actions() -> None:
    env = make(overrides={"job.start": "one_bucket"})
    env.reset(seed=1)
    rows = 1 + env.scenario.control.most_buckets
    assert np.flatnonzero(env.action_masks()).tolist() == [0, rows + 1]  # stop, or split the only bucket
    env.step(rows + 1)
    assert len(env.plan.ends) == 2
    assert np.flatnonzero(env.action_masks())[:2].tolist() == [0, 1]  # merge them again
    _, reward, over, _, info = env.step(0)
    assert (reward, over, info["episode_metrics"]["valid"]) == (0.0, True, 1.0)
    env.reset(seed=1)
    _, reward, over, _, info = env.step(1)
    assert (reward, over, info["episode_metrics"]["valid"]) == (-1.0, True, 0.0)


def test_a_plan_can_be_adopted_within_the_budget() -> None:
    env = make(overrides={"control.episode_steps": 2})
    env.reset(seed=2)
    n_layers = len(env.profile.forward_s)
    time_s = env.adopt(in_order((4, 8, 12, n_layers)))
    assert time_s == env.measured_s
    assert env.tried == 1
    _, reward, *_ = env.step(0)  # what was gained since the last step
    assert env.best_s < env.first_s
    assert reward == pytest.approx((env.first_s - env.best_s) / env.first_s)
    env.reset(seed=2)
    env.adopt(in_order((4, 8, 12, n_layers)))
    for wrong in (Plan((1,), (0,)), Plan((1, n_layers), (0, 0)), Plan((2, 1, n_layers), (0, 1, 2))):
        with pytest.raises(SysgymError, match="expected buckets that end"):
            env.adopt(wrong)
    env.adopt(in_order((n_layers,)))
    assert np.flatnonzero(env.action_masks()).tolist() == [0]
    with pytest.raises(SysgymError, match="all 2 changes"):
        env.adopt(in_order((n_layers,)))


def test_the_observation_does_not_show_the_truth() -> None:
    """What the profile leaves out shows only in measured times."""
    shown = []
    for slowdown in (0.0, 1.0):
        env = make(overrides={"truth.overlap_slowdown": slowdown})
        observation, _ = env.reset(options={"episode_seed": 4})
        shown.append(observation)
    np.testing.assert_array_equal(shown[0]["buckets"], shown[1]["buckets"])
    different = np.flatnonzero(shown[0]["job"] != shown[1]["job"])
    assert different.tolist() == [5, 6, 7]  # measured, best, first


def test_it_can_be_pickled_in_the_middle() -> None:
    env = make()
    env.reset(seed=5)
    first = int(np.flatnonzero(env.action_masks())[-1])
    env.step(first)
    copy = pickle.loads(pickle.dumps(env))
    for _ in range(3):
        action = int(np.flatnonzero(env.action_masks())[-1])
        one, other = env.step(action), copy.step(action)
        for key in one[0]:
            np.testing.assert_array_equal(one[0][key], other[0][key])
        assert one[1:4] == other[1:4]


def test_pictures_and_texts(tmp_path: Path) -> None:
    env = make(render_mode="rgb_array")
    env.reset(seed=6)
    first = env.render()
    env.step(int(np.flatnonzero(env.action_masks())[-1]))
    later = env.render()
    assert first.shape == later.shape
    assert not np.array_equal(first, later)
    assert "of waiting" in env._text()
    assert "bucket  0:" in env._text()
    draw(env.scenario, tmp_path / "steps.png")
    assert (tmp_path / "steps.png").stat().st_size > 10_000
    with pytest.raises(SysgymError, match="cannot be written"):
        draw(env.scenario, tmp_path / "steps.xyz")


def test_the_live_view_reports_every_change() -> None:
    env = make()
    view = live_view(env)
    frames: list[Any] = []
    view.watch(frames.append)
    env.reset(seed=6)
    scene = view.scene()
    for _ in range(3):
        env.step(int(np.flatnonzero(env.action_masks())[-1]))
        view.after_step()
    assert [frame.time for frame in frames] == [0.0, 1.0, 2.0, 3.0]
    keys = {panel.key for panel in scene.panels}
    keys |= {chart.key for chart in scene.charts} | {fact.key for fact in scene.facts}
    assert all(set(frame.values) == keys for frame in frames)
    json.dumps([scene.to_json(), *(frame.values for frame in frames)])


def test_a_scenario_in_words() -> None:
    words = dict(in_words(load_scenario("tuning-buckets", expect=TuningScenario)))
    assert "MB of gradients" in words["Job"]
    assert "exact fusion" in words["Steps of the first test seed"]
    assert words["Budget"] == "30 changes, at most 32 buckets."


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("job.model", "alexnet", "resnet50"), ("job.workers", 1, "2"), ("truth.background_share", 1.0, "0.95")],
)
def test_values_that_make_no_sense_are_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        load_scenario("tuning-buckets", overrides={key: value})
