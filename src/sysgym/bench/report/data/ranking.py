"""Rankings in a metric: the best contender, those tied with it, and those that are worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sysgym.bench.report.data.benchmark import ScenarioResult
from sysgym.bench.statistics import Interval
from sysgym.scenarios.family import Metric

Kind = Literal["best", "tied", "worse", "unranked", "reference", "absent"]


@dataclass(frozen=True)
class Ranking:
    """Ranking of a scenario's competitors in one metric.

    Attributes:
        metric: The metric.
        best: Competitor with the best estimate.
        tied: Competitors not significantly different from the best, in order of their estimates.
        worse: The other competitors, in order of their estimates.
        unranked: Competitors with too little of the family's benefit for their costs to be compared.
        estimates: Estimates of all contenders, privileged ones included.
    """

    metric: Metric
    best: str
    tied: tuple[str, ...]
    worse: tuple[str, ...]
    unranked: tuple[str, ...]
    estimates: Mapping[str, Interval]

    def kind(self, name: str) -> Kind:
        """Return the group of a contender in the ranking."""
        for kind, names in (("tied", self.tied), ("worse", self.worse), ("unranked", self.unranked)):
            if name in names:
                return kind  # type: ignore[return-value]
        if name == self.best:
            return "best"
        return "reference" if name in self.estimates else "absent"


def ranking(result: ScenarioResult, metric: Metric) -> Ranking | None:
    """Return the ranking of a scenario in a metric; None if no competitor has the metric.

    Args:
        result: Results of one scenario.
        metric: One of its metrics.
    """
    estimates = result.estimates_of(metric.name)
    privileged = {player.name for player in result.players if player.privileged}
    competing = [name for name in estimates if name not in privileged]
    allowed = result.enough_benefit() if metric.name == result.evaluation.cost.name else set(competing)
    best = result.best(metric, estimates, allowed)
    if best is None:
        return None
    rivals = [name for name in competing if name in allowed and name != best]
    rivals.sort(key=lambda name: estimates[name].value, reverse=metric.higher_is_better)
    tied = tuple(name for name in rivals if not differs(result, name, best, metric.name))
    return Ranking(
        metric,
        best,
        tied,
        tuple(name for name in rivals if name not in tied),
        tuple(name for name in competing if name not in allowed),
        estimates,
    )


def differs(result: ScenarioResult, ours: str, theirs: str, metric: str) -> bool:
    """Return whether two contenders differ significantly on their common seeds."""
    difference = result.difference(ours, theirs, metric)
    return difference is not None and difference.excludes_zero
