"""Loading of checkpoints as agents."""

from __future__ import annotations

from os import PathLike

from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.learning import PolicyAgent, learning_of
from sysgym.scenarios.errors import SysgymError


def load(checkpoint: str | PathLike[str], *, trust: bool = False) -> PolicyAgent:
    """Load a checkpoint as an agent of its family.

    Args:
        checkpoint: Path of the file, which may be untrusted.
        trust: Whether code in the file may run; required by files of older versions, which contain a pickle,
            and by policies with custom classes.

    Raises:
        SysgymError: If the file is not a checkpoint, or holds code and is not trusted.
        MissingExtra: If the policy needs torch, which is not installed.
    """
    found = read_checkpoint(checkpoint)
    return learning_of(found.meta.family).agent(found, trust=trust)


def load_agent(*, checkpoint: str | PathLike[str], expected: str, trust: bool = False) -> PolicyAgent:
    """Load a checkpoint and check its algorithm; called by ``make_agent``.

    Raises:
        SysgymError: If the checkpoint belongs to another algorithm.
    """
    agent = load(checkpoint, trust=trust)
    if agent.name != expected:
        raise SysgymError(f'{checkpoint}: a checkpoint of "{agent.name}", not of "{expected}"')
    return agent
