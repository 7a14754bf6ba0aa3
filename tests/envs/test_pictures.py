"""Pictures of every environment: one size in all episodes and steps, as videos require."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.registration import ENVIRONMENTS

REGISTERED = sysgym.__version__
SEEDS = 3
STEPS = 3
SMALL: dict[str, dict[str, Any]] = {
    "sysgym/DatacenterCC-v0": {"scenario": "iroko-dumbbell-10m"},
    "sysgym/FlowCC-v0": {"scenario": "flow-1g-1ms"},
}
OTHERS = {
    "sysgym/CollectivePlacement-v0": {"scenario": "placement-unseen"},
    "sysgym/ReductionProgram-v0": {"scenario": "program-unseen"},
    "sysgym/JointPlacement-v0": {"overrides": {"joint.budget": 3, "joint.candidates": 5}},
    "sysgym/MultiJobPlacement-v0": {"scenario": "multi-job-small"},
}


def shapes(env: Any) -> set[tuple[int, ...]]:
    """Return the shapes of the pictures of some episodes, of their first steps and of the last one."""
    rng = np.random.default_rng(0)
    found = set()
    for seed in range(SEEDS):
        _, info = env.reset(seed=seed)
        found.add(env.render().shape)
        over, step = False, 0
        while not over and step < (100 if "action_mask" in info else STEPS):
            mask = info.get("action_mask")
            action = env.action_space.sample() if mask is None else rng.choice(np.flatnonzero(mask))
            _, _, terminated, truncated, info = env.step(action)
            over, step = terminated or truncated, step + 1
            if over or step <= STEPS:
                found.add(env.render().shape)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "arguments"),
    [*((env_id, SMALL.get(env_id, {})) for env_id in ENVIRONMENTS), *OTHERS.items()],
)
def test_all_pictures_of_an_environment_have_one_size(env_id: str, arguments: dict[str, Any]) -> None:
    env = gym.make(env_id, render_mode="rgb_array", **arguments)
    (shape,) = shapes(env)
    assert shape[0] % 2 == shape[1] % 2 == 0, "encoders of videos need even numbers"
    env.close()
