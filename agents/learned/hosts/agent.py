"""Plays one network for every host, in networks of any size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.actions import ActionScale
from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.hosts.rows import HostRows
from sysgym.agents.learned.set_net import SetNet
from sysgym.scenarios.errors import SysgymError


class HostsAgent:
    """Plays the mean action of a policy over hosts.

    Args:
        checkpoint: As read.

    Attributes:
        name: Of the algorithm.
        env_kwargs: What the environment must be made with for this policy.
        meta: What the checkpoint belongs to.

    Raises:
        SysgymError: If its policy is no network over hosts.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        if not isinstance(checkpoint.policy, SetNet):
            raise SysgymError(f"{checkpoint.path}: its policy is no network over hosts")
        self.meta, self._path, self._net = checkpoint.meta, checkpoint.path, checkpoint.policy
        self.name = self.meta.agent
        self.env_kwargs = dict(self.meta.env_kwargs)
        self._scale = ActionScale(**self.meta.action_scale)
        self._features = HostRows(self.meta.observation_index).features

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Look up where each host's features stand, and the bounds of rates.

        Raises:
            SysgymError: If they are not the features that the policy was trained on.
        """
        self._rows = HostRows(getattr(env.unwrapped, "observation_index", []))
        if self._rows.features != self._features:
            raise SysgymError(
                f"{self._path}: trained on the features {', '.join(self._features)}; this environment has "
                f"{', '.join(self._rows.features)}"
            )
        self._policy = replace(self._net, shape=self._rows.shape)
        space: Any = env.action_space
        low, high = float(space.low.min()), float(space.high.max())
        self._rates = replace(self._scale, low=low, high=high)

    def act(self, observation: Any) -> NDArray[np.float32]:
        """Return the policy's rates."""
        return self._rates.rates(self._policy(self._rows(observation)))
