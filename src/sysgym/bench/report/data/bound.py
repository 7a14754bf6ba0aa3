"""Scores relative to a privileged reference, which have no unit and can be combined over scenarios."""

from __future__ import annotations

import numpy as np

from sysgym.bench import statistics
from sysgym.bench.report.data.benchmark import BenchmarkResult, ScenarioResult
from sysgym.bench.statistics import FloatArray, Interval
from sysgym.scenarios.family import Metric


def bound_of(benchmark: BenchmarkResult | ScenarioResult) -> str | None:
    """Return the privileged contender that defines the gap, if there is one."""
    return next((player.name for player in benchmark.players if player.privileged), None)


def shares(result: ScenarioResult, player: str, target: str, metric: Metric) -> FloatArray | None:
    """Return the values of a contender relative to those of another one on the same seeds.

    If lower is better, the ratio is inverted, so that twice the delay is 0.5.

    Args:
        result: Results of one scenario.
        player: Contender to measure.
        target: Contender whose value, the mean over its runs, is 1.
        metric: The metric.

    Returns:
        Shape (n_runs, n_seeds). None without common seeds, if a value of the target is not above zero, or if
        a value of the contender is negative although lower is better.
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
    """Return the optimality gap of the result's first metric: the mean shortfall from the bound's value.

    Episodes in which the contender is better than the bound have no gap.

    Args:
        result: Results of one scenario.
        player: Contender to measure; None is returned for the bound itself.
    """
    bound = bound_of(result)
    if bound is None or player == bound:
        return None
    found = shares(result, player, bound, result.focus[0])
    return None if found is None else statistics.optimality_gap([found])


def has_gaps(result: ScenarioResult) -> bool:
    """Return whether any contender's gap is known."""
    bound = bound_of(result)
    return bound is not None and any(
        shares(result, player.name, bound, result.focus[0]) is not None
        for player in result.players
        if player.name != bound
    )


def overall_gap(benchmark: BenchmarkResult, player: str) -> Interval | None:
    """Return the mean gap in the first metrics of all scenarios, with equal weights of episodes."""
    strata = []
    for result in benchmark.results:
        bound = bound_of(result)
        if bound is not None and bound != player:
            found = shares(result, player, bound, result.focus[0])
            strata += [] if found is None else [found]
    return statistics.optimality_gap(strata) if strata else None
