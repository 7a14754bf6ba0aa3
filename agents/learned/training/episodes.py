"""Episodes in progress, represented by their seeds and the actions so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray


class ActionsSoFar:
    """Recorder of the actions so far in the current episodes of parallel environments.

    Args:
        n_envs: Number of environments.
    """

    def __init__(self, n_envs: int) -> None:
        self._taken: list[list[NDArray[Any]]] = [[] for _ in range(n_envs)]

    def begin(self, number: int) -> None:
        """Clear the actions of an environment at the beginning of an episode."""
        self._taken[number] = []

    def add(self, actions: Sequence[Any] | NDArray[Any], moving: Sequence[Any] | NDArray[np.bool_]) -> None:
        """Record one action of every environment that is stepped."""
        for taken, action, moves in zip(self._taken, actions, moving, strict=True):
            if moves:
                taken.append(np.array(action))

    def state(self, envs: Sequence[gym.Env[Any, Any]], infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the state of every environment: episode seed, actions and random generator.

        Args:
            envs: The environments.
            infos: Infos of the resets that began the episodes.
        """
        return [
            {
                "episode_seed": info["episode_seed"],
                "actions": np.array(taken),
                "random": env.unwrapped.np_random.bit_generator.state,
            }
            for env, info, taken in zip(envs, infos, self._taken, strict=True)
        ]


def begin_again(env: gym.Env[Any, Any], state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Begin the episode of a state, and restore the random generator from which later episodes are drawn."""
    found = env.reset(options={"episode_seed": int(state["episode_seed"])})
    env.unwrapped.np_random.bit_generator.state = state["random"]
    return found
