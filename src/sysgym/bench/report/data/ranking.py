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
    """The competitors of a scenario by one metric.

    Attributes:
        metric: By what.
        best: Who has the best estimate.
        tied: Whom the seeds cannot tell from the best, the better first.
        worse: The other competitors, the better first.
        unranked: Competitors with too little of the family's benefit for a low cost to count.
        estimates: Of all, privileged ones included.
    """

    metric: Metric
    best: str
    tied: tuple[str, ...]
    worse: tuple[str, ...]
    unranked: tuple[str, ...]
    estimates: Mapping[str, Interval]

    def kind(self, name: str) -> Kind:
        """Return where a contender stands."""
        for kind, names in (("tied", self.tied), ("worse", self.worse), ("unranked", self.unranked)):
            if name in names:
                return kind  # type: ignore[return-value]
        if name == self.best:
            return "best"
        return "reference" if name in self.estimates else "absent"


def ranking(result: ScenarioResult, metric: Metric) -> Ranking | None:
    """Return the ranking of a scenario by a metric; None where no competitor has it.

    Args:
        result: One scenario.
        metric: One of its columns.
    """
    estimates = {name: score.estimate for (name, key), score in result.scores.items() if key == metric.name}
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
    """Return whether the common seeds tell two contenders apart."""
    difference = result.difference(ours, theirs, metric)
    return difference is not None and difference.excludes_zero
