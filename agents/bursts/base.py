"""The environments that the family's agents play."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.envs.bursts.mux import BurstMux
from sysgym.envs.bursts.plan import BurstPlan
from sysgym.scenarios.errors import SysgymError


def plan_of(env: gym.Env[Any, Any], agent: str) -> BurstPlan:
    """Return the environment of plans below all wrappers.

    Raises:
        SysgymError: If it is another one.
    """
    world = env.unwrapped
    if not isinstance(world, BurstPlan):
        raise SysgymError(f'the agent "{agent}" plays BurstPlan, not {type(world).__name__}')
    return world


def mux_of(env: gym.Env[Any, Any], agent: str) -> BurstMux:
    """Return the environment of background work below all wrappers.

    Raises:
        SysgymError: If it is another one.
    """
    world = env.unwrapped
    if not isinstance(world, BurstMux):
        raise SysgymError(f'the agent "{agent}" plays BurstMux, not {type(world).__name__}')
    return world
