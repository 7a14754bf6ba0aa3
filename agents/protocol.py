"""Agent protocol, common to heuristics and trained policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import gymnasium as gym
import numpy as np

from sysgym.scenarios.errors import SysgymError

World = TypeVar("World", bound=gym.Env[Any, Any])


@runtime_checkable
class Agent(Protocol):
    """Protocol of an agent, which maps observations to actions.

    There are optional attributes: ``privileged = True`` marks an agent that reads more than the
    observation (a reference, not a competitor), and ``env_kwargs`` is a dict of arguments that the
    environment must be created with for this agent. A class whose arguments need more than a check of
    their types may have a class method ``check_arguments(arguments)``, which is called before anything runs.

    Attributes:
        name: Name of the agent in tables.
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
    """Return the arguments that the environment must be created with for this agent."""
    arguments: Mapping[str, Any] = getattr(agent, "env_kwargs", {})
    return arguments


def world_of(env: gym.Env[Any, Any], agent: str, kind: type[World]) -> World:
    """Return the environment below all wrappers.

    Args:
        env: The environment.
        agent: Name of the agent that plays it.
        kind: Class of the environments that the agent can play.

    Raises:
        SysgymError: If it is of another class.
    """
    world = env.unwrapped
    if not isinstance(world, kind):
        raise SysgymError(f'the agent "{agent}" plays {_played(kind)}, not {type(world).__name__}')
    return world


def _played(kind: type[Any]) -> str:
    """Return the name of a class; those of its subclasses if it only is a base of theirs."""
    if not any(getattr(getattr(kind, name), "__isabstractmethod__", False) for name in dir(kind)):
        return kind.__name__
    return " or ".join(sorted(_played(one) for one in kind.__subclasses__()))


def episode_rng(env: gym.Env[Any, Any], stream: int) -> np.random.Generator:
    """Return a random generator for an agent, seeded by the episode.

    Args:
        env: The environment, after its reset.
        stream: Random stream of the agent, distinct from that of the problem with the same seed.
    """
    seed = getattr(env.unwrapped, "episode_seed", None)
    return np.random.default_rng([stream, 0 if seed is None else int(seed)])


def play_episode(
    env: gym.Env[Any, Any],
    agent: Agent,
    *,
    seed: int | None = None,
    options: dict[str, Any] | None = None,
    each_step: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[float, dict[str, Any]]:
    """Play one episode to its end.

    Args:
        env: The environment.
        agent: The agent.
        seed: Passed to ``reset``.
        options: Passed to ``reset``; ``{"episode_seed": 20000}`` pins the episode.
        each_step: Called after every step with its info.

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
        if each_step is not None:
            each_step(info)
    return total, info
