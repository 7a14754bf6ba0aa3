"""All scenarios together, without mixing units: who beats the reference how often, what is left unused."""

from __future__ import annotations

from dataclasses import dataclass

from sysgym.bench import statistics
from sysgym.bench.report.data.bound import overall_gap
from sysgym.bench.report.data.study import Study
from sysgym.bench.statistics import Interval
from sysgym.scenarios.family import Metric


@dataclass(frozen=True)
class Overall:
    """One contender over the scenarios that it shares with the reference.

    Attributes:
        player: Its name.
        n_scenarios: How many.
        wins: Metric -> chance to beat the reference on a scenario and seed taken at random, ties half.
        gap: Mean share of the privileged reference's value that is not reached, of every scenario's first
            metric; None without one.
    """

    player: str
    n_scenarios: int
    wins: dict[str, Interval]
    gap: Interval | None


def metrics_of(study: Study) -> list[Metric]:
    """Return the metrics that at least one contest has, in order."""
    return list(dict.fromkeys(metric for contest in study.contests for metric in contest.metrics))


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
            found.append(Overall(player.name, len(contests), wins, overall_gap(study, player.name)))
    return found
