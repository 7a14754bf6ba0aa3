"""Interface of the collectives family to learned agents."""

from __future__ import annotations

from typing import Any

from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta
from sysgym.agents.learned.collectives.agent import CandidateAgent
from sysgym.agents.learned.collectives.candidates import CandidateChoice, candidate_vector
from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph, n_inputs
from sysgym.agents.learned.learning import Learning, PolicyAgent, Runner
from sysgym.agents.learned.problems import MASK, Problem
from sysgym.scenarios import Scenario


class CandidateLearning(Learning):
    """Learning of choices among masked candidates."""

    def only_problem(self, scenario: Scenario) -> Problem:
        """Return the learning problem of a scenario."""
        return CandidateChoice(scenario)

    def agent(self, checkpoint: Checkpoint, *, trust: bool = False) -> PolicyAgent:
        """Return the agent that plays a checkpoint."""
        return CandidateAgent(checkpoint)

    def exported_agent(self, checkpoint: Checkpoint, runner: Runner) -> PolicyAgent:
        """Return the agent that plays an exported policy."""
        return _Exported(checkpoint, runner)

    def graph(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint."""
        assert checkpoint.policy is not None
        return PolicyGraph(checkpoint.policy, Inputs(n_inputs(checkpoint.policy)), Choice(masked=True))

    def chooses(self, meta: CheckpointMeta) -> bool:
        """Return True: actions are discrete."""
        return True


class _Exported(CandidateAgent):
    """Agent that plays an exported file, which takes a mask."""

    def __init__(self, checkpoint: Checkpoint, runner: Runner) -> None:
        super().__init__(checkpoint)
        self.name, self._runner = "onnx", runner

    def act(self, observation: Any) -> int:
        mask = observation[MASK][None] > 0
        return int(self._runner(candidate_vector(observation)[None], mask).action[0])


LEARNING = CandidateLearning()
