"""The declaration of an agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sysgym.scenarios.family import load_entry


@dataclass(frozen=True)
class AgentInfo:
    """Declaration of an agent.

    Attributes:
        name: What users type.
        summary: One line for lists.
        entry: Entry of its class or of a function that makes it, ``module:attribute``, or that itself.
        learned: Whether it needs a checkpoint.
        privileged: Whether it reads more than the observation.
        family: Family whose environments it plays; empty where it may serve several.
        trainer: Entry of a function that trains it; empty where it is not learned, or by stable-baselines3.
        env_id: The one environment of the family that it plays; empty where it plays all of them.
        transport: The transport that it brings; empty where it takes any, or has none.
        algorithm: Entry of its :class:`sysgym.agents.learned.training.algorithms.Algorithm`, where it is not
            one of the general ones.
        exporter: Entry of a function (path) -> :class:`sysgym.agents.learned.deploy.source.Source` that reads
            checkpoints of a form of its own for ``sysgym export``; empty where they are ordinary ones.
        checkpoint_suffix: Suffix of such checkpoints.
    """

    name: str
    summary: str
    entry: str | Callable[..., Any]
    learned: bool = False
    privileged: bool = False
    family: str = ""
    trainer: str = ""
    env_id: str = ""
    transport: str = ""
    algorithm: str = ""
    exporter: str = ""
    checkpoint_suffix: str = ".zip"

    @property
    def short_name(self) -> str:
        """Name within its family. The name has the family's prefix only where two families share it."""
        return self.name.removeprefix(f"{self.family}/")

    def factory(self) -> Callable[..., Any]:
        """Return what makes the agent."""
        if not isinstance(self.entry, str):
            return self.entry
        found: Callable[..., Any] = load_entry(self.entry)
        return found
