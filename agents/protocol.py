"""Agent protocol of heuristics and trained policies, and functions shared by agents and their callers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np

from sysgym.agents.info import Agent as Agent
from sysgym.agents.registry import agent_info, list_agents
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.families import families
from sysgym.scenarios.family import load_entry

World = TypeVar("World", bound=gym.Env[Any, Any])


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
        SysgymError: If the environment is of another class.
    """
    world = env.unwrapped
    if not isinstance(world, kind):
        raise wrong_environment(agent, world, kind)
    return world


def wrong_environment(agent: str, world: gym.Env[Any, Any], *kinds: type[Any]) -> SysgymError:
    """Return the error for an agent in an environment that it does not play.

    If the environment's family has another agent of the same name, the message suggests its full name.

    Args:
        agent: Name of the agent, without its family.
        world: The environment.
        kinds: Classes of the environments that the agent can play.
    """
    plays = " or ".join(map(_played, kinds))
    full = _namesake(agent, world, kinds)
    advice = f': write "{full}"' if full else ""
    return SysgymError(f'the agent "{agent}" plays {plays}, not {type(world).__name__}{advice}')


def _namesake(agent: str, world: gym.Env[Any, Any], kinds: tuple[type[Any], ...]) -> str:
    """Return the full name of the namesake of an agent in the family of ``world``; empty if there is none."""
    name = getattr(getattr(world, "scenario", None), "family", "")
    family = families().get(name)
    if family is None or agent not in list_agents(name):
        return ""
    if any(issubclass(load_entry(one.entry_point), kinds) for one in family.environments):
        return ""  # it is the same agent, which plays another environment of the family
    info = agent_info(agent, name)
    return info.name if info.family == name else ""


def _played(kind: type[Any]) -> str:
    """Return the name of a class, or the names of its subclasses if the class is abstract."""
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
