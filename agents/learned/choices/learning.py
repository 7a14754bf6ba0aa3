"""Interface of families with masked choices to learned agents."""

from __future__ import annotations

from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta
from sysgym.agents.learned.choices.agent import ChoiceAgent, ExportedChoiceAgent
from sysgym.agents.learned.choices.problem import Choices
from sysgym.agents.learned.choices.reading import Reading
from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph, n_inputs
from sysgym.agents.learned.learning import Learning, PolicyAgent, Runner
from sysgym.agents.learned.problems import Problem
from sysgym.scenarios import Scenario


class ChoiceLearning(Learning):
    """Learning of choices among masked actions.

    Args:
        reading: Conversion of the family's observations to vectors.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def only_problem(self, scenario: Scenario) -> Problem:
        """Return the learning problem of a scenario."""
        return Choices(scenario, self._reading)

    def agent(self, checkpoint: Checkpoint, *, trust: bool = False) -> PolicyAgent:
        """Return the agent that plays a checkpoint."""
        return ChoiceAgent(checkpoint, self._reading)

    def exported_agent(self, checkpoint: Checkpoint, runner: Runner) -> PolicyAgent:
        """Return the agent that plays an exported policy."""
        return ExportedChoiceAgent(checkpoint, self._reading, runner)

    def graph(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint."""
        assert checkpoint.policy is not None
        return PolicyGraph(checkpoint.policy, Inputs(n_inputs(checkpoint.policy)), Choice(masked=True))

    def chooses(self, meta: CheckpointMeta) -> bool:
        """Return True: actions are discrete."""
        return True
