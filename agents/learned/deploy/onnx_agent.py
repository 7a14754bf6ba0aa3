"""Agent that plays an exported policy: ``sysgym run SCENARIO --agent onnx --checkpoint FILE.onnx``."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.deploy.onnx_file import OnnxRunner
from sysgym.agents.learned.learning import learning_of
from sysgym.agents.protocol import Agent
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]


def load_onnx(*, checkpoint: str | PathLike[str], expected: str = "onnx") -> Agent:
    """Load an exported policy as an agent of its family; called by ``make_agent``.

    Args:
        checkpoint: Path of the file.
        expected: Name of the agent, always ``onnx``.

    Raises:
        MissingExtra: If the extra ``export`` is not installed.
        SysgymError: If the file was not exported from a checkpoint, or its actions do not fit the family.
    """
    runner = OnnxRunner(checkpoint)
    meta = runner.meta()
    learning = learning_of(meta.family)
    if runner.chooses != learning.chooses(meta):
        raise SysgymError(f"{checkpoint}: its actions are of a different kind from those of {meta.family}")

    def scores(observations: NDArray[Any]) -> Array:
        return runner(observations).values

    # The exported file is used in place of the network.
    network: Any = scores
    found = Checkpoint(Path(checkpoint), meta, network, b"")
    return learning.exported_agent(found, runner)
