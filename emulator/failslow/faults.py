"""Slow workers and links over time: a marked Poisson process, drawn in advance from the episode's seed.

By default, slow workers last ten minutes on average and slow links 24, after the study of a cluster with
over 10,000 GPUs by Wu et al., Greyhound, USENIX ATC 2025. How often they appear in a job is a choice of the
scenario, the sizes of slowdowns are assumed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.schema.failslow import FailSlowScenario

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

STREAM = 0xFA15
"""Random stream of faults and measurements."""


class Faults(NamedTuple):
    """Faults of an episode, by their start.

    Attributes:
        start_s: When each begins, shape (n,).
        end_s: When it is over by itself, likewise.
        worker: Worker that is slow; -1: a link, likewise.
        factor: Factor of the worker's computing or of the exchange, likewise.
    """

    start_s: FloatArray
    end_s: FloatArray
    worker: IntArray
    factor: FloatArray


def draw_faults(scenario: FailSlowScenario, rng: np.random.Generator) -> Faults:
    """Return the faults of an episode, until the last decision at the latest."""
    faults, job = scenario.faults, scenario.job
    until_s = scenario.control.interval_s * scenario.control.episode_steps
    kinds = []
    for per_hour, mean_s, median in (
        (faults.worker_per_hour, faults.worker_mean_s, faults.worker_factor),
        (faults.link_per_hour, faults.link_mean_s, faults.link_factor),
    ):
        n = rng.poisson(per_hour * until_s / 3600.0)
        start_s = rng.uniform(0.0, until_s, n)
        log_sd = faults.duration_log_sd
        duration_s = rng.lognormal(np.log(mean_s) - log_sd**2 / 2.0, log_sd, n)
        excess = (median - 1.0) * np.exp(rng.normal(0.0, faults.factor_log_sd, n))
        kinds.append((start_s, start_s + duration_s, 1.0 + excess))
    n_workers, n_links = len(kinds[0][0]), len(kinds[1][0])
    worker = np.concatenate([rng.integers(job.replicas * job.stages, size=n_workers), np.full(n_links, -1)])
    start_s, end_s, factor = (np.concatenate(pair) for pair in zip(*kinds, strict=True))
    order = np.argsort(start_s)
    return Faults(start_s[order], end_s[order], worker[order], factor[order])
