"""Shares of what a privileged reference reaches: they have no unit, so that scenarios can be put together."""

from __future__ import annotations

import numpy as np

from sysgym.bench import statistics
from sysgym.bench.report.data.benchmark import BenchmarkResult, ScenarioResult
from sysgym.bench.statistics import FloatArray, Interval
from sysgym.scenarios.family import Metric


def bound_of(benchmark: BenchmarkResult | ScenarioResult) -> str | None:
    """Return the privileged contender that others are measured against, if one plays."""
    return next((player.name for player in benchmark.players if player.privileged), None)


def shares(result: ScenarioResult, player: str, target: str, metric: Metric) -> FloatArray | None:
    """Return a contender's episodes as shares of what another reaches on the same seeds.

    Where less is better, the share is the other's value over the contender's: twice the delay is a half.

    Args:
        result: One scenario.
        player: Who is measured.
        target: Whose value is 1, the mean of its runs.
        metric: Of what.

    Returns:
        Shape (n_runs, n_seeds); None without common seeds, and where the other's values are not above zero.
    """
    pair = result.pair(player, target, metric.name)
    if pair is None:
        return None
    ours, theirs = pair[0], pair[1].mean(axis=0, keepdims=True)
    if np.any(theirs <= 0.0) or (np.any(ours < 0.0) and not metric.higher_is_better):
        return None
    with np.errstate(divide="ignore"):
        found: FloatArray = ours / theirs if metric.higher_is_better else theirs / ours
    return found


def gap(result: ScenarioResult, player: str) -> Interval | None:
    """Return the optimality gap of the result's first metric: what is missing to the bound's value.

    An episode that is better than the bound's counts as one without a gap.

    Args:
        result: One scenario.
        player: Who is measured; None is returned for the bound itself.
    """
    bound = bound_of(result)
    if bound is None or player == bound:
        return None
    found = shares(result, player, bound, result.focus[0])
    return None if found is None else statistics.optimality_gap([found])


def has_gaps(result: ScenarioResult) -> bool:
    """Return whether anyone's gap is known."""
    bound = bound_of(result)
    return bound is not None and any(
        shares(result, player.name, bound, result.focus[0]) is not None
        for player in result.players
        if player.name != bound
    )


def overall_gap(benchmark: BenchmarkResult, player: str) -> Interval | None:
    """Return the gap over all scenarios, each by its own first metric, every episode weighing the same."""
    strata = []
    for result in benchmark.results:
        bound = bound_of(result)
        if bound is not None and bound != player:
            found = shares(result, player, bound, result.focus[0])
            strata += [] if found is None else [found]
    return statistics.optimality_gap(strata) if strata else None
