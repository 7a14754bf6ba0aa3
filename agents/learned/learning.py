"""A family as learned agents see it: problems to train on, policies to play, graphs to export."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta
from sysgym.agents.learned.deploy.graph import Decided, PolicyGraph
from sysgym.agents.learned.problems import Problem
from sysgym.agents.learned.trust.bound import Bound
from sysgym.agents.protocol import Agent
from sysgym.scenarios import Scenario, get_family
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.family import load_entry

Runner = Callable[..., Decided]
"""Answers of an exported policy: observations, shape (n, size), and masks where it has some -> decisions."""


class PolicyAgent(Agent, Protocol):
    """An agent that plays a checkpoint."""

    meta: CheckpointMeta
    """What the checkpoint belongs to."""


class Learning:
    """How learned agents see a family; families derive from it and declare an object.

    The methods that are not overridden suit policies that are one plain network, from the observation to the
    numbers of an action or to a score for each action.
    """

    def problem(
        self,
        scenario: Scenario,
        env_kwargs: Mapping[str, Any],
        action_scale: str,
        *,
        over_hosts: bool = False,
    ) -> Problem:
        """Return a scenario as a learner sees it.

        Args:
            scenario: The scenario.
            env_kwargs: What else the environments are made with.
            action_scale: Name of the action scale.
            over_hosts: Whether the learner is one network for every host.

        Raises:
            SysgymError: A setting is chosen that the family does not have.
        """
        raise NotImplementedError

    def agent(self, checkpoint: Checkpoint, *, trust: bool = False) -> PolicyAgent:
        """Return the agent that plays a checkpoint.

        Args:
            checkpoint: As read; instead of its network it may have any function with the same answers.
            trust: Whether code in the checkpoint may run.

        Raises:
            SysgymError: The policy cannot be played, or not without trust.
        """
        raise NotImplementedError

    def exported_agent(self, checkpoint: Checkpoint, runner: Runner) -> Agent:
        """Return the agent that plays an exported policy.

        Args:
            checkpoint: What the policy was exported from, without its network.
            runner: Gives the policy's answers.
        """
        raise NotImplementedError

    def graph(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint whose network is one that NumPy plays."""
        raise NotImplementedError

    def chooses(self, meta: CheckpointMeta) -> bool:
        """Return whether an action of the policy is one of a few."""
        return "low" not in meta.action_scale

    def network(self, checkpoint: Checkpoint) -> Any:
        """Return a checkpoint's network as a function of the environment's observations."""
        return checkpoint.policy

    def graph_on_observations(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint, also where its network serves any number of parts."""
        return graph_of(checkpoint)

    def action_scale(self, meta: CheckpointMeta) -> str:
        """Return the name with which training is asked for the action scale of a checkpoint."""
        return "log"

    def signature(self, observation_index: Sequence[str], *, over_hosts: bool = False) -> Sequence[str]:
        """Return what two observations must share for one policy to play both."""
        return observation_index

    def bounds(self, env_id: str) -> Mapping[str, Bound] | None:
        """Return kind of feature -> largest error of its measurement; None where nothing is measured."""
        return None


def learning_of(family: str) -> Learning:
    """Return how learned agents see a family.

    Raises:
        UnknownName: There is no such family.
        SysgymError: Its declaration names something else.
    """
    entry = get_family(family).learning
    found = load_entry(entry)
    if not isinstance(found, Learning):
        raise SysgymError(f'the family "{family}": {entry} is no Learning')
    return found


def problem_of(
    scenario: Scenario, env_kwargs: Mapping[str, Any], action_scale: str, *, over_hosts: bool = False
) -> Problem:
    """Return a scenario as a learner sees it; arguments and errors as of :meth:`Learning.problem`."""
    learning = learning_of(scenario.family)
    return learning.problem(scenario, env_kwargs, action_scale, over_hosts=over_hosts)


def agent_that(checkpoint: Checkpoint, answer: Callable[[Any], NDArray[Any]]) -> PolicyAgent:
    """Return the checkpoint's agent with something else in the place of its network.

    Args:
        checkpoint: Whose agent.
        answer: Maps what the network would see to what it would put out.
    """
    network: Any = answer
    return learning_of(checkpoint.meta.family).agent(replace(checkpoint, policy=network))


def graph_of(checkpoint: Checkpoint) -> PolicyGraph:
    """Return the whole policy of a checkpoint.

    Observations are clipped to the bounds of the environment's space, which changes nothing in it: what a
    deployed policy is given may be anything.

    Raises:
        SysgymError: If its network is not one that NumPy plays, or one for every host.
    """
    if checkpoint.policy is None:
        raise SysgymError(
            f"{checkpoint.path}: its policy is no plain network (layers with tanh, ReLU or nothing"
            " after them) and no set encoder; it cannot be exported"
        )
    return learning_of(checkpoint.meta.family).graph(checkpoint)


def network_on_observations(checkpoint: Checkpoint) -> Any:
    """Return a checkpoint's network, from the observations of the environment that it was trained on.

    Raises:
        SysgymError: If NumPy does not play it.
    """
    if checkpoint.policy is None:
        raise SysgymError(f"{checkpoint.path}: its policy is no network that plays without torch")
    return learning_of(checkpoint.meta.family).network(checkpoint)
