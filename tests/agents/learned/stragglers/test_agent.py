"""Policies of stable-baselines3 for stragglers: trained on tasks, run on jobs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sysgym.agents import make_agent, play_episode
from sysgym.agents.learned import load, train
from sysgym.agents.learned.checkpoint import read_checkpoint, write_checkpoint
from sysgym.agents.learned.stragglers import tasks
from sysgym.agents.learned.stragglers.agent import TaskAgent
from sysgym.agents.learned.stragglers.features import feature_names, task_features
from sysgym.agents.learned.training.algorithms import ALGORITHMS
from sysgym.agents.learned.training.learner import torch_model
from sysgym.agents.protocol import Agent, environment_arguments, is_privileged
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario
from sysgym.scenarios.errors import SysgymError

MakeEnv = Callable[..., Any]
Script = Callable[..., str]

SETTINGS = {"n_steps": 32, "batch_size": 32, "n_epochs": 4, "net_arch": (8,)}
WITHOUT_TRAINING = ("torch", "stable_baselines3", "sb3_contrib", "tensorboard", "lightgbm")
FITTING = {name: algorithm for name, algorithm in ALGORITHMS.items() if not algorithm.over_hosts}
CONTINUOUS = [name for name, algorithm in FITTING.items() if not algorithm.discrete_actions]


@pytest.fixture(autouse=True)
def few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes are drawn from a handful of jobs."""
    monkeypatch.setattr(tasks, "JOBS_WATCHED_STEPS", 100)


def trained(small: StragglerScenario, out: Path, agent: str = "ppo", **arguments: Any) -> Path:
    """Train for 256 steps of four tasks at once."""
    settings: dict[str, Any] = {"total_steps": 256, "checkpoint_every": 128, "hyper_parameters": SETTINGS}
    return train(agent, small, out=out, **(settings | arguments))


@pytest.fixture(scope="module")
def eager(small: StragglerScenario) -> StragglerScenario:
    """A false flag costs little, so that a short training ends with a policy that raises some."""
    return small.with_overrides({"reward.weights": {"false_flags": 0.2}})


@pytest.fixture(scope="module")
def run(eager: StragglerScenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run; to be copied, not to be written to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "JOBS_WATCHED_STEPS", 100)
        return trained(eager, tmp_path_factory.mktemp("ppo") / "run").parent


@pytest.fixture
def final(run: Path) -> Path:
    """The run's last checkpoint."""
    return run / "final.zip"


def same(a: Path, b: Path) -> bool:
    """Return whether two checkpoints' policies are equal to the last bit."""
    one, other = read_checkpoint(a).policy, read_checkpoint(b).policy
    assert one is not None
    assert other is not None
    return one.to_bytes() == other.to_bytes()


def test_what_a_run_leaves(run: Path, final: Path) -> None:
    names = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert names == ["step_000000128.zip", "step_000000256.zip"]
    meta = read_checkpoint(final).meta
    assert (meta.agent, meta.env_id, meta.total_steps) == ("ppo", "sysgym/StragglerPrediction-v0", 256)
    assert meta.env_kwargs == {}
    assert meta.action_scale == {"name": "wait or flag"}
    rows = (run / "progress.csv").read_text().splitlines()
    assert len(rows) > 4


def test_same_seed_same_policy(eager: StragglerScenario, final: Path, run: Path, tmp_path: Path) -> None:
    assert same(trained(eager, tmp_path / "again"), final)
    assert not same(trained(eager, tmp_path / "other", seed=1), final)
    assert not same(run / "checkpoints" / "step_000000128.zip", final), "something was learned"


def test_the_policy_is_a_plain_network_and_decides_as_its_model(final: Path) -> None:
    checkpoint = read_checkpoint(final)
    assert checkpoint.policy is not None
    model = torch_model(checkpoint)
    n_features = len(checkpoint.meta.observation_index)
    batch = np.random.default_rng(0).uniform(-3, 3, (200, n_features)).astype(np.float32)
    expected, _ = model.predict(batch, deterministic=True)
    assert np.array_equal(checkpoint.policy(batch).argmax(axis=1), expected)
    assert len(set(expected)) == 2, "it does not always say the same"


def test_it_is_an_agent(final: Path) -> None:
    agent = make_agent("ppo", checkpoint=final)
    assert isinstance(agent, Agent)
    assert isinstance(agent, TaskAgent)
    assert agent.name == "ppo"
    assert not is_privileged(agent)
    assert environment_arguments(agent) == {}
    with pytest.raises(SysgymError, match='a checkpoint of "ppo", not of "a2c"'):
        make_agent("a2c", checkpoint=final)


def test_it_flags_what_the_policy_flags(final: Path, small: StragglerScenario, make_env: MakeEnv) -> None:
    checkpoint, agent = read_checkpoint(final), load(final)
    assert checkpoint.policy is not None
    env = make_env("prediction", scenario=small)
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    for _ in range(5):
        view = JobView.of(observation)
        wanted = view.flagged.copy()
        wanted[view.running] |= checkpoint.policy(task_features(view)).argmax(axis=1) == 1
        action: Any = agent.act(observation)
        assert env.action_space.contains(action)
        assert np.array_equal(action[: view.n_tasks], wanted)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break


