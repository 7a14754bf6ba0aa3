"""``sysgym/GradCompress-v0``: checkers, rewards, the end of episodes, determinism, pictures, views."""

from __future__ import annotations

import itertools
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
from sysgym.emulator.compression.times import N_METHODS
from sysgym.envs.compression.live import live_view
from sysgym.envs.compression.metrics import EPISODE_METRICS, STEP_METRICS
from sysgym.envs.compression.observation import EXPECTS, NAMES, USES, expected_gains
from sysgym.envs.compression.render import present_times_s
from sysgym.envs.compression.show import best_methods, draw, in_words
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.compression import METHODS, CompressionScenario

REGISTERED = sysgym.__version__
ENV_ID = "sysgym/GradCompress-v0"
SHIPPED = [info.name for info in list_scenarios("compression")]
SHORT = {"job.iterations": 1500}


def make(**arguments: Any) -> Any:
    return gym.make(ENV_ID, **{"overrides": SHORT, **arguments}).unwrapped


def play(env: Any, action_seed: int = 0, episode_seed: int = 3) -> list[Any]:
    """Play random methods to the end; returns all that was returned."""
    rng = np.random.default_rng(action_seed)
    trace = [env.reset(options={"episode_seed": episode_seed})]
    while len(trace) == 1 or not (trace[-1][2] or trace[-1][3]):
        trace.append(env.step(int(rng.integers(N_METHODS))))
    return trace


@pytest.mark.parametrize("scenario", SHIPPED)
def test_both_checkers_accept_every_shipped_scenario(scenario: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_with_gymnasium(make(scenario=scenario), skip_render_check=True)
        check_with_sb3(make(scenario=scenario))


@pytest.mark.parametrize("scenario", SHIPPED)
def test_observations_are_in_the_space_and_metrics_are_described(scenario: str) -> None:
    env = make(scenario=scenario, split="test")
    trace = play(env)
    assert all(env.observation_space.contains(observation) for observation, *_ in trace)
    assert all(set(step[-1]["metrics"]) == set(STEP_METRICS) for step in trace)
    info = trace[-1][-1]
    assert set(info["episode_metrics"]) == set(EPISODE_METRICS)
    assert all(type(value) is float for value in {**info["metrics"], **info["episode_metrics"]}.values())
    shares = [info["episode_metrics"][f"share_{method}"] for method in METHODS]
    assert sum(shares) == pytest.approx(1.0)
    assert info["episode_metrics"]["regret"] >= -1e-12


def test_the_default_reward_is_progress_a_second_over_that_without_compression() -> None:
    env = make()
    for (*_, before), (_, reward, over, _, info) in itertools.pairwise(play(env)):
        if over:
            break
        now, then = info["metrics"], before["metrics"]
        progress = (now["progress"] - then["progress"]) * env.run.training.iterations
        assert reward == pytest.approx(progress * now["uncompressed_s"] / env.run.interval_s - 1.0)
        assert reward == pytest.approx(sum(info["reward_terms"].values()))


@pytest.mark.parametrize("action_seed", range(3))
def test_the_return_of_the_time_saved_is_its_share(action_seed: int) -> None:
    trace = play(make(reward="saved"), action_seed)
    metrics = trace[-1][-1]["episode_metrics"]
    assert metrics["finished"] == 1.0
    total = sum(reward for _, reward, *_ in trace[1:])
    assert total == pytest.approx(1.0 - metrics["finish_s"] / metrics["never_s"])


def test_no_compression_has_no_reward_and_no_gain() -> None:
    env = make()
    env.reset(seed=1)
    over = False
    while not over:
        _, reward, over, _, info = env.step(0)
        assert reward == pytest.approx(0.0, abs=1e-12)
    assert info["episode_metrics"]["gain_over_never"] == 0.0
    assert info["episode_metrics"]["finish_s"] == info["time_s"]


def test_an_episode_that_is_too_short_is_truncated_and_extrapolated() -> None:
    env = make(overrides={"control.episode_steps": 4})
    trace = play(env)
    assert len(trace) == 5
    assert trace[-1][2:4] == (False, True)
    metrics = trace[-1][-1]["episode_metrics"]
    assert metrics["finished"] == 0.0
    assert metrics["finish_s"] * max(env.run.progress, 1.0) == pytest.approx(8000 * 20.0)


def test_what_is_expected_is_what_happens_if_nothing_is_measured_wrongly() -> None:
    steady = {"network.log_sd": 0.0, "network.background_share": 0.0, "workers.change_s": 0.0,
              "workers.straggler_log_sd": 0.0, "measuring.noise_log_sd": 0.0, "loss.critical_starts": [],
              "loss.rebuild_iterations": 0.0}  # fmt: skip
    env = make(overrides=steady)
    for method in range(N_METHODS):
        observation, _ = env.reset(seed=2)
        expected = observation[EXPECTS + method]
        observation, reward, *_ = env.step(method)
        assert reward == pytest.approx(np.expm1(expected), abs=1e-5)
        assert observation[USES + method] == 1.0
        assert observation[USES:EXPECTS].sum() == 1.0
    assert expected_gains(env.run, float(env.run.conditions.measured_bps[1]))[0] == 0.0


def test_the_observation_is_of_the_past() -> None:
    """Conditions after the present window do not change it."""
    env = make()
    env.reset(seed=4)
    env.step(3)
    before = env.observer.observe(env._state())
    conditions = env.run.conditions
    for values in (conditions.goodput_bps, conditions.measured_bps, conditions.backward_s):
        values[2:] *= 3.0
    conditions.workers[2:] = 8
    np.testing.assert_array_equal(env.observer.observe(env._state()), before)
    measured = conditions.measured_bps[:2]
    assert before[NAMES.index("goodput")] == pytest.approx(np.log10(measured[-1] / 1e9), rel=1e-6)
    assert before[NAMES.index("goodput_mean")] == pytest.approx(np.log10(measured / 1e9).mean(), rel=1e-6)


def test_it_can_be_pickled_in_the_middle() -> None:
    env = make()
    env.reset(seed=5)
    env.step(3)
    copy = pickle.loads(pickle.dumps(env))
    for method in (3, 0, 8, 8):
        one, other = env.step(method), copy.step(method)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:] == other[1:]


