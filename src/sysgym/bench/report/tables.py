"""Tables of a report as data, shared by the writers ``html`` and ``markdown``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sysgym.bench.report.content import DECISION, REFERENCE, cell, decision, heading
from sysgym.bench.report.data.benchmark import BenchmarkResult, Player, ScenarioResult
from sysgym.bench.report.data.bound import bound_of, gap, has_gaps
from sysgym.bench.report.data.carbon import COST_COLUMNS, Cost, worth_of
from sysgym.bench.report.data.headlines import listed, shown_interval, uncapitalized
from sysgym.bench.report.data.overall import Overall, metrics_of
from sysgym.bench.report.data.verdict import behind, rankings
from sysgym.bench.statistics import Interval
from sysgym.bench.surveys import Page


@dataclass(frozen=True)
class Cell:
    """Cell of a table.

    Attributes:
        text: The value.
        notes: Smaller lines below the value.
        kind: Kind that sets the colour: ``best``, ``tied``, ``worse``, ``soft`` or empty.
        sort: Sort key; None: the text.
        key: Contender whose colour is shown before the text.
    """

    text: str
    notes: tuple[str, ...] = ()
    kind: str = ""
    sort: float | None = None
    key: str | None = None


@dataclass(frozen=True)
class Column:
    """Column of a table.

    Attributes:
        label: Heading.
        note: Unit, direction or another explanation.
        group: Slug and name of the column's scenario if several scenarios share the table.
    """

    label: str
    note: str = ""
    group: tuple[str, str] | None = None


@dataclass(frozen=True)
class ReportTable:
    """Table in which the first cell of a row is its name.

    Attributes:
        caption: Caption.
        columns: Columns.
        rows: Rows with one cell for each column.
        apart: Indices of rows of contenders that do not compete.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    apart: frozenset[int] = frozenset()

    @property
    def groups(self) -> list[tuple[str, str, int]]:
        """Slug, name and number of columns of every group, in order; empty if columns have no groups."""
        found: list[tuple[str, str, int]] = []
        for column in self.columns[1:]:
            if column.group is None:
                return []
            if found and found[-1][:2] == column.group:
                found[-1] = (*column.group, found[-1][2] + 1)
            else:
                found.append((*column.group, 1))
        return found


NOTHING = Cell("–", kind="soft")

FITTED = "fitted to the train split"
"""Note on a contender that learns from other episodes without a checkpoint."""


def summary_table(benchmark: BenchmarkResult) -> ReportTable | None:
    """Return the table of best, tied and worse contenders in all headlines; None without competitors."""
    ranked = rankings(benchmark)
    if not ranked:
        return None
    columns, rows = [Column("contender")], []
    for result, several in ranked:
        for one in several:
            direction = "higher" if one.metric.higher_is_better else "lower"
            columns.append(Column(one.metric.label, f"{direction} is better", (result.slug, result.label)))
    for player in benchmark.players:
        cells = [_name(player)]
        for result, several in ranked:
            for one in several:
                kind = one.kind(player.name)
                if kind == "absent":
                    cells.append(NOTHING)
                    continue
                shown = shown_interval(result, player.name, one.metric.name, bounds=False)
                if kind == "worse":
                    notes = tuple(word for word in (behind(one, player.name), shown) if word)
                    cells.append(Cell("worse", notes, "worse"))
                elif kind in ("unranked", "reference"):
                    cells.append(Cell("not ranked" if kind == "unranked" else REFERENCE, (shown,), "soft"))
                else:
                    cells.append(Cell(kind, (shown,), kind))
        rows.append(tuple(cells))
    caption = "Summary: best, tied with the best, or worse, in the metrics of each scenario's headline."
    unranked = [result for result, several in ranked if any(one.unranked for one in several)]
    if unranked:
        benefits = listed(
            list(dict.fromkeys(uncapitalized(one.evaluation.benefit.label) for one in unranked))
        )
        caption += f" Not ranked: too little {benefits} for its cost to be compared."
    return ReportTable(caption, tuple(columns), tuple(rows), _apart(benchmark.players))


