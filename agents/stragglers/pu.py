"""Positive-unlabelled learning, with finished tasks as labelled and running tasks as unlabelled examples.

In the original methods the labelled examples are positive. Here the labelled class consists of finished
tasks, which are not stragglers, and tasks unlike them are flagged.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import episode_rng
from sysgym.agents.stragglers.base import BoolArray, FloatArray
from sysgym.agents.stragglers.learner import Checkpoint, Learner, load

STREAM = 0x90B5


class _PuLearner(Learner):
    """Base class of randomised learners, with a generator seeded by the episode."""

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Forget the previous job."""
        super().begin(env)
        self._rng = episode_rng(env, STREAM)

    def _margin(self, labelled: FloatArray, unlabelled: FloatArray) -> Any:
        """Return the margin of a support vector machine, positive for labelled examples."""
        x = np.vstack([labelled, unlabelled])
        return (
            load("sklearn.svm", "SVC", self.name)()
            .fit(x, np.repeat([1, 0], [len(labelled), len(unlabelled)]))
            .decision_function
        )


class PuElkanNotoAgent(_PuLearner):
    """Elkan and Noto: classifier of labelled and unlabelled examples, divided by the labelling probability.

    Learning Classifiers from Only Positive and Unlabeled Data, KDD 2008: ``P(labelled | x)`` is
    ``c P(class | x)``, with ``c`` the classifier's mean over held-out labelled examples. The classifier is a
    support vector machine (radial kernel) with Platt's probabilities.

    Args:
        hold_out: Share of finished tasks used to estimate ``c``.
        features: See :class:`Learner`.
        action: See :class:`Learner`.
        limit: Probability of being like finished tasks below which a task is flagged.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "pu_en"
    least_finished = 4

    def __init__(
        self,
        hold_out: float = 0.1,
        features: str = "mean",
        action: str = "relaunch",
        limit: float = 0.5,
    ) -> None:
        """Set the constants; the class documentation describes them."""
        super().__init__(features, action)
        self.hold_out = in_range(self.name, "hold_out", hold_out, least=0.0, below=1.0)
        self.limit = in_range(self.name, "limit", limit, least=0.0, most=1.0)

    def flags(self, now: Checkpoint) -> BoolArray:
        """Flag tasks that are more probably unlike finished ones."""
        n_finished = len(now.x_finished)
        order = self._rng.permutation(n_finished)
        n_held = min(max(1, round(self.hold_out * n_finished)), n_finished - 1)
        held, fitted = now.x_finished[order[:n_held]], now.x_finished[order[n_held:]]
        margin = self._margin(fitted, now.x_running)
        fitted_margin, running_margin = margin(fitted), margin(now.x_running)
        platt = load("sklearn.linear_model", "LogisticRegression", self.name)().fit(
            np.concatenate([fitted_margin, running_margin])[:, None],
            np.repeat([1, 0], [len(fitted), len(running_margin)]),
        )

        def labelled(margins: FloatArray) -> FloatArray:
            return np.asarray(platt.predict_proba(margins[:, None])[:, 1], dtype=np.float64)

        return not_a_straggler(labelled(running_margin), labelled(margin(held))) < self.limit


def not_a_straggler(labelled: FloatArray, labelled_held_out: FloatArray) -> FloatArray:
    """Return ``P(class | x) = P(labelled | x) / c``, at most 1.

    Args:
        labelled: ``P(labelled | x)`` of the tasks in question, shape (n,).
        labelled_held_out: The same for held-out labelled tasks, shape (m,); ``c`` is their mean.
    """
    return np.minimum(labelled / max(float(labelled_held_out.mean()), 1e-12), 1.0)


class PuBaggingAgent(_PuLearner):
    """Mordelet and Vert: bagging of classifiers of labelled and randomly drawn unlabelled examples.

    A bagging SVM to learn from positive and unlabeled examples, Pattern Recognition Letters 2014. Each bag
    draws as many running tasks as have finished, though never more than half of them; a task's score is the
    mean margin over the bags that did not draw it.

    Args:
        n_bags: Number of bags.
        features: See :class:`Learner`.
        action: See :class:`Learner`.
        limit: Mean margin below which a task is flagged; finished tasks have positive margins.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "pu_bagging"

    def __init__(
        self, n_bags: int = 20, features: str = "mean", action: str = "relaunch", limit: float = 0.0
    ) -> None:
        """Set the constants; the class documentation describes them."""
        super().__init__(features, action)
        self.n_bags = in_range(self.name, "n_bags", n_bags, least=1)
        self.limit = in_range(self.name, "limit", limit)

    def flags(self, now: Checkpoint) -> BoolArray:
        """Flag tasks that bags without them classify as running ones."""
        n_running = len(now.x_running)
        n_drawn = max(1, min(len(now.x_finished), n_running // 2))
        total, count = np.zeros(n_running), np.zeros(n_running)
        for _ in range(self.n_bags):
            drawn = np.unique(self._rng.integers(0, n_running, size=n_drawn))
            out = np.setdiff1d(np.arange(n_running), drawn, assume_unique=True)
            if len(out) == 0:
                continue
            total[out] += self._margin(now.x_finished, now.x_running[drawn])(now.x_running[out])
            count[out] += 1
        # A task that was in every bag has no score and is not flagged.
        return np.asarray((count > 0) & (total / np.maximum(count, 1.0) < self.limit))
