"""Agent that plays a policy over candidates."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.collectives.candidates import candidate_vector, set_shape, vector_names
from sysgym.agents.learned.problems import MASK
from sysgym.agents.learned.sets.network import check_sizes
from sysgym.scenarios.errors import SysgymError


class CandidateAgent:
    """Agent that schedules the allowed candidate with the highest score.

    Args:
        checkpoint: The checkpoint.

    Attributes:
        name: Name of the algorithm.
        meta: Metadata of the checkpoint.

    Raises:
        SysgymError: If the policy is not a network supported in NumPy.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        if checkpoint.policy is None:
            raise SysgymError(f"{checkpoint.path}: its policy is no network that plays without torch")
        self.meta = checkpoint.meta
        self.name = self.meta.agent
        self._path, self._scores = checkpoint.path, checkpoint.policy

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check that the environment matches the policy's training environment.

        Raises:
            SysgymError: If it is of another family, or its observation has another shape.
        """
        space = env.observation_space
        known = isinstance(space, gym.spaces.Dict) and {"candidates", "system"} <= set(space.keys())
        if not known or vector_names(space) != self.meta.observation_index:
            raise SysgymError(
                f"{self._path}: trained on {self.meta.scenario_name} ({self.meta.env_id}), whose observation "
                f"has another shape than that of {env.spec.id if env.spec else type(env.unwrapped).__name__}"
            )
        shape = set_shape(space)
        check_sizes(self._scores, shape.observation_size, shape.n_actions, self._path)

    def act(self, observation: Any) -> int:
        """Return the action."""
        scores = self._scores(candidate_vector(observation))
        return int(np.where(observation[MASK] > 0, scores, -np.inf).argmax())
