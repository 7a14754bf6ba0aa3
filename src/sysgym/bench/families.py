"""What differs between families of problems when results are read: what matters, who is compared with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Literal

from sysgym.errors import UnknownName


@dataclass(frozen=True)
class Metric:
    """A column.

    Attributes:
        name: Key in the rows.
        label: What people call it.
        higher_is_better: Direction.
    """

    name: str
    label: str
    higher_is_better: bool


@dataclass(frozen=True)
class Curve:
    """Metrics that are points of one line, ``f1_at_10``, ``f1_at_20``, ...: drawn, and no columns.

    Attributes:
        prefix: What their names have in common; the number behind it is where the point is.
        label: What people call it.
        x_label: What the numbers are.
        higher_is_better: Direction.
    """

    prefix: str
    label: str
    x_label: str
    higher_is_better: bool

    def points(self, names: Iterable[str]) -> dict[int, str]:
        """Return where its points are -> the metric there, in order, of those that there are."""
        ends = {name: name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)}
        return dict(sorted((int(end), name) for name, end in ends.items() if end.isdecimal()))


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes:
        name: As in scenario files.
        reference: Contender that others are compared with where it plays.
        headline: Metric of the first sentence where a scenario has it; else ``benefit``.
        benefit: What contenders want more of; up in the picture of the trade-off.
        cost: What they pay for it; to the right in that picture.
        enough_benefit: Share of the best contender's benefit from which on a low cost counts: who does
            nothing often costs nothing. 0 where doing nothing is a contender like any other.
        metrics_module: Where ``EPISODE_METRICS`` says what each metric of an episode means.
        curves: What changes during an episode, the most important first.
        average: What stands for many episodes: ``iqm``, the interquartile mean, or ``mean`` where most
            episodes are solved and the few others are what counts.
        leading: Metrics that come first in its tables, whatever the suite's order.
    """

    name: str
    reference: str
    headline: Metric
    benefit: Metric
    cost: Metric
    metrics_module: str
    enough_benefit: float = 0.0
    curves: tuple[Curve, ...] = ()
    leading: tuple[str, ...] = ()
    average: Literal["iqm", "mean"] = "iqm"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Columns where no suite says which."""
        return tuple(dict.fromkeys((self.headline, self.benefit, self.cost)))

    def metric_meanings(self) -> dict[str, str]:
        """Return metric -> what it means and its unit."""
        found: dict[str, str] = import_module(self.metrics_module).EPISODE_METRICS
        return found


_NORMALISED_TIME = "Time since the job's submission (% of the threshold)"

FAMILIES = {
    family.name: family
    for family in (
        Family(
            "congestion",
            reference="dctcp",
            headline=Metric("fct_slowdown_p99", "FCT slowdown, p99", False),
            benefit=Metric("goodput_bps", "Goodput", True),
            cost=Metric("queue_delay_p99_s", "Queueing delay, p99", False),
            metrics_module="sysgym.envs.congestion.datacenter.metrics",
            enough_benefit=0.9,
        ),
        Family(
            "stragglers",
            reference="nurd",
            headline=Metric("f1_over_time", "F1 over time", True),
            benefit=Metric("tpr", "Recall (TPR)", True),
            cost=Metric("fpr", "False positive rate", False),
            metrics_module="sysgym.envs.stragglers.metrics",
            enough_benefit=0.5,
            curves=(
                Curve("f1_at_", "F1", _NORMALISED_TIME, True),
                Curve("tpr_at_", "Recall (TPR)", _NORMALISED_TIME, True),
                Curve("fpr_at_", "False positive rate", _NORMALISED_TIME, False),
                Curve("precision_at_", "Precision", _NORMALISED_TIME, True),
            ),
        ),
        Family(
            "placement",
            reference="default",
            headline=Metric("regret", "Regret", False),
            benefit=Metric("speedup", "Speed-up over the default", True),
            cost=Metric("regret", "Regret", False),
            metrics_module="sysgym.envs.placement.metrics",
            leading=("regret", "speedup", "best_speedup"),
            average="mean",
        ),
    )
}

# Where an environment of a family is judged by other things than the rest.
BY_ENVIRONMENT = {
    "sysgym/FlowCC-v0": replace(
        FAMILIES["congestion"],
        headline=Metric("goodput_bps", "Goodput", True),
        cost=Metric("queue_delay_mean_s", "Queueing delay, mean", False),
        metrics_module="sysgym.envs.congestion.flow.metrics",
    ),
    "sysgym/StragglerMitigation-v0": replace(
        FAMILIES["stragglers"],
        headline=Metric("completion_reduction", "Job completion time saved", True),
        benefit=Metric("completion_reduction", "Job completion time saved", True),
        cost=Metric("waste_share", "Work thrown away", False),
        leading=("completion_reduction", "waste_share", "completion_reduction_oracle"),
        curves=(),
    ),
    "sysgym/JointPlacement-v0": replace(
        FAMILIES["placement"],
        headline=Metric("net_regret", "Regret and price of measurements", False),
        cost=Metric("measurements", "Measurements", False),
        leading=("net_regret", "regret", "measurements", "speedup"),
    ),
}


def get_family(name: str, env_id: str = "") -> Family:
    """Return a family, as one of its environments is judged.

    Args:
        name: As in scenario files.
        env_id: The environment; none for what all of them share.

    Raises:
        UnknownName: There is no such family.
    """
    if name not in FAMILIES:
        raise UnknownName("family", name, FAMILIES)
    return BY_ENVIRONMENT.get(env_id, FAMILIES[name])
