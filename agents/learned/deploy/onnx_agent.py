"""An exported policy as an agent: ``sysgym run SCENARIO --agent onnx --checkpoint FILE.onnx``."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.agent import LearnedAgent
from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.deploy.onnx_file import OnnxRunner
from sysgym.agents.learned.placement.agent import ChoiceAgent
from sysgym.agents.learned.placement.choices import MASK, choice_vector
from sysgym.agents.learned.stragglers.agent import TaskAgent
from sysgym.agents.protocol import Agent
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]


class _Rates(LearnedAgent):
    """Rates come out of the file; the agent's own scale is not used."""

    def __init__(self, checkpoint: Checkpoint, runner: OnnxRunner) -> None:
        super().__init__(checkpoint)
        self.name, self._runner = "onnx", runner

    def act(self, observation: Any) -> Array:
        action: Array = self._runner(np.asarray(observation, np.float32)[None]).action[0]
        return self._action_for(action)


class _Choice(ChoiceAgent):
    """The file is told what is allowed, and chooses."""

    def __init__(self, checkpoint: Checkpoint, runner: OnnxRunner) -> None:
        super().__init__(checkpoint)
        self.name, self._runner = "onnx", runner

    def act(self, observation: Any) -> int:
        mask = observation[MASK][None] > 0
        return int(self._runner(choice_vector(observation)[None], mask).action[0])


class _Tasks(TaskAgent):
    """The file scores all running tasks as one batch."""

    def __init__(self, checkpoint: Checkpoint, runner: OnnxRunner) -> None:
        super().__init__(checkpoint, lambda features: runner(features).values)
        self.name = "onnx"


def load_onnx(*, checkpoint: str | PathLike[str], expected: str = "onnx") -> Agent:
    """Load an exported policy as an agent of the family that it was trained in; what ``make_agent`` calls.

    Args:
        checkpoint: The file.
        expected: The agent's name, always ``onnx``.

    Raises:
        MissingExtra: If the extra ``export`` is not installed.
        SysgymError: If the file was not exported from a checkpoint.
    """
    runner = OnnxRunner(checkpoint)
    meta = runner.meta()
    if runner.chooses == (meta.family == "congestion"):
        raise SysgymError(f"{checkpoint}: its actions are of another kind than those of {meta.family}")

    def scores(observations: NDArray[Any]) -> Array:
        return runner(observations).values

    # In the place of the network stands what gives the file's answers; nobody looks inside.
    network: Any = scores
    found = Checkpoint(Path(checkpoint), meta, network, b"")
    agents: dict[str, Any] = {"placement": _Choice, "stragglers": _Tasks}
    agent: Agent = agents.get(meta.family, _Rates)(found, runner)
    return agent
