"""Oracle: the true stragglers, read from the job. A privileged reference."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.stragglers.base import BoolArray, Predictor
from sysgym.emulator.cluster.job import Job
from sysgym.envs.stragglers.view import JobView


class OracleAgent(Predictor):
    """Flags exactly the stragglers, as early as possible.

    In the mitigation environment, the oracle acts on a straggler only if a second attempt started now ends
    before the first. It neither weighs waste against time nor allocates scarce machines, so it is a reference
    for prediction, not for scheduling.
    """

    name = "oracle"
    privileged = True
    waits = False

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Read the job's future."""
        super().begin(env)
        world: Any = env.unwrapped
        self._job: Job = world.job
        self._stragglers: BoolArray = self._job.stragglers(world.threshold_s)

    def predict(self, view: JobView) -> BoolArray:
        """Return the stragglers."""
        if not self.mitigates:
            return self._stragglers.copy()
        if self._job.n_attempts < 2:
            return np.zeros_like(self._stragglers)
        left_s = self._job.duration_s[:, 0] - view.elapsed * self._job.window_s
        return np.asarray(self._stragglers & (self._job.duration_s[:, 1] < left_s))
