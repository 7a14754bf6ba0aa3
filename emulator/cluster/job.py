"""A job of parallel tasks, with the outcomes of all attempts drawn beforehand.

Whatever a policy does, attempt ``a`` of task ``i`` takes ``duration_s[i, a]`` and shows ``counters[i, a]``.
All policies therefore face the same random outcomes, and those of a second attempt are drawn in advance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

CAUSES = ("none", "skew", "slow machine", "interference", "fault", "unknown")
"""Causes of a task's latency. Real traces do not tell: ``unknown``."""

QUANTILE, MEDIAN_MULTIPLE = "quantile", "median_multiple"


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        name: Unique within its source.
        window_s: Length of a measuring window, and time between two checkpoints, s.
        counter_names: Names of the C counters that are measured in every window.
        start_s: Start of each task's first attempt after the job's submission, shape (n_tasks,).
        duration_s: Duration of each attempt if it is left alone; attempt 0 is the first. Shape (n_tasks,
            n_attempts), positive.
        counters: Mean of every counter in every window of an attempt's life, 0 after its end; the last
            window's mean is over the part in which the attempt lived. float32, shape (n_tasks, n_attempts,
            n_windows, C), with n_windows at least the windows of the longest attempt.
        cause: Index into :data:`CAUSES` of the main cause of each first attempt's latency, shape (n_tasks,).
            It is used for figures and analyses and is never observed.
    """

    name: str
    window_s: float
    counter_names: tuple[str, ...]
    start_s: FloatArray
    duration_s: FloatArray
    counters: NDArray[np.float32]
    cause: NDArray[np.int8]

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.start_s)

    @property
    def n_attempts(self) -> int:
        """Number of attempts drawn for every task."""
        return int(self.duration_s.shape[1])

    @property
    def latency_s(self) -> FloatArray:
        """Latency of every task if nobody acts, from its start to its end, shape (n_tasks,)."""
        return self.duration_s[:, 0]

    @property
    def completion_s(self) -> float:
        """Completion time of the job if nobody acts, after its submission."""
        return float((self.start_s + self.latency_s).max())

    def threshold_s(self, definition: str, value: float) -> float:
        """Return the latency from which on a task is a straggler.

        The threshold is known only when the job has ended. NURD (Ding et al., MLSys 2022) nevertheless gives
        it to every method, and so does a scenario with ``straggler.threshold_known``.

        Args:
            definition: ``"quantile"`` of the job's latencies, or ``"median_multiple"``.
            value: The quantile, such as 0.9, or the multiple, such as 1.5.
        """
        if definition == QUANTILE:
            return float(np.quantile(self.latency_s, value))
        return value * float(np.median(self.latency_s))

    def stragglers(self, threshold_s: float) -> BoolArray:
        """Return which tasks reach the threshold, shape (n_tasks,)."""
        return self.latency_s >= threshold_s
