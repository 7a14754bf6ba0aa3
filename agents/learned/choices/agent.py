"""Agent that plays a policy over choices."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.choices.reading import Reading, choice_names
from sysgym.agents.learned.learning import Runner
from sysgym.agents.learned.problems import MASK
from sysgym.agents.learned.sets.network import check_sizes
from sysgym.scenarios.errors import SysgymError


class ChoiceAgent:
    """Agent that takes the allowed action with the highest score.

    Args:
        checkpoint: The checkpoint.
        reading: Conversion of observations to vectors.

    Attributes:
        name: Name of the algorithm.
        meta: Metadata of the checkpoint.

    Raises:
        SysgymError: If the policy is not a network supported in NumPy.
    """

    def __init__(self, checkpoint: Checkpoint, reading: Reading) -> None:
        if checkpoint.policy is None:
            raise SysgymError(f"{checkpoint.path}: its policy is not a network that runs without torch")
        self.meta = checkpoint.meta
        self.name = self.meta.agent
        self._reading = reading
        self._path, self._scores = checkpoint.path, checkpoint.policy

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check that the environment matches the policy's training environment.

        Raises:
            SysgymError: If the observation has another shape, or the network does not fit it.
        """
        if choice_names(env.observation_space) != self.meta.observation_index:
            raise SysgymError(
                f"{self._path}: trained on {self.meta.scenario_name} ({self.meta.env_id}), whose"
                " observation has a different shape from that of"
                f" {env.spec.id if env.spec else type(env.unwrapped).__name__}"
            )
        shape = self._reading.shape(env)
        check_sizes(self._scores, shape.observation_size, shape.n_actions, self._path)

    def act(self, observation: Any) -> int:
        """Return the action."""
        scores = self._scores(self._reading.vector(observation))
        return int(np.where(observation[MASK] > 0, scores, -np.inf).argmax())


class ExportedChoiceAgent(ChoiceAgent):
    """Agent that plays an exported policy, which receives the mask as an input.

    Args:
        checkpoint: The checkpoint that was exported.
        reading: Conversion of observations to vectors.
        runner: Function that runs the exported file.
    """

    def __init__(self, checkpoint: Checkpoint, reading: Reading, runner: Runner) -> None:
        super().__init__(checkpoint, reading)
        self.name, self._runner = "onnx", runner

    def act(self, observation: Any) -> int:
        """Return the action."""
        mask = observation[MASK][None] > 0
        return int(self._runner(self._reading.vector(observation)[None], mask).action[0])
