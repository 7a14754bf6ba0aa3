"""Base class of straggler agents, which converts predictions into flags, relaunches or copies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios.errors import SysgymError, UnknownName

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

ACTIONS = {"relaunch": 1, "copy": 2}
"""Actions that replace a flag in the mitigation environment."""

STRAGGLER_MULTIPLE = 1.5
"""Multiple of the median latency of finished tasks used as the threshold if it is unknown."""


class Predictor:
    """Base class of straggler agents; subclasses predict the stragglers.

    In ``StragglerPrediction-v0`` the action contains the flags raised so far. In ``StragglerMitigation-v0`` a
    flagged task is relaunched or copied once. Its latency is then no longer representative, so it counts
    neither as running nor as finished in later predictions.

    No task is flagged before a first one has finished, unless :attr:`waits` is False.

    Args:
        action: ``"relaunch"`` or ``"copy"``, in the mitigation environment.

    Attributes:
        mitigates: Whether this is the mitigation environment.

    Raises:
        UnknownName: If there is no such action.
    """

    name = ""
    waits = True

    def __init__(self, action: str = "relaunch") -> None:
        """Set the action; the class documentation describes it."""
        if action not in ACTIONS:
            raise UnknownName("straggler action", action, ACTIONS)
        self.action = action

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Forget the previous job.

        Raises:
            SysgymError: If the environment is not one of the straggler environments.
        """
        space = env.action_space
        if not isinstance(space, gym.spaces.MultiBinary | gym.spaces.MultiDiscrete):
            raise SysgymError(f'the agent "{self.name}" plays the straggler environments only')
        self.mitigates = isinstance(space, gym.spaces.MultiDiscrete)

    def act(self, observation: Any) -> NDArray[np.int8]:
        """Return the flags, or the action on every task, shape (tasks_max,)."""
        view = JobView.of(observation)
        known = view
        if self.mitigates:
            running, finished = view.running & ~view.flagged, view.finished & (view.attempts < 2)
            known = replace(view, running=running, finished=finished)
        chosen = np.zeros_like(view.running)
        if known.finished.any() or not self.waits:
            chosen = self.predict(known) & view.can_act & ~view.flagged
        action = np.zeros(view.tasks_max, dtype=np.int8)
        if self.mitigates:
            action[: view.n_tasks] = np.where(chosen, ACTIONS[self.action], 0)
        else:
            action[: view.n_tasks] = chosen | view.flagged
        return action

    def predict(self, view: JobView) -> BoolArray:
        """Return the mask of predicted stragglers, shape (n_tasks,); only running tasks count.

        Args:
            view: Observable state at this checkpoint.
        """
        raise NotImplementedError


def threshold_of(view: JobView) -> float:
    """Return the threshold in windows: the known one, or 1.5 times the median latency of finished tasks."""
    if np.isfinite(view.threshold):
        return float(view.threshold)
    return STRAGGLER_MULTIPLE * float(np.median(view.latency[view.finished]))
