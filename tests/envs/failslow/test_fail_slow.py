"""``sysgym/FailSlow-v0``: checkers, rewards, what is shown, determinism, pictures, views."""

from __future__ import annotations

import hashlib
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
from sysgym.emulator.failslow.faults import Faults, Kind
from sysgym.emulator.failslow.run import Action
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.envs.failslow.live import live_view
from sysgym.envs.failslow.metrics import EPISODE_METRICS, STEP_METRICS
from sysgym.envs.failslow.show import draw, in_words
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.failslow import FailSlowScenario
from tests.emulator.failslow.given import QUIET, give
from tests.emulator.training.conftest import rows_of, write_csv

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("failslow")]
SHORT = {"job.healthy_hours": 0.5, "control.episode_steps": 60}
every = pytest.mark.parametrize("scenario", SHIPPED)


def make(scenario: str = "failslow-hybrid", **arguments: Any) -> Any:
    settings = {"overrides": SHORT, **arguments}
    return gym.make("sysgym/FailSlow-v0", scenario=scenario, **settings).unwrapped


def play(env: Any, action_seed: int = 0, episode_seed: int = 3, acts: float = 0.1) -> list[Any]:
    """Play to the end, now and then a random action; returns all that was returned."""
    rng = np.random.default_rng(action_seed)
    trace = [env.reset(options={"episode_seed": episode_seed})]
    while len(trace) == 1 or not (trace[-1][2] or trace[-1][3]):
        trace.append(env.step(int(rng.integers(7)) if rng.random() < acts else 0))
    return trace


def digest(trace: list[Any]) -> str:
    sha = hashlib.sha256()
    for observation, *rest in trace:
        sha.update(observation.tobytes())
        sha.update(json.dumps(rest, sort_keys=True).encode())
    return sha.hexdigest()


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
    assert set(trace[0][1]["metrics"]) == set(STEP_METRICS)
    metrics = trace[-1][-1]["episode_metrics"]
    assert set(metrics) == set(EPISODE_METRICS)
    kinds = ("rebalances", "layer_moves", "reroutes", "replacements", "checkpoints", "restarts")
    assert metrics["actions"] == sum(metrics[kind] for kind in kinds) >= metrics["needless"]


@pytest.mark.parametrize("action_seed", range(4))
def test_the_return_is_minus_the_time_lost(action_seed: int) -> None:
    env = make()
    trace = play(env, action_seed, acts=0.03)
    total = sum(reward for _, reward, *_ in trace[1:])
    assert total == pytest.approx((env.run.progress_s - env.run.time_s) / 60.0)
    if trace[-1][2]:
        metrics = trace[-1][-1]["episode_metrics"]
        assert total == pytest.approx(-metrics["delay"] * 30.0)
        assert trace[-1][-1]["time_s"] == pytest.approx(3600.0 * metrics["hours"])


def test_an_action_may_have_a_price() -> None:
    env = make(overrides={**SHORT, "reward.weights": {"action": 2.0}})
    env.reset(seed=0)
    terms = env.step(1)[-1]["reward_terms"]
    assert terms["action"] == -2.0
    assert env.step(0)[-1]["reward_terms"]["action"] == 0.0


def test_an_episode_ends_with_the_job_or_is_truncated() -> None:
    _, _, over, truncated, info = play(make(), acts=0.0)[-1]
    assert (over, truncated, info["episode_metrics"]["finished"]) == (True, False, 1.0)
    assert info["episode_metrics"]["saved"] == 0.0
    env = make(overrides={**SHORT, "control.episode_steps": 30})
    trace = play(env, acts=0.5)
    assert len(trace) == 31
    assert trace[-1][2:4] == (False, True)
    metrics = trace[-1][-1]["episode_metrics"]
    assert metrics["finished"] == 0.0
    assert metrics["delay"] > 1.0


def test_what_has_not_begun_is_not_shown() -> None:
    """Other durations, and other faults in the future, change no observation of the present."""
    shown = []
    for later in (False, True):
        env = make(split="test")
        env.reset(options={"episode_seed": 20_001})
        run = env.run
        n = len(run.faults.start_s)
        if later:
            begun = run.faults.start_s < 600.0
            run.faults = Faults(
                run.faults.start_s,
                run.faults.end_s + 1e5 * ~begun,
                np.where(begun, run.faults.kind, Kind.WORKER),
                np.where(begun, run.faults.place, np.arange(n) % 32),
                np.where(begun, run.faults.factor, 9.0),
            )
        shown.append([env.step(0)[0] for _ in range(9)])
    np.testing.assert_array_equal(shown[0], shown[1])


