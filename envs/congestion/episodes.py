"""What the congestion environments share at their beginning: the scenario in any form, and episode seeds."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from sysgym.scenarios import CongestionScenario, load_scenario, scenario_from_resolved
from sysgym.scenarios.errors import UnknownName

ScenarioLike = str | PathLike[str] | Mapping[str, Any] | CongestionScenario


def resolve_scenario(scenario: ScenarioLike, overrides: Mapping[str, Any] | None) -> CongestionScenario:
    """Return the scenario that a name, a file, a resolved form or a scenario stands for, keys replaced."""
    if isinstance(scenario, CongestionScenario):
        found = scenario
    elif isinstance(scenario, Mapping):
        found = scenario_from_resolved(scenario, expect=CongestionScenario)
    else:
        return load_scenario(scenario, overrides=overrides, expect=CongestionScenario)
    return found.with_overrides(overrides) if overrides else found


def draw_episode_seed(
    rng: np.random.Generator, seeds: tuple[int, int], options: Mapping[str, Any] | None
) -> int:
    """Return the seed of the next episode: drawn from the split, or pinned by ``options["episode_seed"]``.

    Raises:
        UnknownName: If there is another option.
    """
    options = options or {}
    for key in options:
        if key != "episode_seed":
            raise UnknownName("reset option", key, ["episode_seed"])
    if "episode_seed" in options:
        return int(options["episode_seed"])
    first, last = seeds
    return int(rng.integers(first, last + 1))
