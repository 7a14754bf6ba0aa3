"""Learning problem of choices among masked actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.choices.reading import Array, Reading, choice_names
from sysgym.agents.learned.sets.network import SetShape
from sysgym.scenarios import Scenario


class ChoiceVectors(gym.ObservationWrapper[Array, Any, Any]):
    """Wrapper that converts observations to vectors.

    Args:
        env: Environment with masked actions.
        reading: Conversion of the observations.

    Attributes:
        shape: Layout of the set in the vector.
    """

    def __init__(self, env: gym.Env[Any, Any], reading: Reading) -> None:
        super().__init__(env)
        self._reading = reading
        self.shape = reading.shape(env)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self.shape.observation_size,), np.float32)

    def observation(self, observation: Any) -> Array:
        """Return an observation as a vector."""
        return self._reading.vector(observation)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of allowed actions, for sb3-contrib."""
        masks: NDArray[np.bool_] = self.env.unwrapped.action_masks()  # type: ignore[attr-defined]
        return masks


class Choices:
    """Learning problem whose observations are sets of choices.

    Args:
        scenario: The scenario.
        reading: Conversion of observations to vectors.
    """

    discrete_actions = True

    def __init__(self, scenario: Scenario, reading: Reading) -> None:
        self._scenario, self._reading = scenario, reading
        self.env_kwargs: Mapping[str, Any] = {}
        self._env = self.make_env()
        self.set_shape: SetShape | None = self._env.shape

    def make_env(self) -> ChoiceVectors:
        """Return one environment of the train split."""
        scenario = self._scenario
        env: gym.Env[Any, Any] = gym.make(
            scenario.env_id, scenario=scenario, split="train", disable_env_checker=True
        )
        return ChoiceVectors(env, self._reading)

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return a vector environment in one process; stable-baselines3 seeds it."""
        from sysgym.agents.learned.training.replayable import ReplayableVecEnv

        return ReplayableVecEnv(self.make_env, n_envs)

    def observation_index(self) -> list[str]:
        """Return the names of the vector's values."""
        return choice_names(self._env.env.observation_space)

    def action_meaning(self) -> dict[str, Any]:
        """Return the meaning of actions."""
        return {"name": self._reading.choice}
