"""The vector form of ``sysgym/DatacenterCC-v0`` as a ``VecEnv``. Needs stable-baselines3."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from sysgym.agents.learned.actions import scale_of
from sysgym.scenarios import Scenario


class SideBySide(VecEnv):
    """Worlds stepped in one call, on all cores; what it returns is what ``DummyVecEnv`` of ``Monitor`` does.

    Args:
        scenario: Of ``sysgym/DatacenterCC-v0``.
        n_envs: Number of worlds.
        env_kwargs: What else the environment is made with.
        action_scale: Name of the action scale.
    """

    def __init__(
        self, scenario: Scenario, n_envs: int, env_kwargs: Mapping[str, Any], action_scale: str
    ) -> None:
        made: Any = gym.make_vec(
            scenario.env_id,
            num_envs=n_envs,
            vectorization_mode="vector_entry_point",
            scenario=scenario,
            **{"split": "train", **env_kwargs},
        )
        self.worlds = made
        self._scale = scale_of(made.envs[0], action_scale)
        self._began_s = time.time()
        self._rewards: list[list[float]] = [[] for _ in range(n_envs)]
        self._actions: NDArray[Any]
        actions = gym.spaces.Box(-1.0, 1.0, made.single_action_space.shape, np.float32)
        super().__init__(n_envs, made.single_observation_space, actions)

    def reset(self) -> Any:
        """Begin an episode in every world; seeds and options of the caller hold once."""
        observations = [self._reset(world, self._seeds[world]) for world in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return np.stack(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Step the worlds; one whose episode ends begins the next at once, as stable-baselines3 wants it."""
        # Row by row, so that the rates are those of a single environment to the last bit.
        rates = np.stack([self._scale.rates(action) for action in self._actions])
        observations, infos = [], []
        rewards, ends = np.zeros(self.num_envs, dtype=np.float32), np.zeros(self.num_envs, dtype=np.bool_)
        for world, result in self.worlds.step_worlds(rates, range(self.num_envs)):
            observation, reward, terminated, truncated, info = result
            rewards[world], ends[world] = reward, terminated or truncated
            self._rewards[world].append(reward)
            info["TimeLimit.truncated"] = truncated and not terminated
            if ends[world]:
                info["episode"] = self._episode(world)
                info["terminal_observation"] = observation
                observation = self._reset(world, None)
            observations.append(observation)
            infos.append(info)
        return np.stack(observations), rewards, ends, infos

    def close(self) -> None:
        """Close the worlds."""
        self.worlds.close()

    def get_images(self) -> Sequence[Any]:
        """Return every world's picture."""
        return list(self.worlds.render())

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of some worlds."""
        return [getattr(env, attr_name) for env in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of some worlds."""
        for env in self._chosen(indices):
            setattr(env, attr_name, value)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        """Call a method of some worlds."""
        return [getattr(env, method_name)(*arguments, **named) for env in self._chosen(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None
    ) -> Any:
        """Say that episodes are recorded as ``Monitor`` does, and that there is no other wrapper."""
        return [wrapper_class is Monitor for _ in self._chosen(indices)]

    def _chosen(self, indices: Any) -> list[Any]:
        return [self.worlds.envs[world] for world in self._get_indices(indices)]

    def _reset(self, world: int, seed: int | None) -> NDArray[np.float32]:
        options = self._options[world] or None
        observation, self.reset_infos[world] = self.worlds.envs[world].reset(seed=seed, options=options)
        self._rewards[world] = []
        first: NDArray[np.float32] = observation
        return first

    def _episode(self, world: int) -> dict[str, Any]:
        rewards = self._rewards[world]
        lasted_s = round(time.time() - self._began_s, 6)
        return {"r": round(sum(rewards), 6), "l": len(rewards), "t": lasted_s}
