"""Results over all scenarios without mixing units: probability of improvement and optimality gap."""

from __future__ import annotations

from dataclasses import dataclass

from sysgym.bench import statistics
from sysgym.bench.report.data.benchmark import BenchmarkResult
from sysgym.bench.report.data.bound import overall_gap
from sysgym.bench.statistics import Interval
from sysgym.scenarios.family import Metric


@dataclass(frozen=True)
class Overall:
    """Results of one contender over the scenarios that it shares with the reference.

    Attributes:
        player: Name of the contender.
        n_scenarios: Number of shared scenarios.
        wins: Metric -> probability of beating the reference on a random scenario and seed, ties count half.
        gap: Mean shortfall from the privileged reference's value in every scenario's first metric; None
            without such a reference.
    """

    player: str
    n_scenarios: int
    wins: dict[str, Interval]
    gap: Interval | None


def metrics_of(benchmark: BenchmarkResult) -> list[Metric]:
    """Return the metrics that at least one result has, in order."""
    return list(dict.fromkeys(metric for result in benchmark.results for metric in result.metrics))


def overall(benchmark: BenchmarkResult) -> list[Overall]:
    """Return the results of every contender that shares a scenario with the reference."""
    found = []
    for player in benchmark.players:
        if player.name == benchmark.reference:
            continue
        wins = {}
        results = [
            result
            for result in benchmark.results
            if any(result.pair(player.name, benchmark.reference, metric.name) for metric in result.metrics)
        ]
        for metric in metrics_of(benchmark):
            pairs = [
                pair
                for result in results
                if (pair := result.pair(player.name, benchmark.reference, metric.name)) is not None
            ]
            if pairs:
                wins[metric.name] = statistics.probability_of_improvement(
                    pairs, higher_is_better=metric.higher_is_better
                )
        if results:
            found.append(Overall(player.name, len(results), wins, overall_gap(benchmark, player.name)))
    return found
