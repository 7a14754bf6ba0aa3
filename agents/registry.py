"""Agents by name, collected from ``AGENTS`` of every family, such as ``agents/congestion/__init__.py``.

A user's own agent is a class with ``name``, ``begin`` and ``act``, registered from the user's own file::

    from sysgym.agents import register_agent

    @register_agent("half")
    class Half:
        name = "half"
        def begin(self, env): self.shape = env.action_space.shape
        def act(self, observation): return np.full(self.shape, 0.5, np.float32)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from threading import RLock
from typing import Any, TypeVar

from sysgym.agents.arguments import check_types
from sysgym.agents.info import Agent, AgentInfo
from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.families import families, warn_unusable
from sysgym.scenarios.family import Family, load_entry

__all__ = ["AgentInfo", "agent_info", "list_agents", "make_agent", "register_agent"]

Factory = TypeVar("Factory", bound=Callable[..., Any])


GENERAL = "sysgym.agents.learned.catalogue:AGENTS"
"""Entry point of the learned agents that are available for every family."""

_AGENTS: dict[str, AgentInfo] = {}
_collected: set[str] = set()
_collecting = RLock()


def _agents() -> dict[str, AgentInfo]:
    """Return all agents by name, including those of every loaded family."""
    with _collecting:  # another thread must not see an incomplete registry
        _collect()
    return _AGENTS


def _collect() -> None:
    """Add the agents of families that have been loaded since the last call."""
    new = {name: family for name, family in families().items() if name not in _collected}
    if new:
        _collected.update(new)
        found = {**_AGENTS} or {info.name: info for info in load_entry(GENERAL)}
        for name, family in new.items():
            for info in _declared(family):
                # If two families have an agent of the same name, the later one is prefixed by its family.
                own = replace(
                    info, family=name, name=f"{name}/{info.name}" if info.name in found else info.name
                )
                found[own.name] = own
        _AGENTS.clear()
        _AGENTS.update(sorted(found.items(), key=lambda item: item[1].learned))


def _declared(family: Family) -> Sequence[AgentInfo]:
    try:
        agents: Sequence[AgentInfo] = load_entry(family.agents)
    except Exception as error:
        if family.agents.startswith("sysgym."):
            raise
        warn_unusable(f'the agents of the family "{family.name}"', family.agents.partition(":")[0], error)
        return ()
    return agents


def register_agent(
    name: str, *, summary: str = "", privileged: bool = False, family: str = ""
) -> Callable[[Factory], Factory]:
    """Register an agent by name; use as a decorator on its class or factory.

    Args:
        name: Name of the agent; registering it again replaces it.
        summary: One-line description for lists; if empty, the docstring's first line.
        privileged: Whether it reads more than the observation.
        family: Family whose environments it plays; empty: any.
    """

    def register(factory: Factory) -> Factory:
        first_line = (factory.__doc__ or "").strip().partition("\n")[0]
        _agents()[name] = AgentInfo(
            name, summary or first_line, factory, privileged=privileged, family=family
        )
        return factory

    return register


def list_agents(family: str | None = None) -> list[str]:
    """Return the names of agents, heuristics first, in the order they were registered.

    Args:
        family: Only agents that may play this family, by their names within it; None: all agents.
    """
    if family is None:
        return list(_agents())
    return [info.short_name for info in _agents().values() if info.family in ("", family)]


def agent_info(name: str, family: str | None = None) -> AgentInfo:
    """Return the declaration of an agent.

    Args:
        name: One of :func:`list_agents`.
        family: Family of the agent, if several families have an agent of that name, such as ``oracle``.

    Raises:
        UnknownName: If there is no such agent.
    """
    known = _agents()
    if f"{family}/{name}" in known:
        return known[f"{family}/{name}"]
    if name not in known:
        raise UnknownName("agent", name, known)
    return known[name]


def make_agent(
    name: str,
    *,
    checkpoint: str | PathLike[str] | None = None,
    family: str | None = None,
    trust: bool = False,
    **parameters: Any,
) -> Agent:
    """Make an agent.

    Args:
        name: One of :func:`list_agents`.
        checkpoint: Path of the checkpoint; required by learned agents, not allowed for others.
        family: Family of the agent, if several families have an agent of that name, such as ``oracle``.
        trust: Whether code in the checkpoint may run; see docs/trust.md.
        **parameters: Passed to the agent's class.

    Raises:
        UnknownName: If there is no such agent.
        SysgymError: If the checkpoint is missing, invalid or belongs to another agent, or if the agent has no
            such parameter or rejects its value.
    """
    info = agent_info(name, family)
    given = parameters
    if info.learned:
        if checkpoint is None:
            raise SysgymError(
                f'the agent "{name}" is learned and needs a checkpoint: sysgym train {name} SCENARIO'
                " (sysgym list policies lists those in the package, and the scenarios that they play)"
            )
        if reserved := {"checkpoint", "expected", "trust"} & set(parameters):
            raise SysgymError(f'the agent "{name}" has no parameter {", ".join(sorted(reserved))}')
        parameters = {"checkpoint": checkpoint, "expected": name, **parameters}
        if trust and "trust" in inspect.signature(info.factory()).parameters:
            parameters["trust"] = True
    elif checkpoint is not None:
        raise SysgymError(f'the agent "{name}" takes no checkpoint')
    factory = info.factory()
    try:
        inspect.signature(factory).bind(**parameters)
    except TypeError as error:
        raise SysgymError(f'the agent "{name}" cannot be made with {parameters}: {error}') from error
    check_types(info.short_name, factory, given)
    try:
        agent: Agent = factory(**parameters)
    except TypeError as error:
        if not parameters:
            raise
        raise SysgymError(f'the agent "{name}" cannot be made with {parameters}: {error}') from error
    return agent
