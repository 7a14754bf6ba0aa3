"""Actor and critic over hosts, for stable-baselines3's PPO. Needs torch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from torch import nn

from sysgym.agents.learned.hosts.rows import HostRows
from sysgym.agents.learned.placement.set_policy import SetModules
from sysgym.agents.learned.set_net import SetShape

FIRST_OUTPUT = 0.5
"""Of an untrained policy, in [-1, 1]: three quarters up the scale of rates. Too high a beginning fills every
queue, and in a full one no single rate makes a difference."""


class HostPolicy(ActorCriticPolicy):
    """A rate for every host by one network, which sees the host's row beside all of them pooled.

    Args:
        set_shape: The fields of :class:`SetShape`; a dict, because checkpoints keep it.
        *args: As stable-baselines3 passes them.
        **kwargs: As stable-baselines3 passes them.
    """

    def __init__(self, *args: Any, set_shape: dict[str, int], **kwargs: Any) -> None:
        self.set_shape = SetShape(**set_shape)
        super().__init__(*args, **kwargs)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = SetModules(self.set_shape)  # type: ignore[assignment]

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        # The modules put out a number for each host; the extra layer of the package would mix the hosts.
        self.action_net = nn.Identity()
        modules: Any = self.mlp_extractor
        with torch.no_grad():
            modules.head[-1].weight.mul_(0.01)
            modules.head[-1].bias.fill_(FIRST_OUTPUT)
        make_optimizer: Any = self.optimizer_class
        self.optimizer = make_optimizer(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "set_shape": vars(self.set_shape)}


class RowsOfHosts(VecEnvWrapper):
    """Worlds whose observations are rearranged by hosts."""

    def __init__(self, worlds: VecEnv, rows: HostRows) -> None:
        size = rows.shape.observation_size
        super().__init__(worlds, gym.spaces.Box(0.0, 1.0, (size,), np.float32))
        self._rows = rows

    def reset(self) -> NDArray[np.float32]:
        """Begin an episode in every world."""
        seen: Any = self.venv.reset()
        return self._rows(seen)

    def step_wait(self) -> Any:
        """Step the worlds."""
        seen, rewards, ends, infos = self.venv.step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = self._rows(info["terminal_observation"])
        rearranged: Any = seen
        return self._rows(rearranged), rewards, ends, infos
