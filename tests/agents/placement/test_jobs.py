"""Agents that place several jobs, on systems whose optimum is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.agents import make_agent
from sysgym.emulator.accelerators.jobs.assignments import all_assignments
from sysgym.scenarios.errors import SysgymError

Play = Callable[..., tuple[Any, float, dict[str, float]]]
SMALL = "multi-job-small"


def test_nobody_beats_exhaustive_search_and_searches_come_close(play: Play) -> None:
    means: dict[str, list[float]] = {}
    for seed in range(20_000, 20_008):
        for name in ("exhaustive", "packed", "spread", "greedy", "annealing"):
            _, total, metrics = play(name, SMALL, seed)
            assert metrics["valid"] == 1.0
            assert total == pytest.approx(np.log(metrics["speedup"]), abs=1e-9)
            means.setdefault(name, []).append(metrics["mean_slowdown"])
    least = np.array(means.pop("exhaustive"))
    for found in means.values():
        assert np.all(np.array(found) >= least * (1 - 1e-9))
    assert np.mean(np.array(means["annealing"]) / least) < 1.05
    assert np.mean(means["greedy"]) < np.mean(means["spread"])


def test_exhaustive_search_simulates_each_assignment_once(play: Play) -> None:
    agent = make_agent("exhaustive", family="placement")
    world, _, metrics = play(agent, SMALL)
    everything = all_assignments(world.system.hierarchy, world.system.jobs, 10_000)
    assert agent.simulations == len(everything)  # type: ignore[attr-defined]
    best = min(world.system.slowdowns(counts).mean() for counts in everything)
    assert metrics["mean_slowdown"] == pytest.approx(best)


def test_exhaustive_search_says_where_it_ends(play: Play) -> None:
    with pytest.raises(SysgymError, match="exhaustive search is for"):
        play("exhaustive", "multi-job-unseen", 20_001)


def test_the_default_is_packed(play: Play) -> None:
    for name in ("default", "packed"):
        assert play(name, SMALL)[1] == 0.0