def test_the_end_of_a_fault_is_not_shown_before_it() -> None:
    shown = []
    for end_s in (700.0, 1e5):
        env = make(overrides={**SHORT, **QUIET, "control.noise_log_sd": 0.05})
        env.reset(options={"episode_seed": 1})
        give(env.run, [(90.0, end_s, Kind.WORKER, 3, 2.0)])
        shown.append([env.step(0)[0] for _ in range(20)])
    np.testing.assert_array_equal(shown[0][:11], shown[1][:11])
    place = env.observation_index.index("worst")
    assert shown[0][15][place] < 0.3 < shown[1][15][place]


def test_the_observation_says_what_was_done() -> None:
    env = make(overrides={**SHORT, "control.noise_log_sd": 0.0})
    place = {name: column for column, name in enumerate(env.observation_index)}
    observation, _ = env.reset(seed=2)
    assert observation[place["since_action"]] == 20.0
    assert observation[place["left"]] == 0.5
    assert observation[place["replace_cost"]] == pytest.approx(300 / 3600)
    observation, *_ = env.step(int(Action.REPLACE))
    assert observation[place["since_action"]] == 0.0
    assert observation[place["paused"]] == 1.0
    for _ in range(4):
        observation, *_ = env.step(0)
    assert observation[place["paused"]] == 0.0
    assert observation[place["since_action"]] == pytest.approx(4 / 60)


def test_it_can_be_pickled_in_the_middle() -> None:
    env = make()
    env.reset(seed=5)
    for action in (0, 1, 0, 2):
        env.step(action)
    copy = pickle.loads(pickle.dumps(env))
    for action in (0, 2, 0, 4, 0, 0):
        one, other = env.step(action), copy.step(action)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]


def test_pictures_and_texts(tmp_path: Path) -> None:
    env = make(render_mode="rgb_array")
    env.reset(seed=6)
    first = env.render()
    env.step(1)
    later = env.render()
    assert first.shape == later.shape
    assert not np.array_equal(first, later)
    assert "1 x rebalance, 0 x move layers, 0 x reroute" in env._text()
    draw(load_scenario("failslow-hybrid", expect=FailSlowScenario), tmp_path / "faults.png")
    assert (tmp_path / "faults.png").stat().st_size > 10_000
    with pytest.raises(SysgymError, match="cannot be written"):
        draw(env.scenario, tmp_path / "faults.xyz")


def test_the_live_view_reports_every_window() -> None:
    env = make()
    view = live_view(env)
    frames: list[Any] = []
    view.watch(frames.append)
    env.reset(seed=6)
    scene = view.scene()
    for _ in range(3):
        env.step(0)
        view.after_step()
    assert [frame.time for frame in frames] == [0.0, 60.0, 120.0, 180.0]
    keys = {panel.key for panel in scene.panels}
    keys |= {chart.key for chart in scene.charts} | {fact.key for fact in scene.facts}
    assert all(set(frame.values) == keys for frame in frames)
    json.dumps([scene.to_json(), *(frame.values for frame in frames)])


def test_a_scenario_in_words() -> None:
    words = dict(in_words(load_scenario("failslow-hybrid", expect=FailSlowScenario)))
    assert words["Job"].startswith(
        "8 replicas of 4 stages, 16 microbatches each; 32 blocks of hidden size 4096;"
    )
    assert "1.5 slow workers an hour for 10 min on average" in words["Faults"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("job.replicas", 1, "2"),
        ("faults.worker_factor", 1.0, "more than 1"),
        ("job.healthy_hours", 11.0, "no more than the episode, 10 h"),
        ("actions.replace_s", -1.0, "0"),
    ],
)
def test_values_that_make_no_sense_are_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        load_scenario("failslow-hybrid", overrides={key: value})


def test_recorded_steps(tmp_path: Path) -> None:
    trace = synthetic_trace(1, n_stages=2, n_data_ranks=3, n_microbatches=4, n_steps=5)
    path = str(write_csv(tmp_path / "trace.csv", rows_of(trace)))
    env = make(overrides={**SHORT, "job.trace": path})
    one = play(env)
    assert env.run.times.work.n_replicas == 3
    assert all(env.observation_space.contains(observation) for observation, *_ in one)
    assert digest(play(make(overrides={**SHORT, "job.trace": path}))) == digest(one)
    assert "Steps of the trace" in dict(in_words(env.scenario))["Job"]
