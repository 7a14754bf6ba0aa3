"""Protocol of agents, and the declaration of an agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym

from sysgym.scenarios.family import load_entry


@runtime_checkable
class Agent(Protocol):
    """Protocol of an agent, which maps observations to actions.

    Two attributes are optional: ``privileged = True`` marks an agent that reads more than the observation
    (a reference, not a competitor), and ``env_kwargs`` is a dict of arguments that the environment must be
    created with for this agent. A class may also define a class method ``check_arguments(arguments)`` for
    checks beyond types; it is called before anything runs.

    Attributes:
        name: Name of the agent in tables.
    """

    name: str

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Begin an episode; called after every ``env.reset()``."""

    def act(self, observation: Any) -> Any:
        """Return the action for an observation."""


@dataclass(frozen=True)
class AgentInfo:
    """Declaration of an agent.

    Attributes:
        name: Name of the agent.
        summary: One-line description for lists.
        entry: Entry point of its class or factory, ``module:attribute``, or the object itself.
        learned: Whether it needs a checkpoint, which was trained on episodes of a train split.
        fits_train_split: Whether it is fitted to episodes of the train split when it begins, without a
            checkpoint. If neither this nor ``learned`` is set, the agent uses only the episode that it plays.
        privileged: Whether it reads more than the observation.
        family: Family whose environments it plays; empty if it may play several.
        trainer: Entry point of a function that trains it; empty if it is not learned, or trained by
            stable-baselines3.
        over_hosts: Whether the policies of its own trainer apply one function to every host, for any number
            of hosts.
        env_id: The only environment of the family that it plays; empty if it plays all of them.
        transport: Transport that it requires; empty if it accepts any, or has none.
        algorithm: Entry point of its :class:`sysgym.agents.learned.training.algorithms.Algorithm`, if it is
            not a general one.
        exporter: Entry point of a function (path) -> :class:`sysgym.agents.learned.deploy.source.Source` that
            reads checkpoints of a special format for ``sysgym export``; empty for ordinary checkpoints.
        checkpoint_suffix: Suffix of checkpoints of that format.
    """

    name: str
    summary: str
    entry: str | Callable[..., Any]
    learned: bool = False
    fits_train_split: bool = False
    privileged: bool = False
    family: str = ""
    trainer: str = ""
    over_hosts: bool = False
    env_id: str = ""
    transport: str = ""
    algorithm: str = ""
    exporter: str = ""
    checkpoint_suffix: str = ".zip"

    @property
    def short_name(self) -> str:
        """Name within the family; the full name has the family as a prefix only if names collide."""
        return self.name.removeprefix(f"{self.family}/")

    def factory(self) -> Callable[..., Any]:
        """Return the class or function that makes the agent."""
        if not isinstance(self.entry, str):
            return self.entry
        found: Callable[..., Any] = load_entry(self.entry)
        return found
