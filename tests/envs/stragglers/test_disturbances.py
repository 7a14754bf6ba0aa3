"""Counters that arrive late or not at all."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sysgym.envs.lifecycle import ArgumentError
from sysgym.envs.stragglers.disturbances import LateCounters, MissingCounters

SMALL = {"jobs.tasks_min": 60, "jobs.tasks_max": 80}


def make() -> Any:
    return gym.make("sysgym/StragglerPrediction-v0", scenario="google-2011", split="test", overrides=SMALL)


def observations(env: Any, n: int = 8, seed: int = 20_000) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Return the first observations of an episode without a flag."""
    seen = [env.reset(seed=seed, options={"episode_seed": seed})[0]]
    for _ in range(n - 1):
        seen.append(env.step(np.zeros(env.action_space.shape, env.action_space.dtype))[0])
    assert all(env.observation_space.contains(one) for one in seen)
    return seen


def test_counters_arrive_some_windows_late() -> None:
    told, late = observations(make()), observations(LateCounters(make(), 3))
    assert all(not one["counters"].any() for one in late[:3])
    for before, now in zip(told, late[3:], strict=False):
        np.testing.assert_array_equal(now["counters"], before["counters"])
    for one, other in zip(told, late, strict=True):
        np.testing.assert_array_equal(one["tasks"], other["tasks"])


def test_a_share_of_the_counters_is_missing_in_both_columns() -> None:
    env = MissingCounters(make(), 0.4)
    told, seen = observations(make()), observations(env)
    n = told[0]["counters"].shape[1] // 2
    missing = env._columns
    assert len(set(missing[missing < n])) == round(0.4 * n)
    assert set(missing[missing >= n]) == set(missing[missing < n] + n), "mean and last value"
    for one, other in zip(told, seen, strict=True):
        expected = one["counters"].copy()
        expected[:, missing] = 0.0
        np.testing.assert_array_equal(other["counters"], expected)
    assert told[-1]["counters"][:, missing].any(), "something was withheld"
    again = observations(env)
    np.testing.assert_array_equal(again[-1]["counters"], seen[-1]["counters"])
    others = set()
    for seed in range(20_000, 20_006):
        env.reset(seed=seed)
        others.add(tuple(env._columns.tolist()))
    assert len(others) > 1, "every episode misses others"


@pytest.mark.parametrize(
    ("wrapper", "strength"),
    [(LateCounters, -1), (LateCounters, 0.5), (MissingCounters, 1.5), (MissingCounters, float("nan"))],
)
def test_strengths_are_checked(wrapper: Any, strength: float) -> None:
    with pytest.raises(ArgumentError, match="expected a"):
        wrapper(make(), strength)
