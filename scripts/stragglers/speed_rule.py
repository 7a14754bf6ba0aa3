"""Rule for stragglers by the speed of tasks, to compare with the learned agent ``transfer``.

python scripts/stragglers/speed_rule.py

A task's speed is its rate of instructions: CPU rate over cycles per instruction, by which CPI2 compares tasks
of a job (Zhang et al., EuroSys 2013); where the trace has no cycles, its use of CPU. Prints F1 over time on
the test seeds of the suite ``stragglers``. Constants are the best of 500 random draws on 60 validation jobs.
As a plugin (``--plugin``) the file registers the agent ``speed``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import sysgym
from sysgym.agents import play_episode, register_agent
from sysgym.agents.stragglers.base import BoolArray, FloatArray, Predictor, threshold_of
from sysgym.bench.statistics import estimate
from sysgym.envs.stragglers.view import JobView

REGISTERED = sysgym.__version__
FIRST_SEED, N_SEEDS = 20_000, 20
MOST_LOG = 3.0
"""Largest logarithm of a ratio."""


class _Counters(NamedTuple):
    """Columns of counters that speed and memory are made of, with their weights."""

    cpu: dict[str, float]
    memory: dict[str, float]
    cycles: str | None = None


GOOGLE = _Counters(
    {"cpu_rate": 1.0, "max_cpu_rate": 0.1, "sampled_cpu_rate": 0.1},
    {"canonical_memory": 1.0, "max_memory": 0.6},
    "cycles_per_instruction",
)
ALIBABA = _Counters({"cpu_avg": 1.0, "cpu_max": 0.25}, {"mem_avg": 1.0, "mem_max": 0.5})


@register_agent("speed", family="stragglers")
class Speed(Predictor):
    """Flags tasks that are slow, large and old against their siblings, and any task near the threshold.

    Args:
        recent: Weight of the last window's speed against the mean speed.
        memory: Weight of memory.
        elapsed: Weight of elapsed time over the threshold.
        least: Sum of the logarithms from which on a task is flagged.
        most: Largest share of a job's tasks that is flagged.
        windows: Fewest windows before a task is flagged.
        near: Share of the threshold at which any task is flagged.
        action: As in :class:`~sysgym.agents.stragglers.base.Predictor`.
    """

    name = "speed"

    def __init__(
        self,
        recent: float = 0.4,
        memory: float = 1.5,
        elapsed: float = 0.0,
        least: float = 0.3,
        most: float = 0.12,
        windows: float = 3.0,
        near: float = 0.92,
        action: str = "copy",
    ) -> None:
        """Set the constants."""
        super().__init__(action)
        self._recent, self._memory, self._elapsed, self._least = recent, memory, elapsed, least
        self._most, self._windows, self._near = most, windows, near

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Find the columns of the counters."""
        super().begin(env)
        world: Any = env.unwrapped
        self._column = {name: column for column, name in enumerate(world.counter_names)}
        self._counters = GOOGLE if "cpu_rate" in self._column else ALIBABA

    def predict(self, view: JobView) -> BoolArray:
        """Return the mask of predicted stragglers."""
        threshold = threshold_of(view)
        used = view.x[:, self._column[next(iter(self._counters.cpu))]] > 0.0
        seen = used & (view.running | view.finished)
        mean, last = self._speed(view.x), self._speed(view.last)
        usual = np.median(mean[seen]) if seen.any() else 1.0
        slow = (1.0 - self._recent) * _log_ratio(usual, mean) + self._recent * _log_ratio(usual, last)
        memory = self._weighted(view.last, self._counters.memory)
        large = _log_ratio(memory, np.median(memory[view.finished]))
        old = _log_ratio(np.maximum(view.elapsed, 0.5), threshold)
        total = np.where(used, slow + self._memory * large, 0.0) + self._elapsed * old
        suspect = (total >= self._least) & (view.elapsed >= self._windows)
        suspect = view.running & ~view.flagged & (suspect | (view.elapsed >= self._near * threshold))
        room = max(int(np.ceil(self._most * view.n_tasks)) - int(view.flagged.sum()), 0)
        chosen = np.zeros_like(view.running)
        rows = np.flatnonzero(suspect)
        chosen[rows[np.argsort(-total[rows], kind="stable")][:room]] = True
        return chosen

    def _speed(self, counters: FloatArray) -> FloatArray:
        speed = self._weighted(counters, self._counters.cpu)
        if self._counters.cycles is None:
            return speed
        return speed / (counters[:, self._column[self._counters.cycles]] + 1e-12)

    def _weighted(self, counters: FloatArray, weights: dict[str, float]) -> FloatArray:
        found: FloatArray = sum(
            (weight * counters[:, self._column[name]] for name, weight in weights.items()),
            start=np.zeros(len(counters)),
        )
        return found


def _log_ratio(over: Any, under: Any) -> FloatArray:
    ratio = np.log((np.asarray(over, np.float64) + 1e-12) / (np.asarray(under, np.float64) + 1e-12))
    return np.clip(ratio, -MOST_LOG, MOST_LOG)


CHOSEN: dict[str, dict[str, float]] = {
    "google-2011": {},
    "google-2011-near": {"memory": 0.7, "elapsed": 0.35, "least": 0.15, "most": 0.15, "windows": 1.0},
    "alibaba-2018": {
        "recent": 0.2,
        "memory": 0.7,
        "elapsed": 0.35,
        "least": -0.15,
        "most": 0.1,
        "windows": 2.0,
        "near": 0.85,
    },
}
"""Constants by scenario, where they are not the agent's own."""


def main() -> None:
    """Play the test seeds, and print F1 over time."""
    for scenario, constants in CHOSEN.items():
        env = gym.make("sysgym/StragglerPrediction-v0", scenario=scenario, split="test")
        agent = Speed(**constants)  # type: ignore[arg-type]
        found = [
            play_episode(env, agent, options={"episode_seed": seed})[1]["episode_metrics"]["f1_over_time"]
            for seed in range(FIRST_SEED, FIRST_SEED + N_SEEDS)
        ]
        value, low, high = estimate(np.array([found]))
        print(f"{scenario:18} speed {value:.3f} [{low:.3f}, {high:.3f}]", flush=True)


if __name__ == "__main__":
    main()
