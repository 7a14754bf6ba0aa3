"""Base class of learners: online features, single-threaded fits, and lazy import of scikit-learn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.stragglers.base import BoolArray, FloatArray, Predictor, threshold_of
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios.errors import MissingExtra, UnknownName

EXTRA = "stragglers"

FEATURES = ("mean", "mean+last")
"""Feature sets: means of counters over the attempt so far, without or with the last complete window."""

FIRST_WINDOW = 1.0 - 1e-3
"""Least running time with a measurement: one window, less rounding in single precision."""


@dataclass(frozen=True)
class Checkpoint:
    """Training data of a learner at a checkpoint.

    Features are scaled to [0, 1] by the range of finished tasks; those of running tasks may lie outside.
    Times are in windows.

    Attributes:
        x_finished: Features of finished tasks, shape (n_finished, n_features).
        latency: Latency of finished tasks, shape (n_finished,).
        x_running: Features of running tasks with at least one complete window, shape (n_running, n_features).
        elapsed: Running time of the same tasks, shape (n_running,).
        threshold: Latency at and above which a task is a straggler.
    """

    x_finished: FloatArray
    latency: FloatArray
    x_running: FloatArray
    elapsed: FloatArray
    threshold: float


class Learner(Predictor):
    """Base class of learners that are fitted at every checkpoint, to the current job alone.

    Args:
        features: One of :data:`FEATURES`.
        action: See :class:`~sysgym.agents.stragglers.base.Predictor`.

    Raises:
        UnknownName: If there is no such feature set.
        MissingExtra: When an episode begins and the extra is not installed.
    """

    extra: str | None = "sklearn"
    least_finished = 2
    """Smallest number of finished tasks for a fit."""

    def __init__(self, features: str = "mean", action: str = "relaunch") -> None:
        """Set the features; the class documentation describes them."""
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
        """Fit to finished tasks and predict running ones."""
        chosen = np.zeros_like(view.running)
        now, running = checkpoint_of(view, self.features)
        if len(running) and len(now.latency) >= self.least_finished and now.x_finished.shape[1]:
            with one_thread():
                chosen[running] = self.flags(now)
        return chosen

    def flags(self, now: Checkpoint) -> BoolArray:
        """Return the mask of running tasks that will be stragglers, shape (n_running,)."""
        raise NotImplementedError


def checkpoint_of(view: JobView, features: str = "mean") -> tuple[Checkpoint, np.ndarray[Any, Any]]:
    """Return the training data of learners, and the indices of its running tasks.

    Counters that are constant over finished tasks are dropped.

    Args:
        view: Observable state at this checkpoint.
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
    """Return columns scaled by the range of finished tasks, without constant ones.

    The published evaluation of NURD scaled by the range of all tasks at their ends, which is unknown while
    they run.

    Args:
        finished: Shape (n_finished, n_columns).
        running: Shape (n_running, n_columns).
    """
    if len(finished) == 0:
        return finished[:, :0], running[:, :0]
    low, high = finished.min(axis=0), finished.max(axis=0)
    # Counters have single precision, so a smaller range is rounding error.
    varies = high - low > 1e-6 * np.maximum(np.abs(low), np.abs(high))
    low, span = low[varies], (high - low)[varies]
    return (finished[:, varies] - low) / span, (running[:, varies] - low) / span


def load(module: str, attribute: str | None, feature: str) -> Any:
    """Import a module of an optional package, or an attribute of it.

    Args:
        module: Full name of the module.
        attribute: Name of the attribute; None: the module.
        feature: Name of the feature that requires it, for the message.

    Raises:
        MissingExtra: If the package is not installed.
    """
    try:
        found = import_module(module)
    except ImportError as error:
        raise MissingExtra(EXTRA, f"the agent {feature}") from error
    return found if attribute is None else getattr(found, attribute)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit native libraries to one thread: matrices are small, and results must not vary by machine."""
    controller = _thread_pools()
    if controller is None:
        yield
        return
    with controller.limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _thread_pools() -> Any:
    """Return the controller of loaded thread pools; cached, because finding them takes milliseconds."""
    try:
        import_module("sklearn.ensemble")
        return import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None
