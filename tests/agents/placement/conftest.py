"""Environments of the placement family, and episodes in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

import sysgym
from sysgym.agents import make_agent, play_episode
from sysgym.scenarios import load_scenario

REGISTERED = sysgym.__version__
Play = Callable[..., tuple[Any, float, dict[str, float]]]


@pytest.fixture(scope="session")
def make_env() -> Callable[..., Any]:
    """Makes the environment of a scenario, its test split unless said otherwise."""

    def make(scenario: str, *, split: str = "test", **arguments: Any) -> Any:
        env_id = load_scenario(scenario).env_id
        return gym.make(env_id, scenario=scenario, split=split, disable_env_checker=True, **arguments)

    return make


@pytest.fixture(scope="session")
def play(make_env: Callable[..., Any]) -> Play:
    """Plays one episode; returns the environment, the return and the episode's metrics."""

    def run(
        agent: Any, scenario: str, seed: int = 20_000, **arguments: Any
    ) -> tuple[Any, float, dict[str, float]]:
        env = make_env(scenario, **arguments)
        player = make_agent(agent, family="placement") if isinstance(agent, str) else agent
        total, info = play_episode(env, player, options={"episode_seed": seed})
        return env.unwrapped, total, info["episode_metrics"]

    return run
