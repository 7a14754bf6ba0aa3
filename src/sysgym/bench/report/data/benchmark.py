"""Data of a report: samples, intervals and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sysgym.bench import statistics
from sysgym.bench.matrix import Matrix
from sysgym.bench.report.data.doubts import warnings_of
from sysgym.bench.report.data.players import Player as Player
from sysgym.bench.report.data.players import players_of
from sysgym.bench.report.data.record import matrix_of, metrics_of, read_record
from sysgym.bench.report.texts import printable, shown_name, slug
from sysgym.bench.results.records import SittingFields
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.statistics import FloatArray, Interval
from sysgym.errors import UnknownName
from sysgym.scenarios.families import evaluation_of
from sysgym.scenarios.family import Evaluation, Metric
from sysgym.scenarios.schema.splits import SPLIT_NAMES
from sysgym.scenarios.units import Unit, unit_of

RETURN = "return"
"""Name of the sum of rewards, which can be used like a metric."""

ALL_IN_COLOUR = 8
"""Maximum number of contenders for which pictures show all contenders in colour."""

N_BEST = 3
"""Number of best contenders shown in colour if there are more than :data:`ALL_IN_COLOUR`."""


@dataclass(frozen=True)
class Score:
    """Result of one contender in one metric.

    Attributes:
        estimate: Average over episodes with its interval, in SI units.
        best: Whether the contender is the best of the competitors.
        tied: Whether the contender is the best, or does not differ significantly from the best.
        difference: Difference to the reference, in SI units; None for the reference itself, and without
            common seeds.
        n_runs: Number of trainings (1 for agents that are not learned).
        n_seeds: Number of episodes of each training.
    """

    estimate: Interval
    best: bool
    tied: bool
    difference: Interval | None
    n_runs: int
    n_seeds: int


class ScenarioResult:
    """Results in one scenario and split.

    Args:
        rows: Rows of the scenario and split.
        evaluation: Evaluation of the scenario's environment.
        players: Contenders in the order of the report.
        metrics: Columns, the most important first; metrics without values are left out.
        reference: Contender with which the others are compared; if it has no rows, the first competitor is
            used instead.
        title: Title of the scenario.
        description: Description of the scenario.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        evaluation: Evaluation,
        players: Sequence[Player],
        metrics: Sequence[Metric],
        reference: str,
        title: str = "",
        description: str = "",
    ) -> None:
        self.name, self.split, self.evaluation = rows[0].scenario, rows[0].split, evaluation
        self.title, self.description = title, description
        present = {row.contender.name for row in rows}
        own = {player.name: player for player in players_of(rows, ())}
        self.players = [own[player.name] for player in players if player.name in present]
        first = evaluation.leading
        self.metrics = sorted(
            _distinct(rows, metrics),
            key=lambda metric: first.index(metric.name) if metric.name in first else len(first),
        )
        competitors = [player.name for player in self.players if not player.privileged]
        self.reference = reference if reference in present else (competitors or [self.players[0].name])[0]
        self.seeds = sorted({row.seed for row in rows})
        self._rows = rows
        self._samples: dict[tuple[str, str], tuple[FloatArray, list[int]] | None] = {}
        self._estimates: dict[str, dict[str, Interval]] = {}

    @property
    def _average(self) -> statistics.Statistic:
        return statistics.AVERAGES[self.evaluation.average]

    @property
    def label(self) -> str:
        """Name of the scenario, with the split unless it is the test split."""
        return self.name if self.split == "test" else f"{self.name} ({self.split})"

    @property
    def slug(self) -> str:
        """Scenario and split as part of names of files and anchors, unique among results."""
        between = "-" if self.split in SPLIT_NAMES else "--"
        return f"{slug(self.name)}{between}{slug(self.split)}"

    @property
    def resolved(self) -> Mapping[str, Any]:
        """Complete scenario in the rows, with all defaults."""
        return self._rows[0].scenario_resolved

    @property
    def sha256(self) -> str:
        """Digest of the scenario in the rows."""
        return printable(self._rows[0].scenario_sha256, 64)

    @property
    def outside_split(self) -> list[int]:
        """Seeds outside the split."""
        try:
            first, last = self.resolved["splits"][self.split]["seeds"]
            return [seed for seed in self.seeds if not first <= seed <= last]
        except (KeyError, TypeError, ValueError):
            return []

    def sample(self, player: str, metric: str) -> tuple[FloatArray, list[int]] | None:
        """Return values of shape (n_runs, n_seeds) and their seeds; None if there are none.

        Args:
            player: Name of a contender.
            metric: Key in the rows, or :data:`RETURN`.
        """
        key = (player, metric)
        if key not in self._samples:
            self._samples[key] = self._collect(player, metric)
        return self._samples[key]

    def _collect(self, player: str, metric: str) -> tuple[FloatArray, list[int]] | None:
        runs: dict[str | None, dict[int, float]] = {}
        for row in self._rows:
            value = row.total_reward if metric == RETURN else row.metrics.get(metric)
            if row.contender.name == player and value is not None:
                runs.setdefault(row.contender.checkpoint_sha256, {})[row.seed] = value
        if not runs:
            return None
        seeds = sorted(set.intersection(*(set(run) for run in runs.values())))
        if not seeds:
            return None
        return np.array([[run[seed] for seed in seeds] for run in runs.values()]), seeds

    @cached_property
    def metric_names(self) -> set[str]:
        """Metrics that at least one row has, including those without a column."""
        return {name for row in self._rows for name in row.metrics}

    def row(self, player: str, seed: int) -> Row | None:
        """Return the first row of a contender's episode; None if there is none."""
        return next((row for row in self._rows if (row.contender.name, row.seed) == (player, seed)), None)

    def n_episodes(self, player: str) -> int:
        """Return the number of a contender's seeds."""
        return len({row.seed for row in self._rows if row.contender.name == player})

    def decision_ms(self, player: str) -> float | None:
        """Return the median over episodes of the time per decision, ms; None if it was not measured."""
        times_ms = [
            row.decision_ms
            for row in self._rows
            if row.contender.name == player and row.decision_ms is not None
        ]
        return float(np.median(times_ms)) if times_ms else None

    def invalid_share(self, player: str) -> float:
        """Return the share of a contender's episodes that are not valid, such as with a forbidden action."""
        valid = [row.metrics.get("valid", 1.0) for row in self._rows if row.contender.name == player]
        return 1.0 - float(np.mean(valid)) if valid else 0.0

    @property
    def has_invalid(self) -> bool:
        """Whether any episode was not valid, such as one with a forbidden action."""
        return any(self.invalid_share(player.name) > 0.0 for player in self.players)

    def accounts(self, player: str) -> list[Mapping[str, Any]]:
        """Return the energy records of a contender's episodes, where present."""
        return [row.energy for row in self._rows if row.contender.name == player and row.energy is not None]

    def mean_return(self, player: str) -> float:
        """Return the mean return of a contender."""
        return float(np.mean([row.total_reward for row in self._rows if row.contender.name == player]))

    @property
    def timed(self) -> bool:
        """Whether the time per decision is known for any contender."""
        return any(row.decision_ms is not None for row in self._rows)

    @cached_property
    def in_colour(self) -> list[str]:
        """Contenders that pictures show in colour: all contenders or, if there are many, a selection.

        The selection consists of the best in the first metric, the reference, learned agents and privileged
        agents.
        """
        if len(self.players) <= ALL_IN_COLOUR:
            return [player.name for player in self.players]
        names = {player.name for player in self.players if player.learned or player.privileged}
        names.add(self.reference)
        for metric in self.focus[:1]:
            estimates = dict(self.estimates_of(metric.name))
            for _ in range(N_BEST):
                best = self.best(metric, estimates)
                if best is not None:
                    names.add(best)
                    del estimates[best]
        return [player.name for player in self.players if player.name in names]

    @cached_property
    def scores(self) -> dict[tuple[str, str], Score]:
        """Scores by contender and metric; pairs without values are omitted."""
        return {
            (name, metric.name): score
            for metric in self.metrics
            for name, score in self.scores_of(metric).items()
        }

    def estimates_of(self, metric: str) -> dict[str, Interval]:
        """Return the estimates of a metric, by contender; contenders without values are omitted.

        There are no estimates of a metric that is not a column.
        """
        if all(one.name != metric for one in self.metrics):
            return {}
        if metric not in self._estimates:
            self._estimates[metric] = {
                player.name: statistics.estimate(sample[0], statistic=self._average)
                for player in self.players
                if (sample := self.sample(player.name, metric)) is not None
            }
        return self._estimates[metric]

    def scores_of(self, metric: Metric) -> dict[str, Score]:
        """Return the estimates of a metric and comparisons with others, by contender.

        Contenders without values are omitted. Each call computes the comparisons again.
        """
        found: dict[str, Score] = {}
        estimates = self.estimates_of(metric.name)
        best = self.best(metric, estimates)
        for name, estimate in estimates.items():
            sample = self.sample(name, metric.name)
            assert sample is not None
            to_best = self.difference(name, best, metric.name) if best is not None else None
            found[name] = Score(
                estimate,
                best=name == best,
                tied=name == best or (to_best is not None and not to_best.excludes_zero),
                difference=None
                if name == self.reference
                else self.difference(name, self.reference, metric.name),
                n_runs=sample[0].shape[0],
                n_seeds=sample[0].shape[1],
            )
        return found

    def best(
        self, metric: Metric, estimates: Mapping[str, Interval], among: Iterable[str] | None = None
    ) -> str | None:
        """Return the competitor with the best estimate; privileged agents do not compete.

        If estimates are equal, the one with the narrowest interval is the best.
        """
        allowed = {player.name for player in self.players if not player.privileged}
        if among is not None:
            allowed &= set(among)
        sign = 1.0 if metric.higher_is_better else -1.0
        return max(
            (name for name in estimates if name in allowed),
            key=lambda name: (sign * estimates[name].value, estimates[name].low - estimates[name].high),
            default=None,
        )

    def difference(self, ours: str, theirs: str, metric: str) -> Interval | None:
        """Return ours minus theirs on common seeds; None without common seeds."""
        pair = self.pair(ours, theirs, metric)
        return None if pair is None else statistics.paired_difference(*pair, statistic=self._average)

    def pair(self, ours: str, theirs: str, metric: str) -> tuple[FloatArray, FloatArray] | None:
        """Return the samples of two contenders on their common seeds; None without common seeds."""
        mine, other = self.sample(ours, metric), self.sample(theirs, metric)
        if mine is None or other is None:
            return None
        common = sorted(set(mine[1]) & set(other[1]))
        if not common:
            return None
        return (
            mine[0][:, [mine[1].index(seed) for seed in common]],
            other[0][:, [other[1].index(seed) for seed in common]],
        )

    def unit(self, metric: str) -> Unit:
        """Return the unit of the metric's column."""
        values = [estimate.value for estimate in self.estimates_of(metric).values()]
        return unit_of(metric, values)

    @property
    def focus(self) -> list[Metric]:
        """Metrics of the headline: the headline metric of the family (or its benefit), and the cost.

        If the results have none of these metrics, the first two columns are used.
        """
        by_name = {metric.name: metric for metric in self.metrics}
        evaluation = self.evaluation
        first = evaluation.headline if evaluation.headline.name in by_name else evaluation.benefit
        wanted = dict.fromkeys((first.name, evaluation.cost.name))
        return [by_name[name] for name in wanted if name in by_name] or self.metrics[:2]

    def enough_benefit(self) -> set[str]:
        """Return the contenders with enough of the family's benefit for their costs to be compared."""
        estimates = self.estimates_of(self.evaluation.benefit.name)
        found = {name: estimate.value for name, estimate in estimates.items()}
        competing = [
            found[player.name] for player in self.players if player.name in found and not player.privileged
        ]
        if not competing:
            return {player.name for player in self.players}
        return {
            name for name, value in found.items() if value >= self.evaluation.enough_benefit * max(competing)
        }


