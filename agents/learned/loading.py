"""Checkpoints as agents."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from sysgym.agents.learned.agent import LearnedAgent
from sysgym.agents.learned.algorithms import get_algorithm
from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.scenarios.errors import SysgymError

if TYPE_CHECKING:
    from sysgym.agents.learned.placement.agent import ChoiceAgent
    from sysgym.agents.learned.stragglers.agent import TaskAgent


def load(checkpoint: str | PathLike[str], *, trust: bool = False) -> LearnedAgent | TaskAgent | ChoiceAgent:
    """Load a checkpoint: an agent of the family that it was trained in.

    Args:
        checkpoint: The file, which anyone may have made.
        trust: Whether code in it may run; needed by files of older versions with a pickle inside, and by
            policies made with classes of their maker's.

    Raises:
        SysgymError: If it is not one, or holds code that is not trusted.
        MissingExtra: If its policy needs torch, which is not installed.
    """
    found = read_checkpoint(checkpoint)
    family = found.meta.family
    if family == "placement":
        from sysgym.agents.learned.placement.agent import ChoiceAgent

        return ChoiceAgent(found)
    if family == "congestion" and get_algorithm(found.meta.agent).over_hosts:
        from sysgym.agents.learned.hosts.agent import HostsAgent

        return HostsAgent(found)
    if family != "stragglers":
        return LearnedAgent(found, trust=trust)
    from sysgym.agents.learned.stragglers.agent import TaskAgent

    if found.policy is None:
        raise SysgymError(f"{found.path}: its policy is not a plain network, and plays no jobs")
    return TaskAgent(found, found.policy)


def load_agent(
    *, checkpoint: str | PathLike[str], expected: str, trust: bool = False
) -> LearnedAgent | TaskAgent | ChoiceAgent:
    """Load a checkpoint and check whose it is; what ``make_agent`` calls.

    Raises:
        SysgymError: If it is of another algorithm.
    """
    agent = load(checkpoint, trust=trust)
    if agent.name != expected:
        raise SysgymError(f'{checkpoint}: a checkpoint of "{agent.name}", not of "{expected}"')
    return agent
