"""``sysgym/BurstPlan-v0`` and ``sysgym/BurstMux-v0``: checkers, rewards, determinism, pictures, views."""

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
from sysgym.emulator.bursts.multiplexing import ACTIONS
from sysgym.envs.bursts.live import live_view
from sysgym.envs.bursts.metrics import MUX_METRICS, PLAN_METRICS
from sysgym.envs.bursts.show import draw, in_words
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.bursts import BurstScenario

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("bursts")]
ENV_IDS = {name: load_scenario(name).env_id for name in SHIPPED}
SHORT = {"control.episode_steps": 60}
every = pytest.mark.parametrize("scenario", SHIPPED)
either = pytest.mark.parametrize("scenario", ["burst-plan", "burst-mux"])


def make(scenario: str, **arguments: Any) -> Any:
    return gym.make(ENV_IDS[scenario], scenario=scenario, **{"overrides": SHORT, **arguments}).unwrapped


def play(env: Any, action_seed: int = 0, episode_seed: int = 3) -> list[Any]:
    """Play random actions to the end; returns all that was returned."""
    rng = np.random.default_rng(action_seed)
    trace = [env.reset(options={"episode_seed": episode_seed})]
    while len(trace) == 1 or not trace[-1][2]:
        trace.append(env.step(int(rng.integers(env.action_space.n))))
    return trace


@every
def test_both_checkers_accept_every_shipped_scenario(scenario: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_with_gymnasium(make(scenario), skip_render_check=True)
        check_with_sb3(make(scenario))


@every
def test_observations_are_in_the_space_and_metrics_are_described(scenario: str) -> None:
    env = make(scenario, split="test")
    trace = play(env)
    assert all(env.observation_space.contains(observation) for observation, *_ in trace)
    assert len(env.observation_index) == env.observation_space.shape[0]
    info = trace[-1][-1]
    described = PLAN_METRICS if scenario.startswith("burst-plan") else MUX_METRICS
    assert set(info["episode_metrics"]) == set(described)
    assert all(type(value) is float for value in {**info["metrics"], **info["episode_metrics"]}.values())
    assert info["episode_metrics"]["regret"] >= 0.0


@pytest.mark.parametrize("action_seed", range(3))
def test_the_return_of_a_plan_is_minus_its_price(action_seed: int) -> None:
    env = make("burst-plan")
    trace = play(env, action_seed)
    metrics = trace[-1][-1]["episode_metrics"]
    total = sum(reward for _, reward, *_ in trace[1:])
    idle = metrics["idle_share"] * env.drawn.background.idle_value
    assert -total == pytest.approx((1.0 - idle) / metrics["speedup"])
    assert trace[-1][-1]["metrics"]["elapsed_s"] == pytest.approx(metrics["iteration_s"])


def test_the_reward_of_a_window_is_the_throughput_of_both_less_the_excess() -> None:
    env = make("burst-mux")
    for _, reward, _, _, info in play(env)[1:]:
        metrics = info["metrics"]
        excess = max(metrics["slowdown"] - 1.25, 0.0)
        assert reward == pytest.approx(1 / metrics["slowdown"] + metrics["background"] - 10 * excess)
        assert reward == pytest.approx(sum(info["reward_terms"].values()))


def test_no_background_work_has_a_throughput_of_one() -> None:
    env = make("burst-mux")
    env.reset(seed=1)
    over = False
    while not over:
        _, reward, over, _, info = env.step(0)
        assert reward == 1.0
    assert info["episode_metrics"]["cluster_throughput"] == 1.0
    assert info["episode_metrics"]["idle_share"] == pytest.approx(1.0 - env.episode.gaps.busy_share)


def test_the_observation_of_a_plan_is_of_the_profile() -> None:
    """The true times of layers without GPUs do not change it."""
    env = make("burst-plan-unseen")
    env.reset(seed=4)
    env.step(3)
    before = env.observer.observe(env._state())
    env.layers.compute_s[1:] *= 3.0
    env._steps_s[1:] *= 3.0
    np.testing.assert_array_equal(env.observer.observe(env._state()), before)
    times = 10.0 ** before[:6] / 1e3
    np.testing.assert_allclose(times, env.profile.compute_s[1], rtol=1e-5)


def test_the_observation_of_a_window_is_of_the_past() -> None:
    env = make("burst-mux")
    env.reset(seed=4)
    env.step(7)
    before = env.observer.observe(env._state())
    env.episode.interference[1:] *= 3.0
    env.episode.outcomes.slowdown[1:] *= 3.0
    env.episode.worth[1:] = 0.0
    np.testing.assert_array_equal(env.observer.observe(env._state()), before)
    assert before[env.observation_index.index("slowdown")] == pytest.approx(
        max(env.episode.measured_slowdown - 1.0, 0.0), rel=1e-6
    )
    assert 2.0 ** before[env.observation_index.index("batch")] - 1.0 == pytest.approx(ACTIONS[7][0])


def test_no_column_of_a_window_is_more_exact_than_the_measured_slowdown() -> None:
    """Two episodes that differ in the truth, but not in what is measured, look the same."""
    env = make("burst-mux")
    env.reset(seed=4)
    for action in (7, 20, 0):
        env.step(action)
        before = env.observer.observe(env._state())
        episode, last = env.episode, env.episode.windows[-1]
        now = len(episode.windows) - 1
        episode.windows[-1] = last._replace(slowdown=1.1 * last.slowdown, background=0.123, idle_share=0.045)
        episode._noise[now] /= 1.1
        np.testing.assert_allclose(env.observer.observe(env._state()), before, rtol=1e-5)
        episode.windows[-1] = last
        episode._noise[now] *= 1.1


@either
def test_it_can_be_pickled_in_the_middle(scenario: str) -> None:
    env = make(scenario)
    env.reset(seed=5)
    env.step(3)
    copy = pickle.loads(pickle.dumps(env))
    for action in (3, 0, 2, 2):
        one, other = env.step(action), copy.step(action)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:] == other[1:]


