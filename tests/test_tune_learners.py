"""scripts/agents/tune_learners.py: values to try, the curve of a training, and rules on the same seeds."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import gymnasium as gym
import pytest

from sysgym.agents import make_agent, play_episode
from sysgym.agents.learned.training.train import checkpoints_in
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import SysgymError
from tests.scripts import load_script


@pytest.fixture(scope="module")
def tune() -> ModuleType:
    return load_script("agents/tune_learners")


def test_every_combination_of_values_is_tried(tune: ModuleType) -> None:
    assert tune.combinations(["gamma=0.9,1", "n_epochs=5"]) == [
        {"gamma": 0.9, "n_epochs": 5},
        {"gamma": 1, "n_epochs": 5},
    ]
    assert tune.combinations([]) == [{}]
    for wrong in ("gamma", "gamma=", "=1", "gamma=a"):
        with pytest.raises(SysgymError, match=r"gamma=0\.9,0\.99"):
            tune.combinations([wrong])


def test_a_suite_has_one_training_for_each_agent_and_scenario(tune: ModuleType) -> None:
    found = [(one.agent, one.scenario) for one in tune.trainings_of("failslow", None)]
    assert found == [("ppo", "failslow-hybrid"), ("ppo", "failslow-unseen")]
    with pytest.raises(SysgymError, match="it has failslow-hybrid, failslow-unseen"):
        tune.trainings_of("failslow", ["burst-plan"])


def test_a_curve_has_the_validation_means_of_the_checkpoints(tune: ModuleType, tmp_path: Path) -> None:
    (suite,) = tune.trainings_of("bursts", ["burst-plan"])
    small = {"n_steps": 16, "batch_size": 16, "n_epochs": 1}
    spec = suite.model_copy(update={"n_envs": 1})
    job = tune.job_of(spec, small, steps=64, seed=1, episodes=2, out=tmp_path)
    curve = tune.learning_curve(job)
    assert [steps for steps, _ in curve] == [16, 32, 48, 64]
    assert tune.learning_curve(job) == curve  # kept, and not trained again
    (folder,) = (job.folder / "training").iterdir()
    newest = checkpoints_in(folder)[0]
    env = gym.make("sysgym/BurstPlan-v0", scenario="burst-plan", split="validation", disable_env_checker=True)
    agent = make_agent("ppo", family="bursts", checkpoint=str(newest))
    first = load_scenario("burst-plan").splits["validation"].first_seed
    played = [play_episode(env, agent, options={"episode_seed": first + number})[1] for number in range(2)]
    expected = sum(info["episode_metrics"]["regret"] for info in played) / 2
    assert curve[-1][1] == pytest.approx(expected)


def test_rules_are_the_suites_contenders_that_do_not_learn(tune: ModuleType) -> None:
    names = [name for name, _ in tune.rules("bursts", "burst-plan", 1)]
    assert "deeppool" in names
    assert "ppo" not in names
    networks = dict(tune.rules("quick", "iroko-dumbbell-10m", 1))  # transports, too; no flow ends
    assert {"dctcp", "oracle"} <= set(networks)
    assert "ppo" not in networks
    assert {mean.metric for mean in networks.values()} == {"goodput_bps"}
