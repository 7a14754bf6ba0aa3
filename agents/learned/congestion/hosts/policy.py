"""Actor and critic over hosts, for stable-baselines3's PPO. Requires torch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from sysgym.agents.learned.congestion.hosts.rows import HostRows
from sysgym.agents.learned.sets.modules import SetActorCritic


class HostPolicy(SetActorCritic, ActorCriticPolicy):
    """Policy with one network from the features of a host and the pooled code of all hosts to a rate."""

    first_output = 0.5
    """Initial output in [-1, 1]: three quarters of the scale of rates. A higher one would fill every queue,
    and with full queues no single rate makes a difference."""


class PathPolicy(HostPolicy):
    """Policy over hosts for ``PATH_FEATURES`` and a linear scale of rates, which begins near the fair rates.

    If PPO starts from equal rates, it raises them until the hosts with small shares fill their queues, and
    seldom recovers. The network is therefore first fitted to a fraction of the feature ``fair_rate`` on
    random inputs.

    Args:
        *args: Arguments from stable-baselines3.
        first_fraction: Fraction of the fair rate, a hyper-parameter.
        **kwargs: Keyword arguments from stable-baselines3.
    """

    first_fit_steps = 1000
    first_fit_batch = 64
    fair_rate = -2
    """Index of the feature in the row of a host, in which only the logarithm of the rate follows it."""

    def __init__(self, *args: Any, first_fraction: float = 0.9, **kwargs: Any) -> None:
        self._first_fraction = first_fraction
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        if not next(self.parameters()).is_meta:  # on the device meta, arrays are loaded later
            self._fit_fair_shares()

    def _fit_fair_shares(self) -> None:
        modules: Any = self.mlp_extractor
        shape = self.set_shape
        optimizer = torch.optim.Adam([*modules.encoder.parameters(), *modules.head.parameters()], lr=3e-3)
        slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, self.first_fit_steps)
        for _ in range(self.first_fit_steps):
            seen = torch.rand(self.first_fit_batch, shape.observation_size)
            rows = seen[:, : shape.n_rows * shape.row_size].view(-1, shape.n_rows, shape.row_size)
            rows[:, :, 0] = 1.0  # every host exists
            wanted = 2.0 * self._first_fraction * rows[:, :, self.fair_rate] - 1.0
            loss = (modules.forward_actor(seen) - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            slower.step()


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
