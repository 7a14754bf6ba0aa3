"""Wrappers for noise and delay: effects, unchanged parts, and seeds."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sysgym
from sysgym.envs.wrappers import DelayedAction, NoisyObservation

REGISTERED = sysgym.__version__


def rates(steps: int = 8) -> Any:
    """Return a short environment of boxes."""
    return gym.make(
        "sysgym/DatacenterCC-v0", scenario="iroko-dumbbell-10m", overrides={"control.episode_steps": steps}
    )


def play(env: Any, actions: np.ndarray, **reset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return observations and rewards of an episode."""
    observation, _ = env.reset(**reset)
    seen, paid = [observation], []
    for action in actions:
        observation, reward, *_ = env.step(action)
        seen.append(observation)
        paid.append(reward)
    return np.array(seen), np.array(paid)


@pytest.fixture
def actions() -> np.ndarray:
    return np.random.default_rng(5).uniform(0.1, 1.0, (8, 4)).astype(np.float32)


def test_noise_is_relative_seeded_and_only_in_what_is_seen(actions: np.ndarray) -> None:
    clean, paid = play(rates(), actions, seed=3)
    env = NoisyObservation(rates(), 0.1)
    noisy, paid_too = play(env, actions, seed=3)
    assert np.array_equal(paid, paid_too)
    assert all(env.observation_space.contains(observation) for observation in noisy)
    assert np.array_equal(noisy == 0.0, clean == 0.0)
    inside = (clean > 0.0) & (noisy < 1.0)
    ratio = noisy[inside] / clean[inside] - 1.0
    assert 0.05 < ratio.std() < 0.15
    again, _ = play(env, actions, seed=3)
    other, _ = play(env, actions, options={"episode_seed": env.get_wrapper_attr("episode_seed")})
    assert np.array_equal(noisy, again)
    assert not np.array_equal(noisy, other), "another episode has noise of its own"


def test_no_noise_is_none(actions: np.ndarray) -> None:
    assert np.array_equal(
        play(NoisyObservation(rates(), 0.0), actions, seed=3)[0], play(rates(), actions, seed=3)[0]
    )


def test_episodes_are_drawn_as_without_noise() -> None:
    drawn = []
    for env in (rates(2), NoisyObservation(rates(2), 0.5)):
        seeds = [env.reset(seed=9)[1]["episode_seed"]]
        drawn.append(seeds + [env.reset()[1]["episode_seed"] for _ in range(3)])
    assert drawn[0] == drawn[1]


def test_of_a_dictionary_only_measurements_have_noise() -> None:
    world = gym.make("sysgym/StragglerPrediction-v0", disable_env_checker=True)
    clean, _ = world.reset(seed=1)
    noisy, _ = NoisyObservation(world, 0.1, ("counters",)).reset(seed=1)
    assert not np.array_equal(noisy["counters"], clean["counters"])
    assert all(np.array_equal(noisy[key], clean[key]) for key in clean if key != "counters")
    assert world.observation_space.contains(noisy)
    with pytest.raises(ValueError, match="keys: expected some of"):
        NoisyObservation(world, 0.1)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_late_actions_are_those_of_before(delay: int, actions: np.ndarray) -> None:
    late = play(DelayedAction(rates(), delay), actions, seed=3)
    uncapped = np.ones((delay, 4), np.float32)
    shifted = play(rates(), np.concatenate([uncapped, actions])[: len(actions)], seed=3)
    assert np.array_equal(late[0], shifted[0])
    assert np.array_equal(late[1], shifted[1])


def test_nothing_arrives_from_the_last_episode(actions: np.ndarray) -> None:
    env = DelayedAction(rates(), 2)
    first = play(env, actions, seed=3)
    assert np.array_equal(first[1], play(env, actions, seed=3)[1])


@pytest.mark.parametrize("scale", ["log", "linear", "native"])
def test_hosts_have_no_cap_until_they_are_told(scale: str) -> None:
    env = gym.make("sysgym/DatacenterCC-v0", disable_env_checker=True, action_scale=scale)
    assert DelayedAction(env, 1).initial.tolist() == [1.0] * 8


def test_a_flow_changes_nothing_until_it_is_told() -> None:
    flow = gym.make("sysgym/FlowCC-v0", disable_env_checker=True)
    assert DelayedAction(flow, 1).initial.tolist() == [0.0]


def test_what_cannot_be_is_refused() -> None:
    env = rates()
    for arguments, message in (((-0.1,), "at least 0"), ((float("nan"),), "at least 0")):
        with pytest.raises(ValueError, match=message):
            NoisyObservation(env, *arguments)
    with pytest.raises(ValueError, match="a whole number of decisions"):
        DelayedAction(env, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected an element of"):
        DelayedAction(env, 1, np.full(4, 2.0, np.float32))
    with pytest.raises(ValueError, match="only continuous actions can be delayed"):
        DelayedAction(gym.make("sysgym/JointPlacement-v0", disable_env_checker=True), 1)


def test_gymnasium_finds_nothing_wrong() -> None:
    for env in (NoisyObservation(rates(), 0.1), DelayedAction(rates(), 2)):
        with warnings.catch_warnings():
            # It would rather look inside of wrappers, which are what is looked at.
            warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
            check_env(env, skip_render_check=True)
