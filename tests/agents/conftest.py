"""Short episodes for the agents' tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

import sysgym

REGISTERED = sysgym.__version__
ENV_ID = "sysgym/DatacenterCC-v0"


@pytest.fixture(scope="session")
def make_env() -> Callable[..., Any]:
    """Makes a short environment of native actions, wrappers of gym.make included."""

    def make(scenario: str = "dumbbell-10g", *, steps: int = 12, **arguments: Any) -> Any:
        overrides = {"control.episode_steps": steps} | arguments.pop("overrides", {})
        arguments = {"action_scale": "native"} | arguments
        return gym.make(ENV_ID, scenario=scenario, overrides=overrides, **arguments)

    return make
