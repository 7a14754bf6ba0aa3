"""What the family's agents have in common: the environment, and names for what they observe."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.envs.failslow.fail_slow import FailSlow
from sysgym.envs.failslow.observation import COLUMNS
from sysgym.scenarios.errors import SysgymError

PLACE = {name: place for place, name in enumerate(COLUMNS)}
"""Place of every value in the observation."""


def world_of(env: gym.Env[Any, Any], agent: str) -> FailSlow:
    """Return the environment below all wrappers.

    Raises:
        SysgymError: If it belongs to another family.
    """
    world = env.unwrapped
    if not isinstance(world, FailSlow):
        raise SysgymError(f'the agent "{agent}" plays FailSlow, not {type(world).__name__}')
    return world
