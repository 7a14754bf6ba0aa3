"""Contenders of a report: constants, and what they learn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sysgym.bench.report.data.players import players_of
from sysgym.bench.results.rows import Row

MakeRow = Callable[..., Row]


def _of(row: Row, agent: str, **parameters: Any) -> Row:
    contender = replace(row.contender, name=agent, agent=agent, parameters=tuple(parameters.items()))
    resolved = {**row.scenario_resolved, "family": "stragglers"}
    return replace(row, contender=contender, scenario_resolved=resolved)


def test_who_is_fitted_to_the_train_split_is_declared_by_the_agent(make_row: MakeRow) -> None:
    row = make_row()
    rows = [_of(row, "wrangler", confidence=0.8), _of(row, "nurd", alpha=0.25), _of(row, "my own agent")]
    players = {player.name: player for player in players_of(rows, ["nurd"])}
    assert [player.fitted for player in players.values()] == [False, True, False]
    assert players["wrangler"].knows_other_episodes
    assert not players["nurd"].knows_other_episodes
    assert players["nurd"].constants == "alpha = 0.25"


def test_constants_are_shown_only_where_all_rows_have_the_same(make_row: MakeRow) -> None:
    row = make_row()
    same = [_of(row, "nurd", alpha=0.25), _of(row, "nurd", alpha=0.25)]
    assert players_of(same, ())[0].constants == "alpha = 0.25"
    tuned = [*same, _of(row, "nurd", alpha=0.5), _of(row, "nurd", alpha=0.25)]
    assert players_of(tuned, ())[0].constants == ""
