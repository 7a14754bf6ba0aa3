"""Actor and critic over hosts, for stable-baselines3's PPO. Requires torch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from sysgym.agents.learned.congestion.hosts.rows import HostRows
from sysgym.agents.learned.sets.modules import SetActorCritic


class HostPolicy(SetActorCritic, ActorCriticPolicy):
    """Policy with one network from the features of a host, and the pooled ones of all hosts, to its rate."""

    first_output = 0.5
    """In [-1, 1]: three quarters up the scale of rates. Too high a beginning fills every queue, and in a full
    one no single rate makes a difference."""


class PathPolicy(HostPolicy):
    """The same for a linear scale of rates, a quarter up the scale."""

    first_output = -0.5


class RowsOfHosts(VecEnvWrapper):
    """Vector environment whose observations are rearranged by hosts."""

    def __init__(self, worlds: VecEnv, rows: HostRows) -> None:
        size = rows.shape.observation_size
        super().__init__(worlds, gym.spaces.Box(0.0, 1.0, (size,), np.float32))
        self._rows = rows

    def reset(self) -> NDArray[np.float32]:
        """Begin an episode in every environment."""
        seen: Any = self.venv.reset()
        return self._rows(seen)

    def step_wait(self) -> Any:
        """Step the environments."""
        seen, rewards, ends, infos = self.venv.step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = self._rows(info["terminal_observation"])
        rearranged: Any = seen
        return self._rows(rearranged), rewards, ends, infos
