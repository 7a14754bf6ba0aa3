"""Heuristic and learned agents, one folder per family.

    from sysgym.agents import make_agent
    agent = make_agent("aimd")

Names are imported on first use, so that ``import sysgym`` stays light and only training loads torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sysgym.agents.learned.own_models import save_policy
    from sysgym.agents.protocol import Agent, environment_arguments, is_privileged, play_episode
    from sysgym.agents.registry import AgentInfo, agent_info, list_agents, make_agent, register_agent

__all__ = [
    "Agent",
    "AgentInfo",
    "agent_info",
    "environment_arguments",
    "is_privileged",
    "list_agents",
    "make_agent",
    "play_episode",
    "register_agent",
    "save_policy",
]

_HOME = {
    "Agent": "protocol",
    "environment_arguments": "protocol",
    "is_privileged": "protocol",
    "play_episode": "protocol",
    "AgentInfo": "registry",
    "agent_info": "registry",
    "list_agents": "registry",
    "make_agent": "registry",
    "register_agent": "registry",
    "save_policy": "learned.own_models",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the module that holds ``name``."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
