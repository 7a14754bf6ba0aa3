"""``VecEnv`` for the vector environments of the congestion family. Requires stable-baselines3."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from sysgym.agents.learned.training.episodes import ActionsSoFar, begin_again
from sysgym.scenarios import Scenario, load_scenario


class IndexedVecEnv(VecEnv):
    """Base class of vector environments of stable-baselines3 with all environments in this process."""

    def _chosen(self, indices: VecEnvIndices) -> list[Any]:
        """Return the environments with the given indices, or all environments for None."""
        raise NotImplementedError

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of some environments."""
        return [getattr(env, attr_name) for env in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of some environments."""
        for env in self._chosen(indices):
            setattr(env, attr_name, value)

    def env_method(
        self, method_name: str, *arguments: Any, indices: VecEnvIndices = None, **named: Any
    ) -> list[Any]:
        """Call a method of some environments."""
        return [getattr(env, method_name)(*arguments, **named) for env in self._chosen(indices)]


class Sb3VectorEnv(IndexedVecEnv):
    """Vector environment stepped on all cores, with the results of ``DummyVecEnv`` and ``Monitor``.

    Infos are limited to the needs of learning: the ends of episodes and their metrics.

    Args:
        scenario: Scenario of an environment with a vector form, or its name or file.
        n_envs: Number of environments.
        env_kwargs: Other arguments of the environment; the split is "train" unless it is among them.
        action_scale: Name of the action scale.

    Raises:
        ScenarioError: If the scenario cannot be used.
    """

    def __init__(
        self,
        scenario: Scenario | str,
        n_envs: int = 8,
        env_kwargs: Mapping[str, Any] | None = None,
        action_scale: str = "linear",
    ) -> None:
        scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        made: Any = gym.make_vec(
            scenario.env_id,
            num_envs=n_envs,
            vectorization_mode="vector_entry_point",
            scenario=scenario,
            action_scale=action_scale,
            **{"split": "train", **(env_kwargs or {})},
        )
        self.worlds = made
        self._began_s = time.time()
        self._returns: NDArray[np.float64] = np.zeros(n_envs)
        self._lengths: NDArray[np.int64] = np.zeros(n_envs, dtype=np.int64)
        self._everyone: NDArray[np.bool_] = np.ones(n_envs, dtype=np.bool_)
        self._actions: NDArray[Any]
        self._so_far = ActionsSoFar(n_envs)
        self._still = np.zeros(made.single_action_space.shape, np.float32)
        super().__init__(n_envs, made.single_observation_space, made.single_action_space)

    @property
    def envs(self) -> Sequence[Any]:
        """The single environments, as in ``DummyVecEnv``."""
        found: Sequence[Any] = self.worlds.envs
        return found

    def reset(self) -> Any:
        """Begin an episode in every environment; the caller's seeds and options apply once."""
        for world in range(self.num_envs):
            self._reset(world, self._seeds[world])
        self._reset_seeds()
        self._reset_options()
        return self.worlds.observations().copy()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Step the environments; if an episode ends, reset its environment, as stable-baselines3 expects."""
        rewards, ends = self._advance(self._actions, self._everyone)
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": end} for end in ends.tolist()]
        for world in np.flatnonzero(ends).tolist():
            infos[world] |= {
                "episode": self._episode(world),
                "episode_metrics": self.worlds.episode_metrics(world),
                "terminal_observation": self.worlds.observations()[world].copy(),
            }
            self._reset(world, None)
        return self.worlds.observations().copy(), rewards.astype(np.float32), ends, infos

    def state(self) -> list[Any]:
        """Return the state of every environment, for :meth:`set_state`."""
        return self._so_far.state(self.worlds.envs, self.reset_infos)

    def set_state(self, state: list[Any]) -> None:
        """Restore a state returned by :meth:`state`, which may come from another object."""
        for world, one in enumerate(state):
            _, self.reset_infos[world] = begin_again(self.worlds.envs[world], one)
            self._begin(world)
        taken = [one["actions"] for one in state]
        steps = np.array([len(actions) for actions in taken])
        for step in range(max(steps)):
            actions = np.stack(
                [some[min(step, len(some) - 1)] if len(some) else self._still for some in taken]
            )
            self._advance(actions, step < steps)

    def close(self) -> None:
        """Close the environments."""
        self.worlds.close()

    def get_images(self) -> Sequence[Any]:
        """Return the rendered image of every environment."""
        return list(self.worlds.render())

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None
    ) -> Any:
        """Return True for ``Monitor``, whose recording of episodes is built in; False for other wrappers."""
        return [wrapper_class is Monitor for _ in self._chosen(indices)]

    def _chosen(self, indices: VecEnvIndices) -> list[Any]:
        return [self.worlds.envs[world] for world in self._get_indices(indices)]

    def _reset(self, world: int, seed: int | None) -> None:
        options = self._options[world] or None
        _, self.reset_infos[world] = self.worlds.envs[world].reset(seed=seed, options=options)
        self._begin(world)

    def _begin(self, world: int) -> None:
        self._returns[world], self._lengths[world] = 0.0, 0
        self._so_far.begin(world)

    def _advance(self, actions: NDArray[Any], moving: NDArray[np.bool_]) -> tuple[Any, Any]:
        """Step the environments in ``moving``; return rewards and the mask of episodes that have ended."""
        self._so_far.add(actions, moving)
        rewards, ends = self.worlds.advance(actions, moving)
        self._returns += rewards
        self._lengths += moving
        return rewards, ends

    def _episode(self, world: int) -> dict[str, Any]:
        lasted_s = round(time.time() - self._began_s, 6)
        return {"r": round(float(self._returns[world]), 6), "l": int(self._lengths[world]), "t": lasted_s}
