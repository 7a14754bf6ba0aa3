"""Interface of the stragglers family to learned agents."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta
from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph, n_inputs
from sysgym.agents.learned.learning import Learning, PolicyAgent, Runner
from sysgym.agents.learned.problems import Problem
from sysgym.agents.learned.stragglers.agent import TaskAgent
from sysgym.agents.learned.stragglers.bounds import OF_TASKS
from sysgym.agents.learned.stragglers.features import LARGEST_RATIO
from sysgym.agents.learned.trust.bound import Bound
from sysgym.scenarios import Scenario
from sysgym.scenarios.errors import SysgymError


class TaskLearning(Learning):
    """Learning of flags for single tasks, from the features of each task."""

    def only_problem(self, scenario: Scenario) -> Problem:
        """Return the learning problem of a scenario."""
        from sysgym.agents.learned.stragglers.tasks import Tasks  # needs stable-baselines3

        return Tasks(scenario)

    def agent(self, checkpoint: Checkpoint, *, trust: bool = False) -> PolicyAgent:
        """Return the agent that plays a checkpoint."""
        if checkpoint.policy is None:
            raise SysgymError(f"{checkpoint.path}: its policy is not a plain network, and plays no jobs")
        return TaskAgent(checkpoint, checkpoint.policy)

    def exported_agent(self, checkpoint: Checkpoint, runner: Runner) -> PolicyAgent:
        """Return the agent that plays an exported policy, with all running tasks as one batch."""
        agent = TaskAgent(checkpoint, lambda features: runner(features).values)
        agent.name = "onnx"
        return agent

    def graph(self, checkpoint: Checkpoint) -> PolicyGraph:
        """Return the whole policy of a checkpoint."""
        assert checkpoint.policy is not None
        size = n_inputs(checkpoint.policy)
        bound = np.full(size, LARGEST_RATIO, np.float32)
        return PolicyGraph(checkpoint.policy, Inputs(size, low=-bound, high=bound), Choice(masked=False))

    def chooses(self, meta: CheckpointMeta) -> bool:
        """Return True: actions are discrete."""
        return True

    def bounds(self, env_id: str) -> Mapping[str, Bound] | None:
        """Return a mapping from kinds of features to bounds of their measurement errors."""
        return OF_TASKS


LEARNING = TaskLearning()
