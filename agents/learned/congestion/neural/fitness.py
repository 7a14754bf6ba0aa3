"""Fitness of a law: its episodes compared with DCTCP's on the same seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numba
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.episodes import Baseline, Episode
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.threads import in_threads
from sysgym.envs.congestion.power import LEAST_QUEUE_BYTES

BASELINE = "dctcp"

WEIGHTS = {
    "queue_p99_bytes": 0.5,
    "queue_mean_bytes": 0.25,
    "fct_slowdown_p50": 2.0,
    "fct_slowdown_p99": 2.0,
}
"""Weights of the logarithm of a metric over the baseline's; inapplicable metrics are omitted."""

ENOUGH = {
    "queue_p99_bytes": 0.3,
    "queue_mean_bytes": 0.3,
    "fct_slowdown_p50": 1.0,
    "fct_slowdown_p99": 0.5,
}
"""Share of the baseline's value below which further reduction is not rewarded, to protect goodput."""

LEAST_GOODPUT = 0.995
"""Share of the baseline's goodput; a shortfall below it is penalised with GOODPUT_WEIGHT."""
GOODPUT_WEIGHT = 100.0
LEAST_FAIRNESS = 0.98
FAIRNESS_WEIGHT = 5.0


def loss(metrics: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    """Return the loss of an episode relative to the baseline; negative values are better.

    The loss is a weighted sum of the logarithms of queue and slowdown over the baseline's, with penalties if
    goodput or the fairness of long flows is lower.
    """
    total = 0.0
    for name, weight in WEIGHTS.items():
        if name in metrics and name in baseline:
            total += weight * _log_ratio(name, metrics[name], baseline[name])
    goodput = metrics["goodput_bps"] / max(baseline["goodput_bps"], 1.0)
    total += GOODPUT_WEIGHT * max(LEAST_GOODPUT - goodput, 0.0)
    if "jain_index" in metrics:
        least_fair = min(LEAST_FAIRNESS, baseline["jain_index"])
        total += FAIRNESS_WEIGHT * max(least_fair - metrics["jain_index"], 0.0)
    return total


def _log_ratio(name: str, value: float, baseline: float) -> float:
    least = LEAST_QUEUE_BYTES if name.startswith("queue") else 1.0
    return math.log(max(max(value, least) / max(baseline, least), ENOUGH[name]))


@dataclass
class Judge:
    """Evaluator of laws in episodes, on all cores, which caches the results of the baseline."""

    n_threads: int = field(default_factory=numba.get_num_threads)
    _baseline: Baseline = field(default_factory=lambda: Baseline(BASELINE))

    def losses(self, laws: Sequence[Transport], episodes: Sequence[Episode]) -> NDArray[np.float64]:
        """Return the loss of every law in every episode, shape (n_laws, n_episodes)."""
        baselines = in_threads(self._baseline.metrics, episodes, self.n_threads)
        jobs = [(law, place) for law in laws for place in range(len(episodes))]
        found = in_threads(
            lambda job: loss(episodes[job[1]].play(job[0]), baselines[job[1]]), jobs, self.n_threads
        )
        return np.array(found).reshape(len(laws), len(episodes))