def contest_table(result: ScenarioResult, *, measured: bool) -> ReportTable:
    """Return the table of one scenario.

    Args:
        result: The scenario.
        measured: Whether to add columns of energy.
    """
    columns = [Column("contender")]
    columns += [Column(*heading(result, metric)) for metric in result.metrics]
    gaps = has_gaps(result)
    if gaps:
        columns.append(Column(f"Gap to {bound_of(result)}", result.focus[0].label))
    invalid = result.has_invalid
    if invalid:
        columns.append(Column("Not valid", "share of episodes"))
    if result.timed:
        columns.append(Column(DECISION, "median, this machine"))
    worth = worth_of(result) if measured else None
    if worth is not None:
        columns.append(Column(f"{worth.label} per g CO2e", "estimate"))
    rows = []
    for player in result.players:
        cells = [_name(player), *_scores(result, player)]
        if gaps:
            cells.append(_percent(gap(result, player.name)))
        if invalid:
            share = result.invalid_share(player.name)
            cells.append(Cell(f"{100.0 * share:.3g} %", kind="soft", sort=share))
        if result.timed:
            time_ms = result.decision_ms(player.name)
            cells.append(Cell(decision(result, player.name), kind="soft", sort=time_ms))
        if worth is not None:
            value, mass = worth.cell(player.name)
            amount = worth.values.get(player.name, (None, 0.0))[0]
            cells.append(Cell(value, (mass,) if mass else (), "soft", amount))
        rows.append(tuple(cells))
    caption = f"{result.label}: all contenders and metrics, with 95 % intervals"
    return ReportTable(caption, tuple(columns), tuple(rows), _apart(result.players))


def _scores(result: ScenarioResult, player: Player) -> list[Cell]:
    cells = []
    for metric in result.metrics:
        score = result.scores.get((player.name, metric.name))
        if score is None:
            cells.append(NOTHING)
            continue
        value, interval, versus = cell(result, metric, score)
        tied = score.tied and not player.privileged
        kind, mark = ("best", "best") if score.best else ("tied", "= best") if tied else ("", "")
        notes = tuple(word for word in (interval, mark, versus) if word)
        cells.append(Cell(value, notes, kind, score.estimate.value))
    return cells


def overall_table(benchmark: BenchmarkResult, totals: Sequence[Overall]) -> ReportTable:
    """Return the table over all scenarios.

    Args:
        benchmark: Results to report.
        totals: Rows of the table.
    """
    metrics, bound = metrics_of(benchmark), bound_of(benchmark)
    columns = [Column("contender"), Column("scenarios")]
    if bound is not None:
        columns.append(Column(f"Gap to {bound}", "lower is better"))
    columns += [Column(metric.label, f"beats {benchmark.reference}") for metric in metrics]
    rows = []
    privileged = {player.name for player in benchmark.players if player.privileged}
    for line in totals:
        cells = [
            Cell(line.player, (REFERENCE,) if line.player in privileged else (), key=line.player),
            Cell(str(line.n_scenarios), sort=float(line.n_scenarios)),
        ]
        if bound is not None:
            cells.append(_percent(line.gap))
        for metric in metrics:
            wins = line.wins.get(metric.name)
            cells.append(_percent(wins, better=_wins(wins) and line.player not in privileged))
        rows.append(tuple(cells))
    caption = f"All scenarios: probability that a contender beats {benchmark.reference}"
    apart = frozenset(index for index, line in enumerate(totals) if line.player in privileged)
    return ReportTable(caption, tuple(columns), tuple(rows), apart)


def _wins(chance: Interval | None) -> bool:
    return chance is not None and chance.low > 0.5


def training_table(trainings: Sequence[Cost], *, measured: bool) -> ReportTable:
    """Return the table of the costs of trainings.

    Args:
        trainings: Finished trainings.
        measured: Whether to show energy.
    """
    rows = tuple(tuple(map(Cell, training.cells(measured=measured))) for training in trainings)
    return ReportTable("Trainings: length, energy and emissions", tuple(map(Column, COST_COLUMNS)), rows)


def survey_table(page: Page) -> ReportTable:
    """Return the table of a survey's page."""
    return ReportTable(
        page.title, tuple(map(Column, page.columns)), tuple(tuple(map(Cell, row)) for row in page.rows)
    )


def _name(player: Player) -> Cell:
    what = "learned" if player.learned else REFERENCE if player.privileged else ""
    what = what or (FITTED if player.fitted else "")
    parts = player.parts if player.parts != player.name else ""
    notes = tuple(word for word in (parts, player.constants, what) if word)
    return Cell(player.name, notes, key=player.name)


def _apart(players: Sequence[Player]) -> frozenset[int]:
    return frozenset(index for index, player in enumerate(players) if player.privileged)


def _percent(interval: Interval | None, *, better: bool = False) -> Cell:
    if interval is None:
        return NOTHING
    value, low, high = (f"{100.0 * number:.3g}" for number in interval)
    return Cell(f"{value} %", (f"[{low}, {high}]",), "best" if better else "", interval.value)
