"""Agent that plays a policy trained on single tasks in whole jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.sets.network import check_sizes
from sysgym.agents.learned.stragglers.features import feature_names, task_features
from sysgym.agents.stragglers.base import Predictor
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios.errors import SysgymError

FLAG = 1


class TaskAgent(Predictor):
    """Agent that evaluates the policy for every running task; in mitigation, flags become relaunches.

    Args:
        checkpoint: The checkpoint.
        scores: Function from features of tasks to the scores of waiting and flagging, shape (n, 2).
    """

    def __init__(self, checkpoint: Checkpoint, scores: Callable[[Any], NDArray[Any]]) -> None:
        super().__init__()
        self.meta = checkpoint.meta
        self.name = self.meta.agent
        self.env_kwargs = dict(self.meta.env_kwargs)
        self._path, self._scores = checkpoint.path, scores

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Begin an episode.

        Raises:
            SysgymError: If the environment's counters differ from those of the training.
        """
        super().begin(env)
        world: Any = env.unwrapped
        if feature_names(world.counter_names) != self.meta.observation_index:
            raise SysgymError(
                f"{self._path}: trained on {self.meta.scenario_name}, which has other counters than "
                f"{', '.join(world.counter_names)}"
            )
        check_sizes(self._scores, len(self.meta.observation_index), 2, self._path)

    def predict(self, view: JobView) -> NDArray[np.bool_]:
        """Return the mask of running tasks to flag, shape (n_tasks,)."""
        found = np.zeros(view.n_tasks, dtype=np.bool_)
        if view.running.any():
            found[view.running] = self._scores(task_features(view)).argmax(axis=1) == FLAG
        return found
