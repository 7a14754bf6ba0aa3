"""Scores of congestion control laws from their power, as defined in docs/beyond-classics.md.

Power is goodput divided by the product of p99 queue and p99 slowdown. The score of an episode is log2 of the
ratio of a law's power to that of the scenario's best classic on the same seed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.bench.results.rows import Row
from sysgym.bench.statistics import RESAMPLES, SEED, Interval, mean_of_means, percentile_interval
from sysgym.envs.congestion.power import power
from sysgym.errors import SysgymError

Array = NDArray[np.float64]
Values = dict[str, Array]
"""Law -> values of a metric, shape (n_trainings, n_seeds)."""

CLASSICS = ("reno", "cubic", "dctcp", "newvegas", "bbr", "timely", "swift", "dcqcn")


def values_of(rows: list[Row], metric: str) -> Values:
    """Return the values of a metric in one scenario, by law.

    Raises:
        SysgymError: If the laws have the metric for different seeds.
    """
    found: dict[str, dict[tuple[Any, ...], dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if metric in row.metrics:
            found[row.contender.name][row.contender.identity][row.seed] = row.metrics[metric]
    played = {tuple(sorted(by_seed)) for trainings in found.values() for by_seed in trainings.values()}
    if len(played) > 1:
        raise SysgymError(f"{rows[0].scenario}: {metric} exists for different seeds in different laws")
    return {
        law: np.array([[by_seed[seed] for seed in sorted(by_seed)] for by_seed in trainings.values()])
        for law, trainings in found.items()
    }


def log_power(goodput_bps: Any, queue_p99_bytes: Any, fct_slowdown_p99: Any = 1.0) -> Any:
    """Return log2 of the power of one or more episodes; if no flows end, the slowdown is 1."""
    return np.log2(power(goodput_bps, queue_p99_bytes, fct_slowdown_p99))


def log_powers(rows: list[Row]) -> Values:
    """Return log2 of every law's power in one scenario.

    Raises:
        SysgymError: If flows end under some laws only.
    """
    goodput, queue = values_of(rows, "goodput_bps"), values_of(rows, "queue_p99_bytes")
    slowdown = values_of(rows, "fct_slowdown_p99")
    if slowdown and set(slowdown) != set(goodput):
        raise SysgymError(f"{rows[0].scenario}: flows end under some laws only")
    return {law: log_power(bits, queue[law], slowdown.get(law, 1.0)) for law, bits in goodput.items()}


def scores_of(rows: list[Row]) -> tuple[Values, str]:
    """Return the scores of every law in one scenario, and the name of the best classic."""
    powers = log_powers(rows)
    best = max((law for law in CLASSICS if law in powers), key=lambda law: float(powers[law].mean()))
    return {law: one - powers[best] for law, one in powers.items()}, best


def mean_over_scenarios(strata: Sequence[Array]) -> Interval:
    """Return the mean over scenarios with its interval; a training is the same law in all scenarios."""
    return mean_of_means(strata, common_runs=True)


def mean_difference(ours: Sequence[Array], theirs: Sequence[Array]) -> Interval:
    """Return the difference of two laws' means over scenarios, on common seeds, each with its own trainings.

    Args:
        ours: Scores of shape (n_trainings, n_seeds), one array for each scenario.
        theirs: Scores of the other law in the same form; its number of trainings may differ.
    """
    rng = np.random.default_rng(SEED)

    def resampled(strata: Sequence[Array], seeds: Sequence[NDArray[np.int64]]) -> Array:
        n = strata[0].shape[0]
        runs = rng.integers(n, size=(RESAMPLES, n))
        drawn = [one[runs[:, :, None], some[:, None, :]] for one, some in zip(strata, seeds, strict=True)]
        return np.asarray(np.mean([one.mean(axis=(1, 2)) for one in drawn], axis=0))

    seeds = [rng.integers(one.shape[1], size=(RESAMPLES, one.shape[1])) for one in ours]
    value = np.mean([one.mean() - other.mean() for one, other in zip(ours, theirs, strict=True)])
    return percentile_interval(value, resampled(ours, seeds) - resampled(theirs, seeds))
