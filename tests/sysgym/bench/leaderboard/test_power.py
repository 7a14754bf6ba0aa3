"""The score by power: what it is, and intervals over trainings and seeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sysgym.bench.leaderboard import power
from sysgym.errors import SysgymError


def row(law: str, seed: int, goodput: float, queue: float, slowdown: float | None, training: int = 0) -> Any:
    metrics = {"goodput_bps": goodput, "queue_p99_bytes": queue}
    if slowdown is not None:
        metrics["fct_slowdown_p99"] = slowdown
    contender = SimpleNamespace(name=law, identity=(law, training))
    return SimpleNamespace(scenario="one", seed=seed, metrics=metrics, contender=contender)


def test_power_is_goodput_over_queue_and_slowdown() -> None:
    rows = [row("swift", 1, 4e9, 8e3, 2.0), row("dctcp", 1, 4e9, 64e3, 4.0), row("hpcc", 1, 4e9, 1e3, 2.0)]
    scores, best = power.scores_of(rows)
    assert best == "swift"
    assert scores["dctcp"] == pytest.approx(-4.0)
    assert scores["hpcc"] == pytest.approx(np.log2(8.0 / 3.0))  # queues of two packets and less are alike


def test_scenarios_without_ends_have_no_slowdown() -> None:
    scores, _ = power.scores_of([row("swift", 1, 4e9, 8e3, None), row("cubic", 1, 4e9, 16e3, None)])
    assert scores["cubic"] == pytest.approx(-1.0)


def test_rows_that_do_not_match_are_refused() -> None:
    ends = [row("swift", 1, 4e9, 8e3, 2.0), row("dctcp", 1, 4e9, 8e3, None)]
    with pytest.raises(SysgymError, match="flows end under some laws only"):
        power.log_powers(ends)
    with pytest.raises(SysgymError, match="different seeds"):
        power.values_of([row("swift", 1, 4e9, 8e3, 2.0), row("dctcp", 2, 4e9, 8e3, 2.0)], "goodput_bps")


def test_trainings_are_the_same_in_all_scenarios() -> None:
    """Ten scenarios with the same two trainings tell as much about trainings as one."""
    sample = np.array([[0.0] * 10, [1.0] * 10])
    one, ten = power.mean_over_scenarios([sample]), power.mean_over_scenarios([sample] * 10)
    assert one.value == ten.value == 0.5
    assert (ten.low, ten.high) == (one.low, one.high) == (0.0, 1.0)


def test_laws_with_other_numbers_of_trainings_are_compared_on_common_seeds() -> None:
    hard = np.arange(10.0)[None]  # what seeds do to both cancels
    ours, theirs = hard + np.array([[1.0], [1.0], [1.0]]), hard + np.array([[0.5], [0.5]])
    assert power.mean_difference([ours] * 4, [theirs] * 4) == pytest.approx((0.5, 0.5, 0.5))
    less_sure = power.mean_difference([ours] * 4, [hard + np.array([[0.0], [1.0]])] * 4)
    assert less_sure == pytest.approx((0.5, 0.0, 1.0))