@pytest.mark.parametrize("kind", ["prediction", "mitigation"])
def test_it_plays_both_environments_and_jobs_of_another_size(
    final: Path, make_env: MakeEnv, kind: str
) -> None:
    env = make_env(kind, scenario="google-2011", overrides={"jobs.tasks_min": 90, "jobs.tasks_max": 100})
    (total, info), (again, _) = (
        play_episode(env, load(final), options={"episode_seed": 3}) for _ in range(2)
    )
    assert total == again
    metrics = info["episode_metrics"]
    assert metrics["n_tasks"] >= 90
    acted = metrics["relaunches"] if kind == "mitigation" else metrics["true_flags"] + metrics["false_flags"]
    assert acted > 0


def test_it_plays_without_torch(
    final: Path, small: StragglerScenario, make_env: MakeEnv, script: Script
) -> None:
    code = """
    import json, sys
    import gymnasium as gym
    import sysgym
    from sysgym.agents import make_agent, play_episode

    small = {"jobs.tasks_min": 20, "jobs.tasks_max": 30}
    agent = make_agent("ppo", checkpoint=sys.argv[1])
    print(json.dumps([
        play_episode(
            gym.make(f"sysgym/Straggler{kind}-v0", scenario="google-2011", overrides=small),
            agent,
            options={"episode_seed": 3},
        )[0]
        for kind in ("Prediction", "Mitigation")
    ]))
    """
    said = json.loads(script(code, final, without=WITHOUT_TRAINING))
    for total, kind in zip(said, ("prediction", "mitigation"), strict=True):
        env = make_env(kind, scenario=small)
        assert total == pytest.approx(play_episode(env, load(final), options={"episode_seed": 3})[0])


def test_a_run_goes_on(run: Path, eager: StragglerScenario, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    later = trained(eager, folder, total_steps=384, resume=True)
    assert read_checkpoint(later).meta.total_steps == 384
    assert not same(later, run / "final.zip")
    straight = trained(eager, tmp_path / "straight", total_steps=384)
    assert read_checkpoint(later).learner == read_checkpoint(straight).learner
    with pytest.raises(SysgymError, match="trained with a different seed"):
        trained(eager, folder, total_steps=512, resume=True, seed=5)
    with pytest.raises(SysgymError, match="holds a run already"):
        trained(eager, folder)


def test_other_counters_and_families_are_refused(final: Path, make_env: MakeEnv) -> None:
    env = make_env("prediction", scenario="alibaba-2018")
    env.reset(seed=0)
    with pytest.raises(SysgymError, match="trained on google-2011, which has other counters") as raised:
        load(final).begin(env)
    assert str(final) in str(raised.value)
    with pytest.raises(SysgymError, match="plays the straggler environments only"):
        load(final).begin(gym.make("CartPole-v1"))
    assert read_checkpoint(final).meta.observation_index == feature_names(
        make_env("mitigation", scenario="google-2011-limited").unwrapped.counter_names
    )


def test_a_policy_that_is_no_plain_network_plays_no_jobs(final: Path, tmp_path: Path) -> None:
    checkpoint = read_checkpoint(final)
    path = tmp_path / "elu.zip"
    write_checkpoint(path, checkpoint.meta, None, checkpoint.learner)
    with pytest.raises(SysgymError, match="not a plain network"):
        load(path)


@pytest.mark.parametrize("agent", ["a2c", "trpo"])
def test_other_algorithms_of_discrete_actions_train(
    small: StragglerScenario, make_env: MakeEnv, tmp_path: Path, agent: str
) -> None:
    settings = {"n_steps": 32, "net_arch": (8,)}  # of four: a whole batch of trpo
    final = trained(small, tmp_path / "run", agent, total_steps=128, hyper_parameters=settings)
    play_episode(make_env("prediction", scenario=small), make_agent(agent, checkpoint=final), seed=0)


@pytest.mark.parametrize("agent", CONTINUOUS)
def test_algorithms_of_continuous_actions_are_refused_before_any_work(
    small: StragglerScenario, tmp_path: Path, agent: str
) -> None:
    with pytest.raises(
        SysgymError, match=f'discrete, which "{agent}" cannot learn; use one of ppo, a2c, reinforce, trpo'
    ):
        train(agent, small, total_steps=64, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_who_learns_discrete_actions_is_what_the_package_says(small: StragglerScenario) -> None:
    """An algorithm's class refuses the actions that it cannot learn."""
    envs = tasks.Tasks(small).envs(2, seed=0)
    for name, algorithm in FITTING.items():
        kind = algorithm.load_class()
        if name in CONTINUOUS:
            with pytest.raises(AssertionError, match="only supports"):
                kind("MlpPolicy", envs, device="cpu")
        else:
            kind("MlpPolicy", envs, device="cpu", n_steps=64)
    assert set(CONTINUOUS) == {"sac", "tqc", "td3", "ddpg"}


@pytest.mark.parametrize(
    ("name", "choice"),
    [("features", ["queue"]), ("history", 2), ("reward", "queue"), ("action_scale", "linear")],
)
def test_settings_that_would_do_nothing_are_refused(
    small: StragglerScenario, tmp_path: Path, name: str, choice: Any
) -> None:
    with pytest.raises(SysgymError, match=f"no choice of {name}"):
        trained(small, tmp_path / "run", **{name: choice})
    assert not (tmp_path / "run").exists()
