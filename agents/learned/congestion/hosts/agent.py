"""Agent with one policy network for every host, for networks of any size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym

from sysgym.agents.learned.agent import LearnedAgent
from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.congestion.hosts.network import hosts_network
from sysgym.agents.learned.congestion.hosts.rows import HostRows
from sysgym.agents.learned.sets.network import SetNet
from sysgym.scenarios.errors import SysgymError


class HostsAgent(LearnedAgent):
    """Agent that plays the mean action of a policy over hosts.

    Args:
        checkpoint: The checkpoint.

    Raises:
        SysgymError: If the checkpoint's policy is not a network over hosts.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        if not isinstance(checkpoint.policy, SetNet):
            raise SysgymError(f"{checkpoint.path}: its policy is not a network over hosts")
        super().__init__(checkpoint)
        self._net = checkpoint.policy
        self._features = HostRows(self.meta.observation_index).features

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Look up the indices of each host's features, and the bounds of rates.

        Raises:
            SysgymError: If the features differ from those of the training.
        """
        index = getattr(env.unwrapped, "observation_index", [])
        features = HostRows(index).features
        if features != self._features:
            raise SysgymError(
                f"{self._path}: trained on the features {', '.join(self._features)}; this environment has "
                f"{', '.join(features)}"
            )
        network = hosts_network(index, self._net)
        unwrapped: Any = env.unwrapped
        low, high = unwrapped.native_bounds
        self._policy, self._scale = network, replace(self._scale, low=low, high=high)
        self._speak_to(env)
