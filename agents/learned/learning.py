"""Interface of a family to learned agents: learning problems, agents, and exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta
from sysgym.agents.learned.deploy.graph import Decided, PolicyGraph
from sysgym.agents.learned.problems import Problem, refuse_settings
from sysgym.agents.learned.trust.bound import Bound
from sysgym.agents.protocol import Agent
from sysgym.scenarios import Scenario, get_family
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.family import load_entry

Runner = Callable[..., Decided]
"""Exported policy as a function from observations, shape (n, size), and masks, if any, to decisions."""


class PolicyAgent(Agent, Protocol):
    """Agent that plays a checkpoint."""

    meta: CheckpointMeta
    """Metadata of the checkpoint."""


class Learning:
    """Interface of a family to learned agents; families declare an object of a subclass.

    The default methods suit policies of one plain network, from the observation to a continuous action or to
    a score for each discrete action.
    """

    def problem(
        self,
        scenario: Scenario,
        env_kwargs: Mapping[str, Any],
        action_scale: str,
        *,
        over_hosts: bool = False,
    ) -> Problem:
        """Return the learning problem of a scenario.

        Args:
            scenario: The scenario.
            env_kwargs: Other arguments of the environments.
            action_scale: Name of the action scale.
            over_hosts: Whether the policy applies one network to every host.

        Raises:
            SysgymError: If a setting is given that the family does not support.
        """
        refuse_settings(scenario, env_kwargs, action_scale)
        return self.only_problem(scenario)

    def problem_like(self, env: Any, scenario: Scenario) -> Problem:
        """Return the learning problem with the observations and actions of an environment.

        The reward may differ, because a trained policy does not depend on it.

        Args:
            env: The environment, without wrappers.
            scenario: The scenario of the problem, with the id of this environment.

        Raises:
            SysgymError: If a checkpoint cannot store the arguments of the environment.
        """
        return self.problem(scenario, {}, "log")

    def only_problem(self, scenario: Scenario) -> Problem:
        """Return the learning problem of a scenario in a family without settings for learning."""
        raise NotImplementedError

    def agent(self, checkpoint: Checkpoint, *, trust: bool = False) -> PolicyAgent:
        """Return the agent that plays a checkpoint.

        Args:
            checkpoint: The checkpoint; its network may be replaced by any function with the same signature.
            trust: Whether code in the checkpoint may run.

        Raises:
            SysgymError: If the policy cannot be played, or contains code and ``trust`` is not set.
        """
        raise NotImplementedError

    def exported_agent(self, checkpoint: Checkpoint, runner: Runner) -> Agent:
        """Return the agent that plays an exported policy.

        Args:
            checkpoint: Checkpoint from which the policy was exported, without its network.
            runner: Function that runs the exported policy.
        """
        raise NotImplementedError

    def graph(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint whose network is supported in NumPy."""
        raise NotImplementedError

    def chooses(self, meta: CheckpointMeta) -> bool:
        """Return whether the actions of the policy are discrete."""
        return "low" not in meta.action_scale

    def network(self, checkpoint: Checkpoint) -> Any:
        """Return a checkpoint's network as a function of the environment's observations."""
        return checkpoint.policy

    def graph_on_observations(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint, including networks for any number of parts."""
        return graph_of(checkpoint)

    def action_scale(self, meta: CheckpointMeta) -> str:
        """Return the name of the action scale of a checkpoint, as an argument of training."""
        return "log"

    def signature(self, observation_index: Sequence[str], *, over_hosts: bool = False) -> Sequence[str]:
        """Return the properties that two observations must share for one policy to play both."""
        return observation_index

    def bounds(self, env_id: str) -> Mapping[str, Bound] | None:
        """Return a mapping from kinds of features to bounds of their errors; None if all are exact."""
        return None


def learning_of(family: str) -> Learning:
    """Return the interface of a family to learned agents.

    Raises:
        UnknownName: If there is no such family.
        SysgymError: If the family's declaration names an object of another type.
    """
    entry = get_family(family).learning
    found = load_entry(entry)
    if not isinstance(found, Learning):
        raise SysgymError(f'the family "{family}": {entry} is no Learning')
    return found


def problem_of(
    scenario: Scenario, env_kwargs: Mapping[str, Any], action_scale: str, *, over_hosts: bool = False
) -> Problem:
    """Return the learning problem of a scenario; arguments and errors as in :meth:`Learning.problem`."""
    learning = learning_of(scenario.family)
    return learning.problem(scenario, env_kwargs, action_scale, over_hosts=over_hosts)


def agent_that(checkpoint: Checkpoint, answer: Callable[[Any], NDArray[Any]]) -> PolicyAgent:
    """Return the agent of a checkpoint with its network replaced by a function.

    Args:
        checkpoint: The checkpoint.
        answer: Function from the inputs of the network to its outputs.
    """
    network: Any = answer
    return learning_of(checkpoint.meta.family).agent(replace(checkpoint, policy=network))


def graph_of(checkpoint: Checkpoint) -> PolicyGraph:
    """Return the whole policy of a checkpoint.

    Observations are clipped to the bounds of the environment's space, because a deployed policy may receive
    values outside of it.

    Raises:
        SysgymError: If the network is not supported in NumPy, or is shared by all hosts.
    """
    if checkpoint.policy is None:
        raise SysgymError(
            f"{checkpoint.path}: its policy is neither a plain network (layers followed by tanh, ReLU or"
            " nothing) nor a set encoder; it cannot be exported"
        )
    return learning_of(checkpoint.meta.family).graph(checkpoint)


def network_on_observations(checkpoint: Checkpoint) -> Any:
    """Return a checkpoint's network as a function of its training environment's observations.

    Raises:
        SysgymError: If the network is not supported in NumPy.
    """
    if checkpoint.policy is None:
        raise SysgymError(f"{checkpoint.path}: its policy is not a network that runs without torch")
    return learning_of(checkpoint.meta.family).network(checkpoint)
