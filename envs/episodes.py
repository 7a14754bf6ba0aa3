"""Resolution of scenarios and drawing of episode seeds, common to all families."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np

from sysgym.scenarios import Scenario, load_scenario, scenario_from_resolved
from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.families import families
from sysgym.scenarios.schema.splits import LARGEST_SEED

ScenarioT = TypeVar("ScenarioT", bound=Scenario)


def resolve_scenario(
    scenario: str | PathLike[str] | Mapping[str, Any] | ScenarioT,
    overrides: Mapping[str, Any] | None,
    expect: type[ScenarioT],
) -> ScenarioT:
    """Return the scenario given by name, file, resolved form or object, with overrides applied.

    Args:
        scenario: The scenario in one of these forms.
        overrides: New values by dotted key.
        expect: Schema of the family.

    Raises:
        ScenarioError: If the scenario cannot be used, or belongs to another family.
    """
    if isinstance(scenario, expect):
        found = scenario
    elif isinstance(scenario, Mapping):
        found = scenario_from_resolved(scenario, expect=expect)
    else:
        return load_scenario(scenario, overrides=overrides, expect=expect)  # type: ignore[arg-type]
    return found.with_overrides(overrides) if overrides else found


def check_registered(env_id: str) -> None:
    """Check that an environment is registered with Gymnasium.

    Args:
        env_id: Id of the environment, as in scenario files.

    Raises:
        UnknownName: If no environment has this id.
    """
    if env_id not in gym.registry:
        known = [one.env_id for family in families().values() for one in family.environments]
        raise UnknownName("environment", env_id, known, hint="or add --plugin FILE if a file registers it")


def draw_episode_seed(
    rng: np.random.Generator, seeds: tuple[int, int], options: Mapping[str, Any] | None
) -> int:
    """Return the seed of the next episode, drawn from the split or set by ``options["episode_seed"]``.

    Raises:
        UnknownName: If there is any other option.
        SysgymError: If the given seed is not an integer from 0 to LARGEST_SEED.
    """
    options = options or {}
    for key in options:
        if key != "episode_seed":
            raise UnknownName("reset option", key, ["episode_seed"])
    if "episode_seed" in options:
        pinned = options["episode_seed"]
        # The same limit as in scenario files, so that every generator accepts the seed.
        if isinstance(pinned, bool | np.bool_) or not isinstance(pinned, int | np.integer):
            raise SysgymError(f"reset option episode_seed: got {pinned!r:.80}, expected a whole number")
        if not 0 <= pinned <= LARGEST_SEED:
            raise SysgymError(f"reset option episode_seed: expected 0 to {LARGEST_SEED}")
        return int(pinned)
    first, last = seeds
    return int(rng.integers(first, last + 1))
