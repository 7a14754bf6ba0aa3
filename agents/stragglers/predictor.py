"""Base of straggler agents: a prediction for every task becomes flags, or relaunches and copies."""

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
"""What a flag becomes in the mitigation environment."""

STRAGGLER_MULTIPLE = 1.5
"""Of the median of finished tasks: the threshold where the scenario does not give one."""


class Predictor:
    """Base of straggler agents: subclasses say which tasks will be stragglers.

    In ``StragglerPrediction-v0`` the action is the flags raised so far. In ``StragglerMitigation-v0`` a task
    that is flagged is relaunched, or copied, once; from then on its latency says little about tasks that were
    left alone, and it counts neither as running nor as finished for the prediction.

    Nothing is flagged before a first task has finished, unless :attr:`waits` is False.

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
            SysgymError: If the environment is neither of the two.
        """
        space = env.action_space
        if not isinstance(space, gym.spaces.MultiBinary | gym.spaces.MultiDiscrete):
            raise SysgymError(f'the agent "{self.name}" plays the straggler environments only')
        self.mitigates = isinstance(space, gym.spaces.MultiDiscrete)

    def act(self, observation: Any) -> NDArray[np.int8]:
        """Return flags, or what to do to every task, shape (tasks_max,)."""
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
        """Return which tasks will be stragglers, shape (n_tasks,); only running ones count.

        Args:
            view: What is known at this checkpoint.
        """
        raise NotImplementedError


def threshold_of(view: JobView) -> float:
    """Return the threshold in windows: the known one, or else 1.5 times the median of finished tasks."""
    if np.isfinite(view.threshold):
        return float(view.threshold)
    return STRAGGLER_MULTIPLE * float(np.median(view.latency[view.finished]))


def episode_rng(env: gym.Env[Any, Any], stream: int) -> np.random.Generator:
    """Return an agent's own generator, seeded by the episode.

    Args:
        env: The environment, after its reset.
        stream: Keeps the agent's numbers apart from those of the job, which has the same seed.
    """
    seed = getattr(env.unwrapped, "episode_seed", None)
    return np.random.default_rng([stream, 0 if seed is None else int(seed)])
