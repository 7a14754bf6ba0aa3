"""Wrappers that withhold counters from agents, for stress tests; the jobs stay the same."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from sysgym.envs.lifecycle import ArgumentError

COUNTERS = "counters"


class LateCounters(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Wrapper in which counters arrive some measuring windows late; until the first arrive, all are 0.

    Which tasks run or have finished, and for how long, is known at once.

    Args:
        env: Environment of the family.
        windows: Number of windows, at least 0.

    Raises:
        ArgumentError: If the number is negative or not whole.
    """

    def __init__(self, env: gym.Env[Any, Any], windows: float) -> None:
        RecordConstructorArgs.__init__(self, windows=windows)
        gym.Wrapper.__init__(self, env)
        if windows != int(windows) or windows < 0:
            raise ArgumentError(f"late: expected a whole number of windows, at least 0, got {windows:g}")
        self.windows = int(windows)
        self._waiting: deque[NDArray[np.float32]] = deque()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._waiting = deque(np.zeros_like(observation[COUNTERS]) for _ in range(self.windows))
        return self._late(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one decision."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._late(observation), reward, terminated, truncated, info

    def _late(self, observation: dict[str, Any]) -> dict[str, Any]:
        self._waiting.append(observation[COUNTERS])
        return {**observation, COUNTERS: self._waiting.popleft()}


class MissingCounters(gym.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Wrapper in which a share of the counters, drawn for each episode, is not measured: they are 0.

    The draw comes from a generator that the environment's own generator spawns at every reset, so it follows
    the seed and leaves the episodes unchanged.

    Args:
        env: Environment of the family.
        share: Share of the counters, from 0 to 1; their number is rounded.

    Raises:
        ArgumentError: If the share is out of range.
    """

    def __init__(self, env: gym.Env[Any, Any], share: float) -> None:
        RecordConstructorArgs.__init__(self, share=share)
        gym.ObservationWrapper.__init__(self, env)
        if not 0.0 <= share <= 1.0:
            raise ArgumentError(f"missing: expected a share of the counters from 0 to 1, got {share:g}")
        self.share = share
        self._columns: NDArray[np.int64] = np.zeros(0, np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with other counters missing."""
        observation, info = self.env.reset(seed=seed, options=options)
        (rng,) = self.env.unwrapped.np_random.spawn(1)
        n = observation[COUNTERS].shape[1] // 2
        missing = rng.permutation(n)[: round(self.share * n)]
        # A counter has two columns: its mean so far and its last value.
        self._columns = np.concatenate([missing, missing + n])
        return self.observation(observation), info

    def observation(self, observation: Any) -> Any:
        """Return the observation without the missing counters."""
        counters = observation[COUNTERS].copy()
        counters[:, self._columns] = 0.0
        return {**observation, COUNTERS: counters}
