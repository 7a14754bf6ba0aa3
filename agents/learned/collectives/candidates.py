"""Observations as a set of candidates: a row for each, and a common context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.sets.network import SetShape
from sysgym.scenarios import Scenario

Array = NDArray[np.float32]
Observation = Mapping[str, Array]


def candidate_vector(observation: Observation) -> Array:
    """Return the candidates one after the other, then the system: float32 [observation_size].

    Ratios become ln(1 + ratio): they lie orders of magnitude apart.
    """
    parts = (observation["candidates"].ravel(), observation["system"])
    return np.log1p(np.concatenate(parts)).astype(np.float32, copy=False)


def set_shape(space: gym.Space[Any]) -> SetShape:
    """Return the shape of the set of an environment's observation."""
    assert isinstance(space, gym.spaces.Dict)
    rows, columns = space["candidates"].shape or (0, 0)
    (context,) = space["system"].shape or (0,)
    return SetShape(rows, columns, context, 1)


def vector_names(space: gym.Space[Any]) -> list[str]:
    """Return the names of the parts; equal for environments that one policy can play."""
    shape = set_shape(space)
    return [f"candidates {shape.n_rows} x {shape.row_size}", f"system {shape.context_size}"]


class CandidateVectors(gym.ObservationWrapper[Array, Any, Any]):
    """Wrapper with :func:`candidate_vector` as the observation.

    Args:
        env: Environment of the family.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.shape = set_shape(env.observation_space)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self.shape.observation_size,), np.float32)

    def observation(self, observation: Any) -> Array:
        """Return the vector."""
        return candidate_vector(observation)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of allowed actions, for sb3-contrib."""
        masks: NDArray[np.bool_] = self.env.unwrapped.action_masks()  # type: ignore[attr-defined]
        return masks


class CandidateChoice:
    """Learning problem of the collectives family.

    Args:
        scenario: The scenario.
    """

    discrete_actions = True

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.env_kwargs: Mapping[str, Any] = {}
        self._env = self.make_env()
        self.set_shape: SetShape | None = self._env.shape

    def make_env(self) -> CandidateVectors:
        """Return one environment."""
        scenario = self._scenario
        return CandidateVectors(
            gym.make(scenario.env_id, scenario=scenario, split="train", disable_env_checker=True)
        )

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return a vector environment in one process; stable-baselines3 seeds it."""
        from sysgym.agents.learned.training.replayable import ReplayableVecEnv

        return ReplayableVecEnv(self.make_env, n_envs)

    def observation_index(self) -> list[str]:
        """Return the names of the vector's parts."""
        return vector_names(self._env.env.observation_space)

    def action_meaning(self) -> dict[str, Any]:
        """Return the meaning of actions: one of the candidates."""
        return {"name": "candidate"}
