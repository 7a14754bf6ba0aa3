"""DatacenterCC on every scenario in the package: Gymnasium's and stable-baselines3's checkers, and use."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_with_gymnasium
from numpy.typing import NDArray

import sysgym
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.lifecycle import ActionError
from sysgym.scenarios import CongestionScenario, list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, UnknownName

MakeEnv = Callable[..., Any]
Trace = list[tuple[NDArray[np.float32], float, dict[str, Any]]]

REGISTERED = sysgym.__version__
ENV_ID = "sysgym/DatacenterCC-v0"
SHORT = {"control.episode_steps": 12}
SCENARIOS = [info.name for info in list_scenarios() if info.env_id == ENV_ID]


def short_env(scenario: str = "dumbbell-10g", **arguments: Any) -> DatacenterCC:
    """Make a short environment without wrappers."""
    overrides = SHORT | arguments.pop("overrides", {})
    if scenario == "leafspine-link-failure":  # the link fails within the short episode too
        fault = {"link": "leaf0<->spine1", "down_s": 0.5e-3, "up_s": 1e-3}
        overrides = {"faults.links": [fault], **overrides}
    env = gym.make(ENV_ID, scenario=scenario, overrides=overrides, **arguments).unwrapped
    assert isinstance(env, DatacenterCC)
    return env


def rollout(env: Any, seed: int, steps: int = 12, action_seed: int = 0) -> Trace:
    """Play random actions; returns observations, rewards and infos."""
    rng = np.random.default_rng(action_seed)
    observation, info = env.reset(seed=seed)
    trace = [(observation, 0.0, info)]
    for _ in range(steps):
        action = rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32)
        observation, reward, _, _, info = env.step(action)
        trace.append((observation, reward, info))
    return trace


def digest(trace: Trace) -> str:
    """Hash every bit of a rollout."""
    sha = hashlib.sha256()
    for observation, reward, info in trace:
        sha.update(observation.tobytes())
        sha.update(json.dumps([reward, info], sort_keys=True).encode())
    return sha.hexdigest()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_checkers_accept_it(scenario: str) -> None:
    # Not at the top: another process, too, loads this file, and torch takes it longer than all else.
    from stable_baselines3.common.env_checker import check_env as check_with_sb3

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_with_gymnasium(short_env(scenario), skip_render_check=True)
        check_with_sb3(short_env(scenario), warn=True)
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_equal_seeds_give_equal_bytes(scenario: str) -> None:
    assert digest(rollout(short_env(scenario), 7)) == digest(rollout(short_env(scenario), 7))


def test_other_seeds_give_other_episodes(make_env: MakeEnv) -> None:
    assert digest(rollout(make_env("incast-32"), 7)) != digest(rollout(make_env("incast-32"), 8))


def test_another_process_gives_the_same_bytes() -> None:
    code = (
        "import runpy, sys\n"
        "here = runpy.run_path(sys.argv[1])\n"
        "env = here['short_env']('fattree-k4-websearch', transport='dctcp')\n"
        "print(here['digest'](here['rollout'](env, 3)))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code, __file__],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("0", "4242")
    }
    here = digest(rollout(short_env("fattree-k4-websearch", transport="dctcp"), 3))
    assert answers == {here}


def test_a_reset_leaves_nothing_behind(make_env: MakeEnv) -> None:
    env = make_env("incast-32")
    first = digest(rollout(env, 7))
    rollout(env, 8, steps=5)
    assert digest(rollout(env, 7)) == first


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_episode_seeds_come_from_the_split(make_env: MakeEnv, split: str) -> None:
    env = make_env(split=split)
    env.reset(seed=3)
    seeds = set()
    for _ in range(20):
        _, info = env.reset()
        seeds.add(info["episode_seed"])
    assert len(seeds) > 10
    assert all(seed in env.scenario.splits[split] for seed in seeds)


def test_an_episode_seed_can_be_pinned(make_env: MakeEnv) -> None:
    env = make_env("incast-32", split="test")
    traces = []
    for seed in (1, 2):
        _, info = env.reset(seed=seed, options={"episode_seed": 20_005})
        assert info["episode_seed"] == 20_005
        traces.append([env.step(env.action_space.high)[0] for _ in range(12)])
    assert np.array_equal(traces[0], traces[1])


def test_reset_options_are_checked(make_env: MakeEnv) -> None:
    with pytest.raises(UnknownName, match='did you mean "episode_seed"'):
        make_env().reset(options={"episode_sed": 1})


def test_a_split_varies_the_scenario_and_not_the_spaces(make_env: MakeEnv) -> None:
    env = make_env(split="test")
    space = env.observation_space
    flows = set()
    for seed in range(20_000, 20_012):
        observation, _ = env.reset(options={"episode_seed": seed})
        assert env.observation_space is space
        assert space.contains(observation)
        flows.add(len(env.network.flows().src))
    assert flows == {4, 12, 24}


def test_it_is_truncated_and_never_terminated(make_env: MakeEnv) -> None:
    env = make_env()
    env.reset(seed=0)
    ends = [env.step(env.action_space.high)[2:4] for _ in range(12)]
    assert ends == [(False, False)] * 11 + [(False, True)]


def test_returned_types_are_pythons(make_env: MakeEnv) -> None:
    env = make_env()
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(env.action_space.low)
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    assert all(type(value) is float for value in [*info["reward_terms"].values(), *info["metrics"].values()])
    assert reward == sum(info["reward_terms"].values())


def test_the_reward_belongs_to_the_action(make_env: MakeEnv) -> None:
    """The interval after a change of rate shows the change: nothing lags a step behind."""
    overrides = {"workload.start_jitter_s": 0.0, "workload.flows_per_pair": 1}
    env = make_env(overrides=overrides, action_scale="native")
    env.reset(seed=0)
    slow, fair = (np.full(8, rate, np.float32) for rate in (0.01, 0.25))
    for _ in range(3):
        before = env.step(slow)[4]["reward_terms"]["goodput"]
    after = env.step(fair)[4]["reward_terms"]["goodput"]
    assert before < 0.1
    # What was under way at the low rate when the interval began is missing.
    assert after > 0.6


def test_time_advances_by_the_decision_interval(make_env: MakeEnv) -> None:
    env = make_env()
    times = [env.reset(seed=0)[1]["time_s"]]
    times += [env.step(env.action_space.high)[4]["time_s"] for _ in range(4)]
    assert times == pytest.approx(np.arange(5) * 250e-6)


def test_the_warm_up_comes_before_the_first_observation(make_env: MakeEnv) -> None:
    env = make_env(overrides={"control.warmup_s": 2e-3})
    observation, info = env.reset(seed=0)
    assert info["time_s"] == pytest.approx(2e-3)
    assert observation[env.observation_part("utilization")].max() > 0.9
    assert observation[env.observation_part("active")].sum() == 4


@pytest.mark.parametrize("rate", [0.03, 0.2])
def test_the_cap_holds_for_a_host_and_not_for_each_flow(make_env: MakeEnv, rate: float) -> None:
    overrides = {"workload.flows_per_pair": 4, "workload.start_jitter_s": 0.0}
    env = make_env(overrides=overrides, action_scale="native")
    env.reset(seed=0)
    sent = []
    for _ in range(8):
        env.step(np.full(8, rate, np.float32))
        sent.append(env.network.hosts().sent_bytes[:4].copy())
    rates = (sent[-1] - sent[1]) * 8 / (6 * 250e-6)
    assert rates == pytest.approx(np.full(4, rate * 10e9), rel=0.03)


def test_the_highest_action_leaves_a_transport_alone(make_env: MakeEnv) -> None:
    env = make_env(transport="dctcp")
    env.reset(options={"episode_seed": 5})
    for _ in range(12):
        env.step(env.action_space.high)
    capped = env.network.hosts().delivered_bytes.copy()
    env.network.reset(5)
    for _ in range(12):
        env.network.advance(250e-6)
    assert np.array_equal(capped, env.network.hosts().delivered_bytes)


def test_actions_outside_the_space_are_clipped(make_env: MakeEnv) -> None:
    traces = []
    for action in (np.full(8, 7.0, np.float32), np.ones(8, np.float32)):
        env = make_env()
        env.reset(seed=0)
        traces.append([env.step(action)[0] for _ in range(4)])
    assert np.array_equal(traces[0], traces[1])


@pytest.mark.parametrize("action", [np.full(8, np.nan, np.float32), np.ones(7, np.float32), 0.5])
def test_impossible_actions_are_errors(make_env: MakeEnv, action: Any) -> None:
    env = make_env()
    env.reset(seed=0)
    with pytest.raises(ActionError, match=r"expected an array of shape \(8,\) of finite numbers, got "):
        env.step(action)


def test_step_before_reset_is_an_error(make_env: MakeEnv) -> None:
    env = make_env()
    with pytest.raises(gym.error.ResetNeeded):
        env.step(env.action_space.high)


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        ({"backend": "packet"}, "packets"),
        ({"split": "tests"}, "test"),
        ({"transport": "dctpc"}, "dctcp"),
        ({"reward": "defalt"}, "default"),
        ({"features": ("queues",)}, "queue"),
        ({"scenario": "dumbbell-10"}, "dumbbell-10g"),
    ],
)
def test_wrong_names_are_errors_with_advice(arguments: dict[str, Any], suggestion: str) -> None:
    with pytest.raises(UnknownName, match=f'did you mean "{suggestion}"'):
        gym.make(ENV_ID, **arguments)


def test_scenarios_in_every_form(tmp_path: Path) -> None:
    scenario = load_scenario("incast-32", overrides=SHORT, expect=CongestionScenario)
    expected = digest(rollout(short_env("incast-32"), 1))
    assert digest(rollout(gym.make(ENV_ID, scenario=scenario).unwrapped, 1)) == expected
    assert digest(rollout(gym.make(ENV_ID, scenario=scenario.resolved()).unwrapped, 1)) == expected
    with pytest.raises(ScenarioError, match="episode_steps"):
        gym.make(ENV_ID, scenario=scenario, overrides={"control.episode_steps": 0})


def test_the_scenario_may_choose_the_reward_and_its_weights(make_env: MakeEnv) -> None:
    chosen = {"reward.name": "default", "reward.weights": {"queueing": 0.0}}
    env = make_env("iroko-dumbbell-1g", overrides=chosen)
    assert env.reward.weights["queueing"] == 0.0
    assert make_env("iroko-dumbbell-1g", overrides={"reward.name": "step"}).reward.name == "step"
    # Weights are those of the scenario's reward, and mean nothing to another.
    assert make_env("iroko-dumbbell-1g", overrides=chosen, reward="step").reward.weights == {}


def test_it_survives_pickling(make_env: MakeEnv) -> None:
    env = make_env("incast-32", transport="dctcp", features=("queue", "rate"), history=2)
    copy = pickle.loads(pickle.dumps(env))
    assert copy.observation_index == env.observation_index
    assert digest(rollout(copy, 5)) == digest(rollout(env, 5))


def test_its_spec_is_json() -> None:
    env: Any = gym.make(ENV_ID, scenario="incast-32", overrides=SHORT, history=2)
    assert env.spec is not None
    again: Any = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.observation_index == env.unwrapped.observation_index


def test_vector_environments_reset_themselves() -> None:
    envs = gym.make_vec(ENV_ID, num_envs=2, scenario="dumbbell-10g", overrides=SHORT)
    envs.reset(seed=0)
    over = [envs.step(envs.action_space.sample())[3] for _ in range(14)]
    assert np.array(over).sum(axis=0).tolist() == [1, 1]
    envs.close()


def test_stable_baselines3_sees_the_last_observation() -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv

    envs = DummyVecEnv([lambda: short_env() for _ in range(2)])
    envs.reset()
    for _ in range(12):
        _, _, dones, infos = envs.step(np.ones((2, 8), np.float32))
    assert dones.all()
    assert all("terminal_observation" in info and "episode_metrics" in info for info in infos)
