"""Agents by name.

A user's own agent is a class with ``name``, ``begin`` and ``act``, registered from the user's own file::

    from sysgym.agents import register_agent

    @register_agent("half")
    class Half:
        name = "half"
        def begin(self, env): self.shape = env.action_space.shape
        def act(self, observation): return np.full(self.shape, 0.5, np.float32)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any, TypeVar

from sysgym.agents.protocol import Agent
from sysgym.scenarios.errors import SysgymError, UnknownName

Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass(frozen=True)
class AgentInfo:
    """What is known of an agent before it is made.

    Attributes:
        name: What users type.
        summary: One line for lists.
        learned: Whether it needs a checkpoint.
        privileged: Whether it reads more than the observation.
        entry: ``module:factory`` or the factory itself.
    """

    name: str
    summary: str
    entry: str | Callable[..., Any]
    learned: bool = False
    privileged: bool = False

    def factory(self) -> Callable[..., Any]:
        """Return what makes the agent."""
        if not isinstance(self.entry, str):
            return self.entry
        module, _, attribute = self.entry.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), attribute)
        return found


def _heuristic(name: str, factory: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.congestion.{name}:{factory}", privileged=privileged)


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.agent:load_agent", learned=True)


_AGENTS: dict[str, AgentInfo] = {
    info.name: info
    for info in (
        _heuristic("max", "MaxAgent", "always the highest rate: the transport is left to itself"),
        _heuristic("random", "RandomAgent", "a uniformly random rate for every host, anew in every interval"),
        _heuristic(
            "fixed_fair",
            "FixedFairAgent",
            "every host's max-min fair share if all its flows were active, for good",
        ),
        _heuristic(
            "aimd", "AimdAgent", "additive increase, multiplicative decrease on marks and queues on the way"
        ),
        _heuristic(
            "oracle",
            "OracleAgent",
            "max-min fair rates of the flows active now, read off the network",
            privileged=True,
        ),
        _learned("ppo", "proximal policy optimisation (stable-baselines3)"),
        _learned("a2c", "advantage actor-critic (stable-baselines3)"),
        _learned("sac", "soft actor-critic (stable-baselines3)"),
        _learned("td3", "twin delayed deterministic policy gradient (stable-baselines3)"),
        _learned("ddpg", "deep deterministic policy gradient (stable-baselines3)"),
        _learned("tqc", "truncated quantile critics (sb3-contrib)"),
        _learned("trpo", "trust region policy optimisation (sb3-contrib)"),
    )
}


def register_agent(name: str, *, summary: str = "", privileged: bool = False) -> Callable[[Factory], Factory]:
    """Make an agent known by name; use as a decorator on its class or on a function that makes it.

    Args:
        name: What users type; registering it again replaces it.
        summary: One line for lists; the docstring's first line if absent.
        privileged: Whether it reads more than the observation.
    """

    def register(factory: Factory) -> Factory:
        first_line = (factory.__doc__ or "").strip().partition("\n")[0]
        _AGENTS[name] = AgentInfo(name, summary or first_line, factory, privileged=privileged)
        return factory

    return register


def list_agents() -> list[str]:
    """Return the names of all agents, heuristics first, in the order they were registered."""
    return list(_AGENTS)


def agent_info(name: str) -> AgentInfo:
    """Return what is known of an agent; raises UnknownName."""
    if name not in _AGENTS:
        raise UnknownName("agent", name, _AGENTS)
    return _AGENTS[name]


def make_agent(name: str, *, checkpoint: str | PathLike[str] | None = None, **parameters: Any) -> Agent:
    """Make an agent.

    Args:
        name: One of :func:`list_agents`.
        checkpoint: What training wrote; needed by learned agents, wrong for others.
        **parameters: Passed to the agent's class.

    Raises:
        UnknownName: If there is no such agent.
        SysgymError: If a checkpoint is missing, is not one, or is not of this agent.
    """
    info = agent_info(name)
    if info.learned:
        if checkpoint is None:
            raise SysgymError(
                f'the agent "{name}" is learned and needs a checkpoint: sysgym train {name} SCENARIO'
            )
        parameters = {"checkpoint": checkpoint, "expected": name, **parameters}
    elif checkpoint is not None:
        raise SysgymError(f'the agent "{name}" takes no checkpoint')
    agent: Agent = info.factory()(**parameters)
    return agent
