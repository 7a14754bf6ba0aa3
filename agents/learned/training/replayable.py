"""Vector environment whose episodes can be resumed. Requires stable-baselines3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from sysgym.agents.learned.training.episodes import ActionsSoFar, begin_again


class ReplayableVecEnv(DummyVecEnv):
    """Vector environment in one process whose state can be saved and restored.

    The state consists of the seed of each episode and the actions so far. Environments must be deterministic,
    and support ``episode_seed`` in the ``info`` and in the options of ``reset``.

    Args:
        make_env: Function that returns one environment.
        n_envs: Number of environments.
    """

    def __init__(self, make_env: Callable[[], gym.Env[Any, Any]], n_envs: int) -> None:
        super().__init__([lambda: Monitor(make_env()) for _ in range(n_envs)])
        self._so_far = ActionsSoFar(n_envs)

    def reset(self) -> Any:
        """Begin an episode in every environment."""
        for number in range(self.num_envs):
            self._so_far.begin(number)
        return super().reset()

    def step_wait(self) -> Any:
        """Step every environment."""
        self._so_far.add(self.actions, [True] * self.num_envs)
        found = super().step_wait()
        for number, over in enumerate(found[2]):
            if over:
                self._so_far.begin(number)
        return found

    def state(self) -> list[Any]:
        """Return the state of every environment, for :meth:`set_state`."""
        return self._so_far.state(self.envs, self.reset_infos)

    def set_state(self, state: list[Any]) -> None:
        """Restore a state returned by :meth:`state`, which may come from another object."""
        for number, one in enumerate(state):
            env = self.envs[number]
            _, self.reset_infos[number] = begin_again(env, one)
            self._so_far.begin(number)
            for action in one["actions"]:
                self._so_far.add([action] * self.num_envs, [other is env for other in self.envs])
                env.step(action)
