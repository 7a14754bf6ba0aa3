"""VecEnv of stable-baselines3 with one slot for every agent of parallel environments.

    from stable_baselines3 import PPO
    from sysgym.agents.learned.congestion.shared_policy import ParallelToVectorEnv
    slots = ParallelToVectorEnv(lambda: parallel_env("flow-1g-1ms", overrides={"workload.flows_per_pair": 4}))
    model = PPO("MlpPolicy", slots)

All agents share one policy. Each agent observes only its own flow, so the policy can also be used in
``sysgym/FlowCC-v0`` without changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from sysgym.agents.learned.congestion.sb3_vector_env import IndexedVecEnv
from sysgym.scenarios.errors import SysgymError


class ParallelToVectorEnv(IndexedVecEnv):
    """Vector environment of the agents of parallel environments.

    If an episode ends, its environment is reset in the same step, as in other VecEnvs. The last observation
    is in ``infos[slot]["terminal_observation"]``, the return of the episode in ``infos[slot]["episode"]``.

    Args:
        make_env: Function that returns a parallel environment whose agents have equal spaces.
        n_worlds: Number of parallel environments.

    Raises:
        SysgymError: If the agents' spaces differ.
    """

    def __init__(self, make_env: Callable[[], Any], n_worlds: int = 1) -> None:
        self.worlds = [make_env() for _ in range(n_worlds)]
        first = self.worlds[0]
        self.names: list[str] = list(first.possible_agents)
        spaces = [(first.observation_space(name), first.action_space(name)) for name in self.names]
        if any(pair != spaces[0] for pair in spaces):
            raise SysgymError("one policy for all agents: their observation or action spaces differ")
        super().__init__(n_worlds * len(self.names), *spaces[0])
        self._actions: NDArray[Any] = np.zeros((self.num_envs, *self.action_space.shape))  # type: ignore[misc]
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(n_worlds, dtype=np.int64)
        self._began_s = time.perf_counter()

    def reset(self) -> NDArray[np.float32]:
        """Begin an episode in every environment, with the seeds given by ``seed``."""
        found = [self._reset_world(place, self._seeds[place]) for place in range(len(self.worlds))]
        self._reset_seeds()
        self._reset_options()
        return np.concatenate(found)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions, shape (slots, ...)."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[Any]]:
        """Step every environment."""
        parts = [self._step_world(place) for place in range(len(self.worlds))]
        observations, rewards, dones = (np.concatenate([part[at] for part in parts]) for at in range(3))
        return observations, rewards.astype(np.float32), dones, [info for part in parts for info in part[3]]

    def _step_world(self, place: int) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        world, slots = self.worlds[place], self._slots(place)
        actions = dict(zip(self.names, self._actions[slots], strict=True))
        seen, paid, ended, cut, infos = world.step(actions)
        rewards = np.array([paid[name] for name in self.names])
        over = any(cut.values()) or any(ended.values())
        self._returns[slots] += rewards
        self._lengths[place] += 1
        listed = [infos[name] for name in self.names]
        observations = np.stack([seen[name] for name in self.names])
        if over:
            elapsed_s = round(time.perf_counter() - self._began_s, 6)
            for number, (name, info) in enumerate(zip(self.names, listed, strict=True)):
                info["terminal_observation"] = observations[number]
                info["TimeLimit.truncated"] = cut[name] and not ended[name]
                total = float(self._returns[slots][number])
                info["episode"] = {"r": total, "l": int(self._lengths[place]), "t": elapsed_s}
            observations = self._reset_world(place, None)
        return observations, rewards, np.full(len(self.names), over), listed

    def _reset_world(self, place: int, seed: int | None) -> NDArray[np.float32]:
        seen, _ = self.worlds[place].reset(seed=seed)
        if list(seen) != self.names:
            raise SysgymError(
                f"one policy for all agents: an episode has {len(seen)} of {len(self.names)} agents; fix what"
                " varies their number, such as workload.flows_per_pair, by overrides"
            )
        self._returns[self._slots(place)] = 0.0
        self._lengths[place] = 0
        return np.stack([seen[name] for name in self.names])

    def _slots(self, place: int) -> slice:
        return slice(place * len(self.names), (place + 1) * len(self.names))

    def close(self) -> None:
        """Close the environments."""
        for world in self.worlds:
            world.close()

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Return False for every slot; ``infos`` contain the returns of episodes without Monitor."""
        return [False for _ in self._chosen(indices)]

    def _chosen(self, indices: VecEnvIndices) -> list[Any]:
        return [self.worlds[slot // len(self.names)] for slot in self._get_indices(indices)]
