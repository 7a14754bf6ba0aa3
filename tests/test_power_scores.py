"""Scores of scripts/laws/power_scores.py: power, intervals over trainings, and who is ahead in everything."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.scripts import load_script


@pytest.fixture(scope="module")
def power() -> ModuleType:
    return load_script("laws/power_scores")


def row(law: str, seed: int, goodput: float, queue: float, slowdown: float | None, training: int = 0) -> Any:
    metrics = {"goodput_bps": goodput, "queue_p99_bytes": queue}
    if slowdown is not None:
        metrics["fct_slowdown_p99"] = slowdown
    contender = SimpleNamespace(name=law, identity=(law, training))
    return SimpleNamespace(scenario="one", seed=seed, metrics=metrics, contender=contender)


def test_tuned_swift_is_shown_but_is_no_classic(power: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("adaptive_target", 1, 4e9, 8e3, 2.0), row("swift", 1, 4e9, 8e3, 2.0)]
    rows += [
        row("hpcc", 1, 4e9, 8e3, 2.0),
        row("tuned_swift", 1, 4e9, 4e3, 2.0),
        row("dctcp", 1, 4e9, 64e3, 2.0),
    ]
    scores, best = power.scores_of(rows)
    assert best == "swift"
    monkeypatch.setattr(power, "CLASSICS", ("swift", "dctcp"))
    text = power.score_table({"one": scores})
    assert "| adaptive_target less tuned_swift | -1" in text
    assert "Trainings of `tuned_swift`, new scenarios: 1.00." in text


@pytest.mark.parametrize(
    ("queue", "slowdown", "ahead"),
    [(8e3, 2.0, []), (8e3, 1.0, ["swift"]), (4e3, 2.001, ["swift"]), (4e3, 2.1, []), (8.004e3, 2.0, [])],
)
def test_ahead_in_everything_allows_ties(
    power: ModuleType, queue: float, slowdown: float, ahead: list[str]
) -> None:
    rows = [row("adaptive_target", 1, 4e9, 8e3, 2.0), row("swift", 1, 4e9, queue, slowdown)]
    assert list(power.better_in_everything(rows)) == ahead