@dataclass(frozen=True)
class BenchmarkResult:
    """All results in a results folder.

    Attributes:
        title: Title of the suite.
        description: Description of the suite.
        results: Results by scenario and split.
        players: All contenders in the order of the report.
        reference: Contender with which the others are compared.
        sittings: Sessions of the benchmark that made the rows.
        rows: All rows.
        warnings: Reasons to doubt the results.
        folder: Results folder.
        matrix: Generalisation matrix; None if the suite has no ``[matrix]``.
    """

    title: str
    description: str
    results: list[ScenarioResult]
    players: list[Player]
    reference: str
    sittings: list[SittingFields]
    rows: list[Row]
    warnings: list[str]
    folder: Path
    matrix: Matrix | None = None


def read_benchmark(folder: Path, reference: str | None = None) -> BenchmarkResult:
    """Read a results folder.

    Args:
        folder: Results folder with ``results.jsonl`` and, optionally, ``run.json``.
        reference: Contender with which the others are compared; None: that of the family if it has rows,
            otherwise the first competitor.

    Raises:
        SysgymError: If there are no rows.
        UnknownName: If the reference has no rows.
    """
    rows = [_shown(row) for row in read_rows(folder)]
    record = read_record(folder)
    suite = record.suite
    players = players_of(rows, suite.contenders)
    names = [player.name for player in players]
    if reference is not None and reference not in names:
        raise UnknownName("contender", reference, names)
    named = dict.fromkeys(row.scenario_resolved["family"] for row in rows)
    evaluations = [evaluation_of(family) for family in named]
    if reference is None:
        competitors = [player.name for player in players if not player.privileged]
        known = [one.reference for one in evaluations if one.reference in names]
        reference = [*known, *competitors, *names][0]
    metrics = metrics_of(record) or [metric for one in evaluations for metric in one.metrics]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.scenario, row.split), []).append(row)
    order = list(suite.scenarios)
    keys = sorted(groups, key=lambda key: order.index(key[0]) if key[0] in order else len(order))
    results = []
    for key in keys:
        resolved = groups[key][0].scenario_resolved
        results.append(
            ScenarioResult(
                groups[key],
                evaluation_of(resolved["family"], resolved["env_id"]),
                players,
                metrics,
                reference,
                printable(resolved["title"]),
                printable(resolved["description"]).strip(),
            )
        )
    return BenchmarkResult(
        title=suite.title or f"Results of {printable(folder.resolve().name)}",
        description=suite.description,
        results=results,
        players=players,
        reference=reference,
        sittings=record.sittings,
        rows=rows,
        warnings=warnings_of(rows, record, results),
        folder=folder,
        matrix=matrix_of(record),
    )


def _distinct(rows: Sequence[Row], metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics in the rows, without those that have the same values as an earlier metric.

    For example, if all flows are small, the metrics of small flows repeat those of all flows.
    """
    columns: dict[tuple[float | None, ...], Metric] = {}
    for metric in metrics:
        column = tuple(row.metrics.get(metric.name) for row in rows)
        if any(value is not None for value in column):
            columns.setdefault(column, metric)
    return list(columns.values())


def _shown(row: Row) -> Row:
    """Return a row with names made safe to show, as the file may come from an untrusted source."""
    who = row.contender
    names = (shown_name(row.scenario), shown_name(row.split), shown_name(who.name))
    if names == (row.scenario, row.split, who.name):
        return row
    return replace(row, scenario=names[0], split=names[1], contender=replace(who, name=names[2]))
