"""``sysgym/TrainingDiagnosis-v0``: checkers, rewards, masks, what is shown, determinism, pictures, views."""

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
from sysgym.emulator.diagnosis.parts import DATA_RANK, RANK, STAGE
from sysgym.envs.diagnosis.live import live_view
from sysgym.envs.diagnosis.metrics import EPISODE_METRICS, STEP_METRICS
from sysgym.envs.diagnosis.observation import PART_COLUMNS
from sysgym.envs.diagnosis.show import draw, in_words
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.diagnosis import DiagnosisScenario

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("diagnosis")]
PLACE = {name: place for place, name in enumerate(PART_COLUMNS)}
every = pytest.mark.parametrize("scenario", SHIPPED)


def make(scenario: str = "diagnosis-jobs", **arguments: Any) -> Any:
    return gym.make("sysgym/TrainingDiagnosis-v0", scenario=scenario, **arguments).unwrapped


def play(env: Any, action_seed: int = 0, episode_seed: int = 3) -> list[Any]:
    """Play random allowed actions, mostly questions, to the end; returns all that was returned."""
    rng = np.random.default_rng(action_seed)
    trace = [env.reset(options={"episode_seed": episode_seed})]
    while len(trace) == 1 or not trace[-1][2]:
        choices = np.flatnonzero(env.action_masks())
        questions = choices[choices < len(env.action_masks()) // 2]
        asks = len(questions) and rng.random() < 0.9
        trace.append(env.step(int(rng.choice(questions if asks else choices))))
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
@pytest.mark.parametrize("action_seed", range(3))
def test_observations_are_in_the_space_and_metrics_are_described(scenario: str, action_seed: int) -> None:
    env = make(scenario, split="test")
    trace = play(env, action_seed)
    assert all(env.observation_space.contains(observation) for observation, *_ in trace)
    assert set(trace[0][1]["metrics"]) == set(STEP_METRICS)
    metrics = trace[-1][-1]["episode_metrics"]
    assert set(metrics) == set(EPISODE_METRICS)
    total = sum(reward for _, reward, *_ in trace[1:])
    assert total == pytest.approx(metrics["net"])
    assert metrics["questions"] == len(trace) - 2


def test_naming_a_fault_ends_the_episode_with_its_score() -> None:
    env = make(overrides={"faults.least": 3})
    for number in range(3):
        env.reset(options={"episode_seed": 2})
        fault = env.case.faults[number].part
        row = env.case.parts.index(fault)
        _, reward, over, _, info = env.step(env.scenario.control.most_parts + row)
        assert over
        assert reward == info["episode_metrics"]["score"] == env.case.score(fault)
        assert info["episode_metrics"]["correct"] == float(fault == env.case.culprit)


def test_masks_and_forbidden_actions() -> None:
    env = make(overrides={"control.episode_steps": 2})
    env.reset(seed=1)
    rows, n = env.scenario.control.most_parts, len(env.case.parts)
    asks, names = env.action_masks().reshape(2, -1)
    assert asks[:n].all()
    assert not asks[n:].any()
    assert [part.what for part, may in zip(env.case.parts, names, strict=False) if not may] == [DATA_RANK] * 4
    env.step(3)
    assert np.flatnonzero(~env.action_masks()[:n]).tolist() == [3]
    env.step(0)
    assert not env.action_masks()[:rows].any()
    _, reward, over, _, info = env.step(5)
    assert (reward, over, info["episode_metrics"]["valid"]) == (-1.0, True, 0.0)


def test_without_questions_only_naming_is_allowed() -> None:
    env = make(overrides={"control.episode_steps": 0})
    observation, _ = env.reset(seed=1)
    assert not env.action_masks()[: env.scenario.control.most_parts].any()
    assert observation["job"][-1] == 1.0


def test_an_answer_is_shown_in_the_rows_that_it_is_about() -> None:
    env = make()
    before, _ = env.reset(options={"episode_seed": 2})
    parts = env.case.parts
    stage = next(row for row, part in enumerate(parts) if part == (STAGE, 3))
    after, reward, over, _, _ = env.step(stage)
    assert (reward, over) == (-0.01, False)
    share = env.case.share(parts[stage])
    assert after["parts"][stage, PLACE["share"]] == pytest.approx(share)
    inside = [row for row, part in enumerate(parts) if part.what == RANK and int(part.which) // 4 == 3]
    np.testing.assert_allclose(after["parts"][inside, PLACE["share_of_stage"]], share, rtol=1e-6)
    changed = np.argwhere(before["parts"] != after["parts"])
    expected = [(stage, PLACE["share"]), *((row, PLACE["share_of_stage"]) for row in inside)]
    assert sorted(map(tuple, changed.tolist())) == sorted(expected)


def test_the_observation_does_not_depend_on_what_faults_are_called() -> None:
    """Only durations are shown: a case whose faults and costs are exchanged looks the same."""
    env = make(overrides={"faults.least": 2})
    first, _ = env.reset(options={"episode_seed": 5})
    env.case = env.case._replace(faults=env.case.faults[::-1], cost_s=env.case.cost_s * 0.0 + 1.0)
    second, *_ = env.step(0)
    np.testing.assert_array_equal(first["parts"][1:], np.where(
        np.arange(12) == PLACE["share_of_stage"], first["parts"][1:], second["parts"][1:]
    ))  # fmt: skip


def test_a_trace_with_more_parts_than_rows_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"most_parts[\s\S]*a row for each of the 97 parts"):
        make(overrides={"job.data_ranks": 16, "job.stages": 4, "job.microbatches": 4,
                        "control.most_parts": 40})  # fmt: skip
    env = make(overrides={"control.most_parts": 40})
    env.scenario = env.scenario.model_copy(
        update={"control": env.scenario.control.model_copy(update={"most_parts": 20})}
    )
    with pytest.raises(SysgymError, match=r"the job has 37 parts, but control\.most_parts is 20"):
        env.reset(seed=0)


def test_it_can_be_pickled_in_the_middle() -> None:
    env = make()
    env.reset(seed=5)
    env.step(1)
    copy = pickle.loads(pickle.dumps(env))
    for action in (0, 20, 96 + 2):
        one, other = env.step(action), copy.step(action)
        for key in one[0]:
            np.testing.assert_array_equal(one[0][key], other[0][key])
        assert one[1:4] == other[1:4]


def test_pictures_and_texts(tmp_path: Path) -> None:
    env = make(render_mode="rgb_array")
    env.reset(seed=6)
    first = env.render()
    env.step(0)
    later = env.render()
    assert first.shape == later.shape
    assert not np.array_equal(first, later)
    assert "1 questions" in env._text()
    assert "% of the lost time: stage 0" in env._text()
    env.step(96)
    assert "named: stage 0" in env._text()
    draw(env.scenario, tmp_path / "job.png")
    assert (tmp_path / "job.png").stat().st_size > 10_000
    with pytest.raises(SysgymError, match="cannot be written"):
        draw(env.scenario, tmp_path / "job.xyz")


def test_the_live_view_reports_every_decision() -> None:
    env = make()
    view = live_view(env)
    frames: list[Any] = []
    view.watch(frames.append)
    env.reset(seed=6)
    scene = view.scene()
    for row in range(3):
        env.step(row)
        view.after_step()
    assert [frame.time for frame in frames] == [0.0, 1.0, 2.0, 3.0]
    keys = {panel.key for panel in scene.panels}
    keys |= {chart.key for chart in scene.charts} | {fact.key for fact in scene.facts}
    assert all(set(frame.values) == keys for frame in frames)
    json.dumps([scene.to_json(), *(frame.values for frame in frames)])


def test_a_scenario_in_words() -> None:
    words = dict(in_words(load_scenario("diagnosis-jobs", expect=DiagnosisScenario)))
    assert words["Job"].startswith("4 stages, 4 data-parallel ranks, 8 microbatches, 1f1b")
    assert "% of a step" in words["Faults of the first test seed"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("job.schedule", "zigzag", "gpipe"),
        ("faults.least", 4, "at most faults.most, 3"),
        ("job.data_ranks", 64, "a row for each"),
        ("faults.kind_share", 0.0, "more than 0"),
    ],
)
def test_values_that_make_no_sense_are_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        load_scenario("diagnosis-jobs", overrides={key: value})
