"""Action spaces of the family's environments, for agents that use nothing else of an environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.agents.protocol import wrong_environment
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.flow.flow_cc import FlowCC


def bounded_actions(env: gym.Env[Any, Any], agent: str) -> gym.spaces.Box:
    """Return the action space of an environment whose actions are numbers between bounds.

    Args:
        env: The environment.
        agent: Name of the agent that plays it.

    Raises:
        SysgymError: If the actions are of another kind, as in the other families.
    """
    space = env.action_space
    if not isinstance(space, gym.spaces.Box):
        raise wrong_environment(agent, env.unwrapped, DatacenterCC, FlowCC)
    return space
