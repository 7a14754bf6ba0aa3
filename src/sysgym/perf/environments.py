"""Speed of environments: single, vectorised, and in training."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

TRAINING = {"n_steps": 128, "batch_size": 2048, "n_epochs": 4}
"""Hyperparameters of PPO for many parallel environments: few optimiser steps with large batches."""

TRAINING_WORLDS = 64
TRAINING_ROLLOUTS = 16


def single(scenario: str, seed: int = 0) -> Any:
    """Return an environment of a scenario at the beginning of an episode."""
    import gymnasium

    env_id, arguments = _made_with(scenario)
    env = gymnasium.make(env_id, **arguments)
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


def side_by_side(scenario: str, n_worlds: int, seed: int = 0) -> Any:
    """Return the vectorised environment of a scenario on all cores, at the beginning of its episodes."""
    import gymnasium

    env_id, arguments = _made_with(scenario)
    env = gymnasium.make_vec(env_id, num_envs=n_worlds, vectorization_mode="vector_entry_point", **arguments)
    env.reset(seed=seed)
    return env


def _made_with(scenario: str) -> tuple[str, dict[str, Any]]:
    """Return the environment id of a scenario and the arguments with which agents create the environment."""
    from sysgym.scenarios import get_family, load_scenario

    loaded = load_scenario(scenario)
    own = get_family(loaded.family).agent_arguments(loaded.env_id)
    return loaded.env_id, {"scenario": scenario, **own}


def steps_per_s(env: Any, measured_s: float) -> float:
    """Return decisions per second of wall time through ``gymnasium.make``, resets included."""
    # A single flow sends at its link's rate, as in measurements of other gyms; random rates cost less time.
    highest = getattr(env.unwrapped, "uncapped_action", None)
    steps = 0
    began_s = time.perf_counter()
    while (elapsed_s := time.perf_counter() - began_s) < measured_s:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample() if highest is None else highest)
        steps += 1
        if terminated or truncated:
            env.reset()
    return steps / elapsed_s


def vector_steps_per_s(vector: Any, measured_s: float) -> float:
    """Return decisions per second of wall time of all environments together, resets included."""
    import numpy as np

    highest = getattr(vector.envs[0], "uncapped_action", None)
    actions = None if highest is None else np.tile(highest, (vector.num_envs, 1))
    vector.action_space.seed(0)
    steps = 0
    began_s = time.perf_counter()
    while (elapsed_s := time.perf_counter() - began_s) < measured_s:
        vector.step(vector.action_space.sample() if actions is None else actions)
        steps += vector.num_envs
    return steps / elapsed_s


def training_steps_per_s(scenario: str) -> float:
    """Return environment steps per second of PPO, including roll-outs, learning and writing of checkpoints.

    Raises:
        MissingExtra: The extra ``train`` is not installed.
    """
    from sysgym.agents.learned import train

    total_steps = TRAINING_ROLLOUTS * TRAINING_WORLDS * TRAINING["n_steps"]
    arguments: dict[str, Any] = {"n_envs": TRAINING_WORLDS, "hyper_parameters": TRAINING}
    with tempfile.TemporaryDirectory() as folder:
        # The first roll-out is not counted, because it includes imports and compilation.
        train("ppo", scenario, total_steps=1, out=Path(folder) / "first", **arguments)
        began_s = time.perf_counter()
        train("ppo", scenario, total_steps=total_steps, out=Path(folder) / "measured", **arguments)
        return total_steps / (time.perf_counter() - began_s)
