"""Scores, dominance and changes of slowdowns, on metrics whose comparison is known."""

from __future__ import annotations

from typing import Any

import pytest

from sysgym.bench.contenders import parse_contender
from sysgym.bench.leaderboard.power import CLASSICS
from sysgym.envs.congestion.power import NONE_ENDED
from sysgym.studies.random_networks.comparison import Comparison, is_ahead, tables, verdicts
from sysgym.studies.random_networks.study import REFERENCES, RandomNetworks

MINE = RandomNetworks([parse_contender("mine=newvegas", (), "congestion")], 2)


def metrics(goodput: float, queue: float, slowdown: float | None, **others: float) -> dict[str, float]:
    flows = {"completed_flows": 9.0, "offered_flows": 10.0}
    ended = {} if slowdown is None else {"fct_slowdown_p99": slowdown}
    return {"goodput_bps": goodput, "queue_p99_bytes": queue, **ended, **flows, **others}


BEST, HALF = metrics(1e9, 20e3, 4.0), metrics(1e9, 40e3, 4.0)


def compared(**laws: list[dict[str, float]]) -> Comparison:
    played: dict[str, list[dict[str, float]]] = {name: [HALF, HALF] for name in REFERENCES} | laws
    rows: list[dict[str, Any]] = [
        {
            "law": name,
            "network": number,
            "kind": "incast",
            "rate_bps": 1e9 * (1 + 99 * number),
            "metrics": found,
        }
        for name, several in played.items()
        for number, found in enumerate(several)
    ]
    return Comparison(MINE, rows)


def test_scores_are_doublings_of_the_best_classics_power() -> None:
    found = compared(swift=[BEST, BEST], mine=[metrics(1e9, 10e3, 2.0), metrics(1e9, 20e3, 8.0)])
    assert found.scores("mine") == pytest.approx([2.0, -1.0])
    assert found.scores("swift") == pytest.approx([0.0, 0.0])
    assert found.beaten("mine") == 1, "Swift is in no respect worse in the second episode, and in one better"
    assert found.beaten("swift") == 0
    assert found.beaten(CLASSICS[0]) == 2
    rows = {row[0]: row for row in next(tables(found)).rows}
    assert rows["mine"][1:] == ("0.50 [-1.0, 2.0]", "0.50 [-1.0, 2.0]", "1.5 [0, 3.0]", "1 of 2", "90.0%")


def test_parts_are_by_rate_and_kind() -> None:
    found = compared(swift=[BEST, BEST], mine=[metrics(1e9, 10e3, 4.0), metrics(1e9, 80e3, 4.0)])
    rows = {row[0]: row[1:3] for row in list(tables(found))[1].rows}
    assert rows["below 1 Gb/s"] == ("0", "")
    assert rows["1 to 25 Gb/s"] == ("1", "1.0 [1.0, 1.0]")
    assert rows["25 Gb/s and more"] == ("1", "-2.0 [-2.0, -2.0]")
    assert rows["incast"] == ("2", "-0.50 [-2.0, 1.0]")


def test_ahead_is_nowhere_worse_and_somewhere_better() -> None:
    assert is_ahead(BEST, HALF)
    assert not is_ahead(HALF, BEST)
    assert not is_ahead(BEST, BEST)
    assert not is_ahead(metrics(1e9, 20e3, 5.0), HALF), "a shorter queue, and a longer slowdown"
    assert not is_ahead(metrics(1e9, 100.0, 4.0), metrics(1e9, 2_000.0, 4.0)), "both have no queue"


def test_a_law_under_which_no_flow_ends_has_the_least_score() -> None:
    idle = metrics(1e3, 0.0, None)
    found = compared(mine=[idle, idle])
    assert is_ahead(metrics(1e9, 3e3, NONE_ENDED / 2), idle)
    assert (found.scores("mine") < -20.0).all()


def test_slowdowns_are_geometric_means_with_shares_of_networks() -> None:
    base = [metrics(1e9, 1e4, 4.0, fct_slowdown_p50_large=slowdown) for slowdown in (1.0, 2.0)]
    mine = [metrics(1e9, 1e4, 4.0, fct_slowdown_p50_large=slowdown) for slowdown in (2.0, 1.0)]
    found = compared(dctcp=base, mine=mine)
    rows = {row[0]: row[1] for row in list(tables(found))[2].rows}
    assert rows["1 MB and more, median"] == "+0 [−50, +100]; 50 / 50"
    assert rows["all flows, p99"] == "+0 [+0, +0]; 0 / 0"
    assert rows["10 MB and more, p99"] == ""
    score, slowdowns = verdicts(found)
    assert score.startswith("mine: its score is above swift's (difference 2.0 [2.0, 2.0])")
    assert slowdowns == "mine: slowdowns clearly above dctcp's in the mean: none."
