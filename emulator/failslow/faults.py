"""Slow workers, stages and links over time: a marked Poisson process, drawn from the episode's seed.

By default, slow workers last ten minutes on average and slow links 24, after the study of a cluster with
over 10,000 GPUs by Wu et al., Greyhound, USENIX ATC 2025. How often they appear in a job, how slow they are,
and all of slow stages is assumed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.schema.failslow import FailSlowScenario

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

STREAM = 0xFA15
"""Random stream of faults and measurements."""


class Kind(IntEnum):
    """What is slow: a worker, all workers of a stage, or a link between replicas."""

    WORKER = 0
    STAGE = 1
    LINK = 2


class Faults(NamedTuple):
    """Faults of an episode, by their start.

    Attributes:
        start_s: When each begins, shape (n,).
        end_s: When it is over by itself, likewise.
        kind: A :class:`Kind`, likewise.
        place: Worker, ``replica * n_stages + stage``, or stage that is slow; 0 for links, likewise.
        factor: Factor of computing or of the exchange, likewise.
    """

    start_s: FloatArray
    end_s: FloatArray
    kind: IntArray
    place: IntArray
    factor: FloatArray


def draw_faults(
    scenario: FailSlowScenario, rng: np.random.Generator, n_replicas: int, n_stages: int
) -> Faults:
    """Return the faults of an episode, until the last decision at the latest."""
    faults, n_workers = scenario.faults, n_replicas * n_stages
    until_s = scenario.control.interval_s * scenario.control.episode_steps
    kinds = []
    for kind, per_hour, mean_s, median, n_places in (
        (Kind.WORKER, faults.worker_per_hour, faults.worker_mean_s, faults.worker_factor, n_workers),
        (Kind.STAGE, faults.stage_per_hour, faults.stage_mean_s, faults.stage_factor, n_stages),
        (Kind.LINK, faults.link_per_hour, faults.link_mean_s, faults.link_factor, 1),
    ):  # fmt: skip
        n = rng.poisson(per_hour * until_s / 3600.0)
        start_s = rng.uniform(0.0, until_s, n)
        log_sd = faults.duration_log_sd
        duration_s = rng.lognormal(np.log(mean_s) - log_sd**2 / 2.0, log_sd, n)
        excess = (median - 1.0) * np.exp(rng.normal(0.0, faults.factor_log_sd, n))
        place = rng.integers(n_places, size=n)
        kinds.append((start_s, start_s + duration_s, np.full(n, kind, np.int64), place, 1.0 + excess))
    start_s, end_s, kind_, place, factor = (np.concatenate(column) for column in zip(*kinds, strict=True))
    order = np.argsort(start_s)
    return Faults(start_s[order], end_s[order], kind_[order], place[order], factor[order])