@either
def test_pictures_and_texts_of_any_state(scenario: str, tmp_path: Path) -> None:
    env = make(scenario, render_mode="rgb_array")
    env.reset(seed=6)
    first = env.render()
    assert "yet" in env._text()
    for action in (3, 0, 0, 2):
        env.step(action)
    later = env.render()
    assert first.shape == later.shape
    assert first.dtype == np.uint8
    assert not np.array_equal(first, later)
    words = {"burst-plan": "4 of ", "burst-mux": "window 4 of 60: batch 1, 2 outstanding"}
    assert words[scenario] in env._text()
    draw(env.scenario, tmp_path / "plans.png")
    assert (tmp_path / "plans.png").stat().st_size > 10_000
    with pytest.raises(SysgymError, match="cannot be written"):
        draw(env.scenario, tmp_path / "plans.xyz")


@either
def test_the_live_view_reports_every_decision(scenario: str) -> None:
    env = make(scenario)
    view = live_view(env)
    frames: list[Any] = []
    view.watch(frames.append)
    env.reset(seed=6)
    scene = view.scene()
    for action in (3, 3, 0, 2):
        env.step(action)
        view.after_step()
    step = 1.0 if scenario == "burst-plan" else 0.01
    assert [frame.time for frame in frames] == pytest.approx([step * number for number in range(5)])
    keys = {panel.key for panel in scene.panels}
    keys |= {chart.key for chart in scene.charts} | {fact.key for fact in scene.facts}
    assert all(set(frame.values) == keys for frame in frames)
    json.dumps([scene.to_json(), *(frame.values for frame in frames)])


def test_scenarios_in_words() -> None:
    words = dict(in_words(load_scenario("burst-mux", expect=BurstScenario)))
    assert "up to 8 GPUs" in words["Job"]
    assert "beside the plan of limit 2" in words["Background"]
    assert "One every 10 ms" in words["Decisions"]
    words = dict(in_words(load_scenario("burst-plan", expect=BurstScenario)))
    assert words["Decisions"] == "One for each of 34 layers."


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("job.gpus", 12, "a power of two"),
        ("job.model", "alexnet", "vgg16"),
        ("background.most_slowdown", 0.9, "1"),
        ("background.piece_s", 0.0, "0"),
    ],
)
def test_values_that_make_no_sense_are_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        load_scenario("burst-plan", overrides={key: value})
