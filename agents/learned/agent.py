"""A trained policy as an agent."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from os import PathLike
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.actions import ActionScale
from sysgym.agents.learned.algorithms import get_algorithm
from sysgym.agents.learned.checkpoint import Checkpoint, read_checkpoint
from sysgym.scenarios.errors import SysgymError

if TYPE_CHECKING:
    from sysgym.agents.learned.placement.agent import ChoiceAgent
    from sysgym.agents.learned.stragglers.agent import TaskAgent

Array = NDArray[np.float32]


class LearnedAgent:
    """Plays the mean action of a checkpoint's policy: no exploration.

    Args:
        checkpoint: As read.

    Attributes:
        name: Of the algorithm.
        env_kwargs: What the environment must be made with for this policy.
        meta: What the checkpoint belongs to.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.meta = checkpoint.meta
        self.name = self.meta.agent
        self.env_kwargs = dict(self.meta.env_kwargs)
        self._path = checkpoint.path
        self._scale = ActionScale(**self.meta.action_scale)
        self._policy: Callable[[Any], NDArray[Any]] = checkpoint.policy or _torch_policy(checkpoint)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check that the environment is of the kind that the policy was trained on.

        Raises:
            SysgymError: If it is not.
        """
        index = getattr(env.unwrapped, "observation_index", None)
        if index != self.meta.observation_index:
            got, expected = _first_difference(index or [], self.meta.observation_index)
            raise SysgymError(
                f"{self._path}: trained on {self.meta.scenario_name}, whose observation is another: "
                f"{expected} where this environment has {got}"
            )

    def act(self, observation: Any) -> Array:
        """Return the policy's rates."""
        return self._scale.rates(self._policy(observation))


def _first_difference(got: list[str], expected: list[str]) -> tuple[str, str]:
    for a, b in zip(got, expected, strict=False):
        if a != b:
            return a, b
    return f"{len(got)} values", f"{len(expected)} values"


def _torch_policy(checkpoint: Checkpoint) -> Callable[[Any], NDArray[Any]]:
    """Return the policy of a network that NumPy does not know."""
    model = get_algorithm(checkpoint.meta.agent).load_class().load(BytesIO(checkpoint.model), device="cpu")

    def mean_action(observation: Any) -> NDArray[Any]:
        action: NDArray[Any] = model.predict(observation, deterministic=True)[0]
        return action

    return mean_action


def load(checkpoint: str | PathLike[str]) -> LearnedAgent | TaskAgent | ChoiceAgent:
    """Load a checkpoint: an agent of the family that it was trained in.

    Raises:
        SysgymError: If it is not one.
        MissingExtra: If its policy needs torch, which is not installed.
    """
    found = read_checkpoint(checkpoint)
    family = found.meta.scenario["family"]
    if family == "placement":
        from sysgym.agents.learned.placement.agent import ChoiceAgent

        return ChoiceAgent(found)
    if family == "congestion" and get_algorithm(found.meta.agent).over_hosts:
        from sysgym.agents.learned.hosts.agent import HostsAgent

        return HostsAgent(found)
    if family != "stragglers":
        return LearnedAgent(found)
    from sysgym.agents.learned.stragglers.agent import TaskAgent

    if found.policy is None:
        raise SysgymError(f"{found.path}: its policy is not a plain network, and plays no jobs")
    return TaskAgent(found, found.policy)


def load_agent(*, checkpoint: str | PathLike[str], expected: str) -> LearnedAgent | TaskAgent | ChoiceAgent:
    """Load a checkpoint and check whose it is; what ``make_agent`` calls.

    Raises:
        SysgymError: If it is of another algorithm.
    """
    agent = load(checkpoint)
    if agent.name != expected:
        raise SysgymError(f'{checkpoint}: a checkpoint of "{agent.name}", not of "{expected}"')
    return agent
