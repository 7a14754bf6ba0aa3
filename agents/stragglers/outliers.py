"""Outlier detectors fitted to finished tasks, which flag running tasks that are outliers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.stragglers.base import BoolArray
from sysgym.agents.stragglers.learner import Checkpoint, Learner, load
from sysgym.scenarios.errors import UnknownName

SEED = 42


class IsolationForestAgent(Learner):
    """Isolation forest (Liu, Ting, Zhou, ICDM 2008), by scikit-learn.

    Args:
        contamination: Share of finished tasks that count as outliers, which determines the threshold.
        n_trees: Number of trees.
        features: See :class:`Learner`.
        action: See :class:`Learner`.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "iforest"
    least_finished = 5

    def __init__(
        self,
        contamination: float = 0.1,
        n_trees: int = 100,
        features: str = "mean",
        action: str = "relaunch",
    ) -> None:
        """Set the constants."""
        super().__init__(features, action)
        self.contamination = in_range(self.name, "contamination", contamination, above=0.0, most=0.5)
        self.n_trees = in_range(self.name, "n_trees", n_trees, least=1)

    def flags(self, now: Checkpoint) -> BoolArray:
        """Flag outliers."""
        forest = load("sklearn.ensemble", "IsolationForest", self.name)(
            n_estimators=self.n_trees, contamination=self.contamination, random_state=SEED, n_jobs=1
        )
        return np.asarray(forest.fit(now.x_finished).predict(now.x_running) < 0)


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "ABOD": {},
    "CBLOF": {"random_state": SEED},
    "HBOS": {},
    "KNN": {},
    "LOF": {"n_neighbors": 15},
    "MCD": {"random_state": SEED},
    "OCSVM": {},
    # Counters may be collinear: components without variance are dropped, not divided by.
    "PCA": {"n_components": 0.9999, "svd_solver": "full", "random_state": SEED},
}
"""Settings that differ from PyOD's defaults: NURD's evaluation used 15 neighbours for LOF."""


class PyodAgent(Learner):
    """An outlier detector of PyOD (Zhao, Nasrullah, Li, JMLR 2019), by name.

    Detectors differ in the number of examples that they need; none is used before twenty tasks have finished.

    Args:
        detector: One of :data:`SETTINGS`.
        contamination: Share of finished tasks that count as outliers, which determines the threshold.
        features: See :class:`Learner`.
        action: See :class:`Learner`.

    Raises:
        UnknownName: If there is no such detector.
        SysgymError: If a value is out of range.
    """

    extra = "pyod"
    least_finished = 20

    def __init__(
        self, detector: str, contamination: float = 0.1, features: str = "mean", action: str = "relaunch"
    ) -> None:
        """Set the detector; the class documentation describes the arguments."""
        super().__init__(features, action)
        if detector not in SETTINGS:
            raise UnknownName("PyOD detector", detector, SETTINGS)
        self.detector, self.name = detector, detector.lower()
        self.contamination = in_range(self.name, "contamination", contamination, above=0.0, most=0.5)

    def flags(self, now: Checkpoint) -> BoolArray:
        """Flag outliers."""
        make = partial(
            load(f"pyod.models.{self.name}", self.detector, self.name),
            contamination=self.contamination,
            **SETTINGS[self.detector],
        )
        with warnings.catch_warnings():
            # Robust covariances of collinear counters are singular; PyOD then uses their
            # pseudo-inverse.
            warnings.simplefilter("ignore")
            fitted = _fit_clusters(make, now) if self.detector == "CBLOF" else make().fit(now.x_finished)
            if fitted is None:
                return np.zeros(len(now.x_running), dtype=np.bool_)
            return np.asarray(fitted.predict(now.x_running) == 1)


def _fit_clusters(make: partial[Any], now: Checkpoint) -> Any:
    """Fit CBLOF with the most clusters that can be divided into large and small ones; None if none can."""
    for n_clusters in range(8, 1, -1):
        try:
            return make(n_clusters=n_clusters).fit(now.x_finished)
        except ValueError as error:
            if "cluster separation" not in str(error):
                raise
    return None


AbodAgent = partial(PyodAgent, "ABOD")
CblofAgent = partial(PyodAgent, "CBLOF")
HbosAgent = partial(PyodAgent, "HBOS")
KnnAgent = partial(PyodAgent, "KNN")
LofAgent = partial(PyodAgent, "LOF")
McdAgent = partial(PyodAgent, "MCD")
OcsvmAgent = partial(PyodAgent, "OCSVM")
PcaAgent = partial(PyodAgent, "PCA")
