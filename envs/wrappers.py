"""Wrappers that add observation noise and action delay, and complete infos."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from sysgym.envs.lifecycle import ArgumentError
from sysgym.scenarios.families import families


class NoisyObservation(gym.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Wrapper that multiplies every measured value by 1 + std * N(0, 1) and clips it to the space.

    A value of 0 stays 0. The noise comes from a generator that the environment's own generator spawns at
    every reset, so it follows the seed and leaves the episodes unchanged.

    Args:
        env: Environment whose observation is a ``Box`` of floats, or a ``Dict`` of them.
        relative_std: Standard deviation of the noise relative to the value, at least 0.
        keys: For a ``Dict``, the keys of measured entries; masks and known values have no noise.

    Raises:
        ValueError: If the deviation is negative, or a measured entry is not a ``Box`` of floats.
    """

    def __init__(
        self, env: gym.Env[Any, Any], relative_std: float, keys: Sequence[str] | None = None
    ) -> None:
        RecordConstructorArgs.__init__(self, relative_std=relative_std, keys=keys)
        gym.ObservationWrapper.__init__(self, env)
        if not relative_std >= 0.0:
            raise ValueError(f"relative_std: expected at least 0, got {relative_std!r}")
        space = env.observation_space
        parts = [space]
        if isinstance(space, gym.spaces.Dict):
            if not keys or not set(keys) <= set(space):
                raise ValueError(f"keys: expected some of {', '.join(space)}; got {keys}")
            parts = [space[key] for key in keys]
        if not all(isinstance(part, gym.spaces.Box) and part.dtype.kind == "f" for part in parts):
            raise ValueError(f"only boxes of floats can have noise; got {space}")
        self.relative_std, self.keys = relative_std, keys
        self._rng: np.random.Generator

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with new noise."""
        observation, info = self.env.reset(seed=seed, options=options)
        (self._rng,) = self.env.unwrapped.np_random.spawn(1)
        return self.observation(observation), info

    def observation(self, observation: Any) -> Any:
        """Return the observation with noise."""
        space: Any = self.env.observation_space
        if isinstance(space, gym.spaces.Box):
            return self._noisy(space, observation)
        noisy = {key: self._noisy(space[key], observation[key]) for key in self.keys or ()}
        return {**observation, **noisy}

    def _noisy(self, space: gym.spaces.Box, values: NDArray[Any]) -> NDArray[Any]:
        # In float64, because float32 could overflow before clipping.
        noise = 1.0 + self.relative_std * self._rng.standard_normal(values.shape)
        noisy: NDArray[Any] = np.clip(values * noise, space.low, space.high).astype(space.dtype)
        return noisy


class DelayedAction(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Wrapper that delays every action by a number of decisions.

    Args:
        env: Environment whose action is a ``Box`` of floats.
        delay: Number of decisions from an action to its effect; 0 changes nothing.
        initial: Action in force until the first one takes effect. None: the environment's ``resting_action``
            if it has one; otherwise 0 in symmetric spaces, where it changes nothing, and the largest action
            elsewhere.

    Raises:
        ValueError: If the delay is negative, the action space is not a ``Box`` of floats, or ``initial`` is
            not in the space.
    """

    def __init__(self, env: gym.Env[Any, Any], delay: int, initial: NDArray[Any] | None = None) -> None:
        RecordConstructorArgs.__init__(self, delay=delay, initial=initial)
        gym.Wrapper.__init__(self, env)
        space = env.action_space
        if delay != int(delay) or delay < 0:
            raise ValueError(f"delay: expected a whole number of decisions, at least 0, got {delay!r}")
        if not isinstance(space, gym.spaces.Box) or space.dtype.kind != "f":
            raise ValueError(
                "action: only continuous actions can be delayed, because a mask may change in the"
                f" meantime; got {space}"
            )
        if initial is None:
            initial = getattr(env.unwrapped, "resting_action", None)
        if initial is None:
            symmetric = np.array_equal(space.low, -space.high)
            initial = np.zeros(space.shape, space.dtype) if symmetric else space.high.copy()
        if not space.contains(initial):
            raise ValueError(f"initial: expected an element of {space}, got {initial!r}")
        self.delay = int(delay)
        self.initial = initial
        self._waiting: deque[Any] = deque()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; pending actions of the previous one are discarded."""
        self._waiting = deque(self.initial.copy() for _ in range(self.delay))
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Queue an action, and apply the one that is due."""
        self._waiting.append(np.array(action))
        return self.env.step(self._waiting.popleft())


class CompleteInfo(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Wrapper after which the infos of all resets and steps have the same keys, as recorders need.

    ``episode_metrics`` is in every info, with all names that the family describes, and ``metrics`` has all
    names of the environment. A value is NaN where it does not apply, and those of the episode are NaN until
    its last step. Where a reward's terms have no names before the first step, ``reward_terms`` of a reset is
    empty; see ``term_names`` of ``Reward``.

    Args:
        env: Environment of a family, made by ``gymnasium.make``.

    Raises:
        ArgumentError: If no family has such an environment.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        env_id = env.spec.id if env.spec is not None else ""
        declared = (family for family in families().values() if family.environment(env_id) is not None)
        family = next(declared, None)
        if family is None:
            raise ArgumentError(
                f"env: expected an environment of a family, made by gymnasium.make, got {env_id or env}"
            )
        self._of_episode = dict.fromkeys(family.evaluation_of(env_id).metric_meanings(), math.nan)
        self._of_step = dict.fromkeys(getattr(env.unwrapped, "STEP_METRICS", ()), math.nan)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return the observation and the completed info."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._completed(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one decision; return what the environment returns, with the completed info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self._completed(info)

    def _completed(self, info: dict[str, Any]) -> dict[str, Any]:
        return {
            **info,
            "metrics": {**self._of_step, **info["metrics"]},
            "episode_metrics": {**self._of_episode, **info.get("episode_metrics", {})},
        }
