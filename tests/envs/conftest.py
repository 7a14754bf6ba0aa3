"""Roll-outs of environments, and their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

Rollout = Callable[..., list[Any]]
Digest = Callable[[list[Any]], str]


def random_action(env: Any, rng: np.random.Generator) -> Any:
    """Return one that the environment's mask allows; without a mask, one that seldom acts on a task."""
    if hasattr(env, "action_masks"):
        return rng.choice(np.flatnonzero(env.action_masks()))
    most = 1 if isinstance(env.action_space, gym.spaces.MultiBinary) else 2
    chosen = rng.random(env.action_space.shape) < 0.05
    action = np.where(chosen, rng.integers(1, most + 1, env.action_space.shape), 0)
    return action.astype(env.action_space.dtype)


def play(env: Any, action_seed: int = 0, episodes: int = 1, **reset: Any) -> list[Any]:
    """Play random actions to the end of some episodes; returns all that was returned."""
    rng = np.random.default_rng(action_seed)
    trace: list[Any] = []
    for number in range(episodes):
        trace.append(env.reset(**(reset if number == 0 or "options" in reset else {})))
        over = False
        while not over:
            trace.append(env.step(random_action(env, rng)))
            over = trace[-1][2] or trace[-1][3]
    return trace


ALL = "all"
"""Name of the only part of an observation that is no dictionary."""


def parts_of(whole: Any) -> dict[str, Any]:
    """Return the parts of an observation or a space by name; what is not a dictionary is one part."""
    return dict(whole) if isinstance(whole, dict | gym.spaces.Dict) else {ALL: whole}


def hashed(trace: list[Any]) -> str:
    """Hash every bit of a rollout."""
    sha = hashlib.sha256()
    for observation, *rest in trace:
        for _, part in sorted(parts_of(observation).items()):
            sha.update(part.tobytes())
        sha.update(json.dumps(rest, sort_keys=True, default=lambda mask: mask.tolist()).encode())
    return sha.hexdigest()


@pytest.fixture(scope="session")
def rollout() -> Rollout:
    return play


@pytest.fixture(scope="session")
def digest() -> Digest:
    return hashed
