"""Agent protocol, common to heuristics and trained policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym


@runtime_checkable
class Agent(Protocol):
    """Maps observations to actions.

    Two optional attributes: ``privileged = True`` marks an agent that reads more than the observation (a
    reference, not a competitor), and ``env_kwargs`` is a dict of arguments that the environment must be
    made with for this agent.

    Attributes:
        name: What tables call it.
    """

    name: str

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Begin an episode; called after every ``env.reset()``."""

    def act(self, observation: Any) -> Any:
        """Return the action for an observation."""


def is_privileged(agent: Agent) -> bool:
    """Return whether the agent reads more than the observation."""
    return bool(getattr(agent, "privileged", False))


def environment_arguments(agent: Agent) -> Mapping[str, Any]:
    """Return what the environment must be made with for this agent; often nothing."""
    arguments: Mapping[str, Any] = getattr(agent, "env_kwargs", {})
    return arguments


def play_episode(
    env: gym.Env[Any, Any], agent: Agent, *, seed: int | None = None, options: dict[str, Any] | None = None
) -> tuple[float, dict[str, Any]]:
    """Play one episode to its end.

    Args:
        env: The environment.
        agent: Who plays.
        seed: Passed to ``reset``.
        options: Passed to ``reset``; ``{"episode_seed": 20000}`` pins the episode.

    Returns:
        The sum of rewards, and the last step's info.
    """
    observation, info = env.reset(seed=seed, options=options)
    agent.begin(env)
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(agent.act(observation))
        total += float(reward)
        over = terminated or truncated
    return total, info
