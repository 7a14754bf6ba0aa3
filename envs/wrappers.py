"""Wrappers for imperfect worlds: noise in measurements, and decisions that take effect late."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray


class NoisyObservation(gym.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Multiplies every measured number by 1 + std * N(0, 1), and clips it into the space.

    A number that is 0 stays 0. The noise is drawn from a generator that the environment's own one spawns at
    every reset: it follows the seed, and the episodes are those that they would be without noise.

    Args:
        env: An environment whose observation is a box of floats, or a dictionary of them.
        relative_std: Standard deviation of the noise over the number, at least 0.
        keys: Of a dictionary, the entries that are measurements; the others are masks and what is known.

    Raises:
        ValueError: If the deviation is negative, or what is to have noise is not a box of floats.
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
        """Begin an episode, and its noise."""
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
        # In float64, for a float32 could overflow; clipping then brings it back.
        noise = 1.0 + self.relative_std * self._rng.standard_normal(values.shape)
        noisy: NDArray[Any] = np.clip(values * noise, space.low, space.high).astype(space.dtype)
        return noisy


class DelayedAction(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Lets every action take effect some decisions later; until the first arrives, another is in force.

    Args:
        env: An environment whose action is a box of floats.
        delay: Decisions from an action to its effect; 0 changes nothing.
        initial: In force until the first action arrives. None: the environment's ``resting_action`` if it has
            one, else 0 in spaces that reach as far below 0 as above (nothing changes), and the largest
            elsewhere.

    Raises:
        ValueError: If the delay is negative, or the action something else or not in the space.
    """

    def __init__(self, env: gym.Env[Any, Any], delay: int, initial: NDArray[Any] | None = None) -> None:
        RecordConstructorArgs.__init__(self, delay=delay, initial=initial)
        gym.Wrapper.__init__(self, env)
        space = env.action_space
        if delay != int(delay) or delay < 0:
            raise ValueError(f"delay: expected a whole number of decisions, at least 0, got {delay!r}")
        if not isinstance(space, gym.spaces.Box) or space.dtype.kind != "f":
            raise ValueError(f"action: only numbers can be late, a mask allows others by then; got {space}")
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
        """Begin an episode; nothing of the last one arrives any more."""
        self._waiting = deque(self.initial.copy() for _ in range(self.delay))
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Send an action off, and let the one that arrives take effect."""
        self._waiting.append(np.array(action))
        return self.env.step(self._waiting.popleft())