def test_pictures_and_texts_of_any_state(tmp_path: Path) -> None:
    env = make(render_mode="rgb_array")
    env.reset(seed=6)
    first = env.render()
    for method in (3, 0, 0, 8):
        env.step(method)
    later = env.render()
    assert first.shape == later.shape == (560, 1200, 3)
    assert first.dtype == np.uint8
    assert not np.array_equal(first, later)
    words = env._text()
    assert "> sign" in words
    assert "3 changes" in words
    draw(env.scenario, tmp_path / "times.png")
    assert (tmp_path / "times.png").stat().st_size > 10_000
    with pytest.raises(SysgymError, match="cannot be written"):
        draw(env.scenario, tmp_path / "times.xyz")


def test_the_live_view_reports_every_window() -> None:
    env = make()
    view = live_view(env)
    frames: list[Any] = []
    view.watch(frames.append)
    env.reset(seed=6)
    scene = view.scene()
    assert frames[0].values["times"] == pytest.approx(present_times_s(env.run), abs=1e-3)
    for method in (3, 3, 0, 8):
        env.step(method)
        view.after_step()
    assert [frame.time for frame in frames] == [0.0, 5.0, 10.0, 15.0, 20.0]
    keys = {panel.key for panel in scene.panels}
    keys |= {chart.key for chart in scene.charts} | {fact.key for fact in scene.facts}
    assert all(set(frame.values) == keys for frame in frames)
    assert frames[-1].values["methods"] == [[3, 0.0, 10.0, 3], [0, 10.0, 15.0, 0], [8, 15.0, 20.0, 8]]
    json.dumps([scene.to_json(), *(frame.values for frame in frames)])


def test_a_scenario_in_words() -> None:
    scenario = load_scenario("compression-drift", expect=CompressionScenario)
    words = dict(in_words(scenario))
    assert "drifts around 4 Gbit/s between 0.5 and 25" in words["Network"]
    assert "doubles or halves every 600 s, from 8 to 64" in words["Workers"]
    assert best_methods(scenario) == (
        "With 16 workers: PowerSGD 1, PowerSGD 4 from 1.55 Gbit/s, 16 bits from 4.2 Gbit/s,"
        " none from 165 Gbit/s"
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("network.median_bps", 1e12, "from least_bps"),
        ("workers.count", 4, "from least = 8"),
        ("loss.critical_starts", [0.5, 0.52], "apart"),
        ("loss.sign", 1.0, "less than 1"),
        ("job.backward_s", 0.0, "more than 0"),
    ],
)
def test_values_that_make_no_sense_are_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        load_scenario("compression-drift", overrides={key: value})
