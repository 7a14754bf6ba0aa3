"""Base of learners: features without the future, one thread, and lazy import of scikit-learn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.stragglers.predictor import BoolArray, FloatArray, Predictor, threshold_of
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios.errors import MissingExtra, UnknownName

EXTRA = "stragglers"

FEATURES = ("mean", "mean+last")
"""Counters' means over the attempt's life so far, without or with those of the last complete window."""

FIRST_WINDOW = 1.0 - 1e-3
"""A task that has run less has measured nothing; single precision may leave a whole window a little short."""


@dataclass(frozen=True)
class Checkpoint:
    """What a learner is fitted to.

    Features are scaled to [0, 1] by the smallest and largest value among finished tasks; running tasks may
    lie outside. Times are in windows.

    Attributes:
        x_finished: Shape (n_finished, n_features).
        latency: Of finished tasks, shape (n_finished,).
        x_running: Of running tasks with at least one complete window, shape (n_running, n_features).
        elapsed: Of the same, shape (n_running,).
        threshold: From which latency a task is a straggler.
    """

    x_finished: FloatArray
    latency: FloatArray
    x_running: FloatArray
    elapsed: FloatArray
    threshold: float


class Learner(Predictor):
    """Base of learners that are fitted anew at every checkpoint, to this job alone.

    Args:
        features: One of :data:`FEATURES`.
        action: As of every straggler agent.

    Raises:
        UnknownName: If there are no such features.
        MissingExtra: When an episode begins and the extra is not installed.
    """

    extra: str | None = "sklearn"
    least_finished = 2
    """Finished tasks without which nothing can be fitted."""

    def __init__(self, features: str = "mean", action: str = "relaunch") -> None:
        """Choose the features; the class documentation describes them."""
        super().__init__(action)
        if features not in FEATURES:
            raise UnknownName("straggler features", features, FEATURES)
        self.features = features

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Forget the previous job.

        Raises:
            MissingExtra: If the extra is not installed.
        """
        super().begin(env)
        if self.extra is not None:
            load(self.extra, None, self.name)

    def predict(self, view: JobView) -> BoolArray:
        """Fit to finished tasks and judge running ones."""
        chosen = np.zeros_like(view.running)
        now, running = checkpoint_of(view, self.features)
        if len(running) and len(now.latency) >= self.least_finished and now.x_finished.shape[1]:
            with one_thread():
                chosen[running] = self.flags(now)
        return chosen

    def flags(self, now: Checkpoint) -> BoolArray:
        """Return which of the running tasks will be stragglers, shape (n_running,)."""
        raise NotImplementedError


def checkpoint_of(view: JobView, features: str = "mean") -> tuple[Checkpoint, np.ndarray[Any, Any]]:
    """Return what learners are fitted to, and the indices of the running tasks in it.

    Counters that are the same in all finished tasks say nothing and are dropped.

    Args:
        view: What is known at this checkpoint.
        features: One of :data:`FEATURES`.
    """
    x = np.asarray(view.x if features == "mean" else np.hstack([view.x, view.last]), dtype=np.float64)
    running = np.flatnonzero(view.running & (view.elapsed >= FIRST_WINDOW))
    x_finished, x_running = scaled(x[view.finished], x[running])
    latency = np.asarray(view.latency[view.finished], dtype=np.float64)
    elapsed = np.asarray(view.elapsed[running], dtype=np.float64)
    threshold = threshold_of(view) if len(latency) else np.nan
    return Checkpoint(x_finished, latency, x_running, elapsed, threshold), running


def scaled(finished: FloatArray, running: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale columns by the range of finished tasks and drop those without one.

    The published evaluation of NURD scaled by the range of all tasks at their ends, which nobody knows while
    they run.

    Args:
        finished: Shape (n_finished, n_columns).
        running: Shape (n_running, n_columns).
    """
    if len(finished) == 0:
        return finished[:, :0], running[:, :0]
    low, high = finished.min(axis=0), finished.max(axis=0)
    # Counters come in single precision: a range below it is rounding.
    varies = high - low > 1e-6 * np.maximum(np.abs(low), np.abs(high))
    low, span = low[varies], (high - low)[varies]
    return (finished[:, varies] - low) / span, (running[:, varies] - low) / span


def load(module: str, attribute: str | None, feature: str) -> Any:
    """Import from a package of the extra.

    Args:
        module: Full name of the module.
        attribute: What is wanted of it; None: the module.
        feature: What needs it, for the message.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        found = import_module(module)
    except ImportError as error:
        raise MissingExtra(EXTRA, f"the agent {feature}") from error
    return found if attribute is None else getattr(found, attribute)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Keep native threads to one: matrices are small, and results must not depend on the machine."""
    controller = _thread_pools()
    if controller is None:
        yield
        return
    with controller.limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _thread_pools() -> Any:
    """Return the controller of the pools that are loaded; finding them takes milliseconds, so it is kept."""
    try:
        import_module("sklearn.ensemble")
        return import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None
