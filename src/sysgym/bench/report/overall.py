"""All scenarios together, without mixing units: who beats the reference how often, what is left unused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sysgym.bench import statistics
from sysgym.bench.families import Metric
from sysgym.bench.report.study import Study
from sysgym.bench.statistics import Interval


@dataclass(frozen=True)
class Overall:
    """One contender over the scenarios that it shares with the reference.

    Attributes:
        player: Its name.
        n_scenarios: How many.
        wins: Metric -> chance to beat the reference on a scenario and seed taken at random, ties half.
        shortfall: Mean share of the upper bound's value of the first metric that is not reached; None without
            a bound.
    """

    player: str
    n_scenarios: int
    wins: dict[str, Interval]
    shortfall: Interval | None


def metrics_of(study: Study) -> list[Metric]:
    """Return the metrics that at least one contest has, in order."""
    return list(dict.fromkeys(metric for contest in study.contests for metric in contest.metrics))


def bound_of(study: Study) -> str | None:
    """Return the privileged contender that others are measured against, if one plays."""
    return next((player.name for player in study.players if player.privileged), None)


def target_metric(study: Study) -> Metric | None:
    """Return the metric of the shortfall: the first one of which more is better."""
    return next((metric for metric in metrics_of(study) if metric.higher_is_better), None)


def overall(study: Study) -> list[Overall]:
    """Return a line for every contender that met the reference."""
    found = []
    for player in study.players:
        if player.name == study.reference:
            continue
        wins = {}
        contests = [
            contest
            for contest in study.contests
            if any(contest.pair(player.name, study.reference, metric.name) for metric in contest.metrics)
        ]
        for metric in metrics_of(study):
            pairs = [
                pair
                for contest in contests
                if (pair := contest.pair(player.name, study.reference, metric.name)) is not None
            ]
            if pairs:
                wins[metric.name] = statistics.probability_of_improvement(
                    pairs, higher_is_better=metric.higher_is_better
                )
        if contests:
            found.append(Overall(player.name, len(contests), wins, _shortfall(study, player.name)))
    return found


def _shortfall(study: Study, player: str) -> Interval | None:
    bound, metric = bound_of(study), target_metric(study)
    if bound is None or metric is None or player == bound:
        return None
    strata = []
    for contest in study.contests:
        pair = contest.pair(player, bound, metric.name)
        if pair is not None and np.all(pair[1] > 0.0):
            strata.append(pair[0] / pair[1].mean(axis=0, keepdims=True))
    return statistics.optimality_gap(strata) if strata else None
