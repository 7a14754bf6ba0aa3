"""``sysgym/PipelineTuning-v0``: checkers, masks, rewards, budgets, determinism, pictures, views."""

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
from sysgym.emulator.pipelines.balancing import balanced_ranks
from sysgym.emulator.pipelines.plans import Plan
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.envs.pipelines.live import live_view
from sysgym.envs.pipelines.metrics import EPISODE_METRICS, STEP_METRICS
from sysgym.envs.pipelines.show import draw, in_words
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.pipelines import PipelineScenario
from tests.emulator.training.conftest import rows_of, write_csv

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("pipelines")]
every = pytest.mark.parametrize("scenario", SHIPPED)


def make(scenario: str = "pipeline-gpt", **arguments: Any) -> Any:
    return gym.make("sysgym/PipelineTuning-v0", scenario=scenario, **arguments).unwrapped


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
    env = make(scenario, split="test")
    trace = play(env)
    assert all(env.observation_space.contains(observation) for observation, *_ in trace)
    assert set(trace[0][1]["metrics"]) == set(STEP_METRICS)
    assert set(trace[-1][-1]["episode_metrics"]) == set(EPISODE_METRICS)
    assert trace[-1][-1]["episode_metrics"]["tried"] == env.scenario.control.episode_steps
    assert 0.0 < trace[-1][-1]["episode_metrics"]["idle"] < 1.0


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
    env = make()
    env.reset(seed=1)
    rows = env.scenario.control.most_rows
    mask = env.action_masks().reshape(3, rows)
    assert mask[0, 0]
    assert mask[:, 1:5].tolist() == [[True, True, True, False], [False, True, True, True], [True] * 4]
    assert not mask[2, 5:].any()
    assert not mask[:, 9:].any()
    assert (~mask[0, 5:9]).sum() == 1  # the least loaded rank has nobody to exchange with
    ends = env.plan.ends
    env.step(env.action_of("later", 1))
    assert env.plan.ends == (ends[0], ends[1] - 1, *ends[2:])
    env.step(env.action_of("recompute", 3))
    assert env.plan.recompute == (False, False, False, True)
    env.step(env.action_of("sort", 2))
    assert not env.action_masks()[env.action_of("sort", 2)]
    _, reward, over, _, info = env.step(0)
    assert (reward, over, info["episode_metrics"]["valid"]) == (0.0, True, 1.0)
    env.reset(seed=1)
    _, reward, over, _, info = env.step(2 * rows + 6)
    assert (reward, over, info["episode_metrics"]["valid"]) == (-1.0, True, 0.0)


def test_plans_that_do_not_fit_are_masked() -> None:
    env = make(overrides={"machine.memory_bytes": 14e9})
    drawn = (env.scenario.draw("train", seed).job for seed in range(100))
    seed = next(seed for seed, job in enumerate(drawn) if (job.hidden, job.blocks) == (2048, 24))
    env.reset(options={"episode_seed": seed})
    recomputing = [stage for stage, flag in enumerate(env.plan.recompute) if flag]
    assert recomputing
    assert all(not env.action_masks()[env.action_of("recompute", stage)] for stage in recomputing)
    with pytest.raises(SysgymError, match=r"pipeline-gpt: equal numbers of layers do not fit"):
        make(overrides={"machine.memory_bytes": 1e9}).reset(seed=0)


def test_a_plan_can_be_adopted_within_the_budget() -> None:
    env = make(overrides={"control.episode_steps": 2})
    env.reset(seed=2)
    first = env.plan
    time_s = env.adopt(balanced_ranks(env.pipeline, first))
    assert time_s == env.measured_s
    assert env.tried == 1
    _, reward, *_ = env.step(0)  # what was gained since the last step
    assert env.best_s < env.first_s
    assert reward == pytest.approx((env.first_s - env.best_s) / env.first_s)
    env.reset(seed=2)
    env.adopt(balanced_ranks(env.pipeline, first))
    n_layers = first.ends[-1]
    for wrong in (
        first._replace(ends=first.ends[:3]),
        first._replace(ends=(9, 5, 19, n_layers)),
        first._replace(microbatches=first.microbatches[:-1]),
        Plan(first.ends, (0,) * 32, first.recompute),
    ):
        with pytest.raises(SysgymError, match="expected 4 stages that end at"):
            env.adopt(wrong)
    env.adopt(first)
    assert np.flatnonzero(env.action_masks()).tolist() == [0]
    with pytest.raises(SysgymError, match="all 2 changes"):
        env.adopt(first)


def test_the_observation_does_not_show_the_truth() -> None:
    """What the profile leaves out shows only in measured times."""
    shown = []
    for layer_log_sd in (0.0, 0.3):
        env = make(overrides={"truth.layer_log_sd": layer_log_sd})
        observation, _ = env.reset(options={"episode_seed": 4})
        shown.append(observation)
    np.testing.assert_array_equal(shown[0]["rows"], shown[1]["rows"])
    different = np.flatnonzero(shown[0]["job"] != shown[1]["job"])
    assert different.tolist() == [4, 5]  # measured, best


def test_rows_say_what_the_plan_is() -> None:
    env = make()
    observation, _ = env.reset(seed=3)
    stages, ranks = observation["rows"][1:5], observation["rows"][5:9]
    assert stages[:, 4].sum() == pytest.approx(1.0)
    assert abs(stages[:, 5].mean()) < 1e-6
    np.testing.assert_allclose(stages[1:, 6], stages[:-1, 5])
    np.testing.assert_allclose(stages[:-1, 7], stages[1:, 5])
    assert abs(ranks[:, 5].mean()) < 1e-6
    # The critical path takes the whole step, most of it in computations.
    assert 0.8 < stages[:, 12].sum() <= 1.0 + 1e-5
    assert stages[:, 12].sum() == pytest.approx(ranks[:, 12].sum())
    assert min(ranks[:, 13]) == 0.0
    after, *_ = env.step(env.action_of("sort", 1))
    assert after["rows"][6, 11] == 0.0


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
    assert "ms at best" in env._text()
    assert "data-parallel rank 3:" in env._text()
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
    words = dict(in_words(load_scenario("pipeline-gpt", expect=PipelineScenario)))
    assert "billion parameters" in words["Job of the first test seed"]
    assert "microbatches balanced" in words["Step"]
    assert words["Budget"] == "40 changes."


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("job.stages", 1, "2"),
        ("job.blocks", 1, "2"),
        ("job.data_ranks", 32, "a row for each choice"),
        ("truth.steps", 0, "1"),
    ],
)
def test_values_that_make_no_sense_are_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        load_scenario("pipeline-gpt", overrides={key: value})


def test_an_episode_on_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    write_csv(path, rows_of(synthetic_trace(1, n_stages=2, n_data_ranks=3, n_microbatches=4, n_steps=5)))
    env = gym.make("sysgym/PipelineTuning-v0", overrides={"job.trace": str(path)}, split="test")
    observation, _ = env.reset(options={"episode_seed": 20_000})
    assert env.observation_space.contains(observation)
    done = False
    rng = np.random.default_rng(0)
    while not done:
        observation, _, done, _, info = env.step(int(rng.choice(np.flatnonzero(observation["action_mask"]))))
        assert env.observation_space.contains(observation)
    assert info["episode_metrics"]["speedup"] >= 1.0
