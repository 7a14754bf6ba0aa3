"""Scenarios and episode seeds of the congestion environments."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from sysgym.envs import episodes
from sysgym.envs.episodes import draw_episode_seed
from sysgym.scenarios import CongestionScenario

__all__ = ["ScenarioLike", "draw_episode_seed", "resolve_scenario"]

ScenarioLike = str | PathLike[str] | Mapping[str, Any] | CongestionScenario


def resolve_scenario(scenario: ScenarioLike, overrides: Mapping[str, Any] | None) -> CongestionScenario:
    """Return the scenario given by name, file, resolved form or object, with overrides applied."""
    return episodes.resolve_scenario(scenario, overrides, CongestionScenario)
