"""Infos of every environment: resets and steps have the same keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.envs.congestion import parallel_env
from sysgym.envs.congestion.datacenter.rewards import _REWARDS
from sysgym.envs.lifecycle import ArgumentError
from sysgym.envs.rewards import Reward
from sysgym.envs.wrappers import CompleteInfo
from sysgym.registration import ENVIRONMENTS
from sysgym.scenarios.families import families

REGISTERED = sysgym.__version__
SHORT = {"overrides": {"control.episode_steps": 6}}
SMALL: dict[str, dict[str, Any]] = {
    "sysgym/DatacenterCC-v0": {"scenario": "incast-32", **SHORT},
    "sysgym/FlowCC-v0": {"scenario": "flow-1g-1ms", **SHORT},
    "sysgym/BurstMux-v0": SHORT,
    "sysgym/GradCompress-v0": SHORT,
    "sysgym/JointPlacement-v0": {"overrides": {"joint.candidates": 4, "joint.budget": 2}},
}


def play(env: Any, seed: int) -> Iterator[tuple[dict[str, Any], bool]]:
    """Play one episode of random actions; yield every info, and whether it is the last one."""
    env.action_space.seed(seed)
    _, info = env.reset(seed=seed)
    yield info, False
    over = False
    while not over:
        mask = info.get("action_mask")
        action = env.action_space.sample() if mask is None else env.action_space.sample(mask)
        *_, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        yield info, over


def keys_of(info: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of an info, however deep, with the shapes of its arrays."""
    return {
        name: keys_of(value) if isinstance(value, dict) else np.shape(value) for name, value in info.items()
    }


@pytest.mark.parametrize("env_id", list(ENVIRONMENTS))
def test_resets_and_steps_have_the_same_keys(env_id: str) -> None:
    """Only the last info of an episode has more: its metrics, as in Gymnasium's own wrappers."""
    env = gym.make(env_id, **SMALL.get(env_id, {}))
    (first, _), *later = play(env, seed=1)
    assert first["reward_terms"]
    assert set(first["reward_terms"].values()) == {0.0}
    for info, last in later:
        assert info.keys() == (first.keys() | {"episode_metrics"} if last else first.keys())
        assert info["reward_terms"].keys() == first["reward_terms"].keys()
    env.close()


@pytest.mark.parametrize("env_id", list(ENVIRONMENTS))
def test_completed_infos_have_the_same_keys_however_deep(env_id: str) -> None:
    env = CompleteInfo(gym.make(env_id, **SMALL.get(env_id, {})))
    infos = [each for seed in (1, 2) for each in play(env, seed)]
    assert [keys_of(info) for info, _ in infos] == [keys_of(infos[0][0])] * len(infos)
    for info, last in infos:
        known = [value for value in info["episode_metrics"].values() if not math.isnan(value)]
        assert bool(known) == last
    env.close()


def test_completed_infos_are_those_of_the_environment_otherwise() -> None:
    plain = list(play(gym.make("sysgym/DatacenterCC-v0", **SMALL["sysgym/DatacenterCC-v0"]), 3))
    complete = list(
        play(CompleteInfo(gym.make("sysgym/DatacenterCC-v0", **SMALL["sysgym/DatacenterCC-v0"])), 3)
    )
    for (one, _), (other, _) in zip(plain, complete, strict=True):
        assert one["metrics"].items() <= other["metrics"].items()
        assert one.get("episode_metrics", {}).items() <= other["episode_metrics"].items()
        assert {**one, "metrics": 0, "episode_metrics": 0} == {**other, "metrics": 0, "episode_metrics": 0}


def test_an_environment_of_no_family_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"an environment of a family.*CartPole-v1"):
        CompleteInfo(gym.make("CartPole-v1"))


def rewards_by_name() -> list[tuple[str, str]]:
    """Return ids with each reward that the environment knows by name."""
    pairs = [("sysgym/DatacenterCC-v0", name) for name in sorted(_REWARDS)]
    for family in families().values():
        for environment in family.environments:
            found = getattr(gym.make(environment.env_id).unwrapped, "REWARDS", {})
            pairs += [(environment.env_id, name) for name in found]
    return pairs


@pytest.mark.parametrize(("env_id", "reward"), rewards_by_name())
def test_every_reward_names_its_terms(env_id: str, reward: str) -> None:
    env = gym.make(env_id, **SMALL.get(env_id, {}) | {"reward": reward})
    names = {frozenset(info["reward_terms"]) for info, _ in play(env, seed=2)}
    assert len(names) == 1
    env.close()


def test_terms_of_ones_own_reward_may_differ_from_its_weights() -> None:
    own: Reward[Any] = Reward("own", lambda outcome, weights: {"mine": 1.0}, term_names=("mine",))
    env = gym.make("sysgym/BurstPlan-v0", reward=own)
    assert {tuple(info["reward_terms"]) for info, _ in play(env, seed=0)} == {("mine",)}


@pytest.mark.parametrize("reward", ["default", "step"])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize(
    ("env_id", "scenario"), [("sysgym/DatacenterCC-v0", "incast-32"), ("sysgym/FlowCC-v0", "flow-1g-1ms")]
)
def test_vector_forms_have_the_same_keys(env_id: str, scenario: str, mode: str, reward: str) -> None:
    if env_id == "sysgym/FlowCC-v0":
        reward = {"default": "datacenter", "step": "orca"}[reward]
    arguments: dict[str, Any] = {"scenario": scenario, "reward": reward, "autoreset_mode": mode, **SHORT}
    envs: Any = gym.make_vec(env_id, num_envs=2, vectorization_mode="vector_entry_point", **arguments)
    _, first = envs.reset(seed=1)
    assert first["_reward_terms"].all()
    assert all((first["reward_terms"][name] == 0.0).all() for name in envs.envs[0].reward.no_terms())
    ended = {"final_obs", "final_info"} if mode == "same_step" else {"episode_metrics"}
    for step in range(8):
        *_, truncations, infos = envs.step(envs.action_space.sample())
        more = {mask + name for name in ended for mask in ("", "_")} if truncations.any() else set()
        assert infos.keys() == first.keys() | more, step
        assert infos["reward_terms"].keys() == first["reward_terms"].keys()
        assert infos["_reward_terms"].all()
    envs.close()


def test_agents_have_the_same_keys_in_resets_and_steps() -> None:
    pytest.importorskip("pettingzoo")
    env = parallel_env("dumbbell-10g", overrides={"control.episode_steps": 3, "workload.flows_per_pair": 2})
    _, first = env.reset(seed=0)
    while env.agents:
        agents = list(env.agents)
        *_, infos = env.step({agent: env.action_space(agent).sample() for agent in agents})
        more = set() if env.agents else {"episode_metrics"}
        for agent in agents:
            assert infos[agent].keys() == first[agent].keys() | more
            assert infos[agent]["reward_terms"].keys() == first[agent]["reward_terms"].keys()
            assert set(first[agent]["reward_terms"].values()) == {0.0}
    env.close()
