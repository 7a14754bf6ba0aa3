"""Checkpoints as agents."""

from __future__ import annotations

from os import PathLike

from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.learning import PolicyAgent, learning_of
from sysgym.scenarios.errors import SysgymError


def load(checkpoint: str | PathLike[str], *, trust: bool = False) -> PolicyAgent:
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
    return learning_of(found.meta.family).agent(found, trust=trust)


def load_agent(*, checkpoint: str | PathLike[str], expected: str, trust: bool = False) -> PolicyAgent:
    """Load a checkpoint and check whose it is; what ``make_agent`` calls.

    Raises:
        SysgymError: If it is of another algorithm.
    """
    agent = load(checkpoint, trust=trust)
    if agent.name != expected:
        raise SysgymError(f'{checkpoint}: a checkpoint of "{agent.name}", not of "{expected}"')
    return agent
