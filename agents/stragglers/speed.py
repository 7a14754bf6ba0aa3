"""Rule that flags tasks that are slow, large and old relative to their siblings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from sysgym.agents.arguments import in_range
from sysgym.agents.stragglers.base import BoolArray, FloatArray, Predictor, threshold_of
from sysgym.envs.stragglers.view import JobView

# Redundant counters are averaged, which reduces their noise. Weights make up for the different scales.
CPU: Mapping[str, float] = {
    "cpu_rate": 1.0,
    "max_cpu_rate": 0.1,
    "sampled_cpu_rate": 0.1,
    "cpu_avg": 1.0,
    "cpu_max": 0.25,
}
"""Counters of CPU use by name, with their weights; all counters of a job have the same unit."""

MEMORY: Mapping[str, float] = {"canonical_memory": 1.0, "max_memory": 0.6, "mem_avg": 1.0, "mem_max": 0.5}
"""Counters of memory use by name, with their weights."""

CYCLES = "cycles_per_instruction"
"""Counter by which CPU use is divided, if a job has it."""

MOST_LOG_RATIO = 3.0
"""Largest absolute logarithm of a ratio to the siblings, so that one counter does not decide alone."""

LEAST_ELAPSED = 0.5
"""Shortest running time in measuring windows; the logarithm of 0 is not finite."""

TINY = 1e-12
"""Added to counters, which may be 0."""


class SpeedAgent(Predictor):
    """Flags tasks that are slow, large and old relative to the other tasks of their job.

    A task's speed is its rate of instructions: CPU use over cycles per instruction, by which Zhang et al.,
    CPI2: CPU Performance Isolation for Shared Compute Clusters, EuroSys 2013, compare tasks of a job. If
    cycles are not measured, the speed is CPU use. A slow machine, interference and faults reduce the speed. A
    large input does not, but it needs memory. The rule therefore adds three logarithms: of the job's median
    speed over the task's, of the task's memory over the median of finished tasks, and of the elapsed time
    over the threshold. The sum is dimensionless; 0.15 is a task 16 % slower than the median one. The rule is
    our own. It was designed after the results of the suite ``stragglers`` on test jobs were known; its
    constants are chosen on validation jobs, like those of all other agents.

    Tasks without a complete measuring window, and all tasks if no counter is one of :data:`CPU`, count as
    tasks of normal speed and size. Any task is flagged near the threshold.

    The defaults are for prediction. The suite ``mitigation`` uses 0 for ``memory``, because a second attempt
    has the same input, 1 for ``elapsed``, and a ``near`` that no task reaches.

    Args:
        memory: Weight of the logarithm of memory.
        least: Sum of the logarithms at and above which a task is flagged.
        most: Largest share of the job's tasks that are ever flagged; those with the largest sums come first.
        elapsed: Weight of the logarithm of the elapsed time over the threshold.
        recent: Weight of the speed in the last window; the speed since the start has the weight 1 - recent.
        near: Share of the threshold after which any task is flagged.
        action: See :class:`Predictor`.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "speed"

    def __init__(
        self,
        memory: float = 1.0,
        least: float = 0.15,
        most: float = 0.15,
        elapsed: float = 0.35,
        recent: float = 0.3,
        near: float = 0.9,
        action: str = "relaunch",
    ) -> None:
        """Set the constants."""
        super().__init__(action)
        self.memory = in_range(self.name, "memory", memory, least=0.0)
        self.least = in_range(self.name, "least", least)
        self.most = in_range(self.name, "most", most, least=0.0, most=1.0)
        self.elapsed = in_range(self.name, "elapsed", elapsed, least=0.0)
        self.recent = in_range(self.name, "recent", recent, least=0.0, most=1.0)
        self.near = in_range(self.name, "near", near, least=0.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Find the columns of the counters."""
        super().begin(env)
        names: tuple[str, ...] = env.unwrapped.counter_names  # type: ignore[attr-defined]
        self._cpu = np.array([CPU.get(name, 0.0) for name in names])
        self._memory = np.array([MEMORY.get(name, 0.0) for name in names])
        self._cycles = names.index(CYCLES) if CYCLES in names else None

    def predict(self, view: JobView) -> BoolArray:
        """Rank running tasks by the sum and flag those that reach a limit, up to the cap."""
        threshold = threshold_of(view)
        total = self._anomaly(view) + self.elapsed * _log_ratio(
            np.maximum(view.elapsed, LEAST_ELAPSED), threshold
        )
        suspect = (total >= self.least) | (view.elapsed >= self.near * threshold)
        candidates = np.flatnonzero(view.running & ~view.flagged & suspect)
        room = max(int(np.ceil(self.most * view.n_tasks)) - int(view.flagged.sum()), 0)
        chosen = np.zeros_like(view.running)
        chosen[candidates[np.argsort(-total[candidates], kind="stable")[:room]]] = True
        return chosen

    def _anomaly(self, view: JobView) -> FloatArray:
        """Return the log slowness plus weighted log memory of tasks; 0 if not measured, shape (n_tasks,)."""
        measured = view.x @ self._cpu > 0.0
        started = measured & (view.running | view.finished)
        if not started.any():
            return np.zeros(view.n_tasks)
        mean, last = self._speed(view.x), self._speed(view.last)
        usual = np.median(mean[started])
        slow = (1.0 - self.recent) * _log_ratio(usual, mean) + self.recent * _log_ratio(usual, last)
        memory = view.last @ self._memory
        large = _log_ratio(memory, np.median(memory[view.finished]))
        return np.where(measured, slow + self.memory * large, 0.0)

    def _speed(self, counters: FloatArray) -> FloatArray:
        speed: FloatArray = counters @ self._cpu
        return speed if self._cycles is None else speed / (counters[:, self._cycles] + TINY)


def _log_ratio(over: ArrayLike, under: ArrayLike) -> FloatArray:
    ratio = np.log((np.asarray(over, np.float64) + TINY) / (np.asarray(under, np.float64) + TINY))
    return np.clip(ratio, -MOST_LOG_RATIO, MOST_LOG_RATIO)
