"""The environment that the family's agents play."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.envs.compression.grad_compress import GradCompress
from sysgym.scenarios.errors import SysgymError


def world_of(env: gym.Env[Any, Any], agent: str) -> GradCompress:
    """Return the environment below all wrappers.

    Raises:
        SysgymError: If it belongs to another family.
    """
    world = env.unwrapped
    if not isinstance(world, GradCompress):
        raise SysgymError(f'the agent "{agent}" plays GradCompress, not {type(world).__name__}')
    return world
