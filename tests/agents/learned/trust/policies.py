"""Untrained policies in checkpoints like those of training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import sysgym
from sysgym.agents.learned.checkpoint import CheckpointMeta, write_checkpoint
from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph
from sysgym.agents.learned.learning import problem_of
from sysgym.agents.learned.policy import Mlp
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios import Scenario

REGISTERED = sysgym.__version__


def random_mlp(seed: int, sizes: Sequence[int], activations: Sequence[str], spread: float = 1.0) -> Mlp:
    """Return a network with normal weights, scaled to keep its values near 1."""
    rng = np.random.default_rng(seed)
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
    weights = [spread * rng.normal(size=shape) / np.sqrt(shape[1]) for shape in shapes]
    biases = [0.1 * rng.normal(size=shape[0]) for shape in shapes]
    return Mlp(
        tuple(weight.astype(np.float32) for weight in weights),
        tuple(bias.astype(np.float32) for bias in biases),
        tuple(activations),
    )


def linear(*rows: Sequence[float]) -> Mlp:
    """Return a network of one layer."""
    weight = np.array(rows, dtype=np.float32)
    return Mlp((weight,), (np.zeros(len(rows), np.float32),), ("identity",))


def graph(network: Mlp, *, discrete: bool = False) -> PolicyGraph:
    """Return a policy over observations in [0, 1]."""
    size = network.weights[0].shape[1]
    bounds = np.zeros(size, np.float32), np.ones(size, np.float32)
    outputs = Choice(masked=False) if discrete else ActionScale("linear", 0.0, 1.0)
    return PolicyGraph(network, Inputs(size, low=bounds[0], high=bounds[1]), outputs)


def write_policy(path: Path, scenario: Scenario, seed: int, **of_network: Any) -> Path:
    """Write a checkpoint of a random policy for a scenario of networks, or of placements."""
    networks = scenario.family == "congestion"
    kwargs = {"history": 1} if networks else {}
    problem = problem_of(scenario, kwargs, "linear" if networks else "log")
    if problem.set_shape is None:
        env = gym.make(scenario.env_id, scenario=scenario, disable_env_checker=True)
        shapes = env.observation_space.shape, env.action_space.shape
        assert shapes[0] is not None
        assert shapes[1] is not None
        sizes = [shapes[0][0], 8, shapes[1][0]]
    else:
        sizes = [problem.set_shape.observation_size, 8, problem.set_shape.n_actions]
    meta = CheckpointMeta(
        agent="ppo" if networks else "maskable_ppo",
        env_id=scenario.env_id,
        scenario=scenario.resolved(),
        env_kwargs=kwargs,
        observation_index=problem.observation_index(),
        action_scale=problem.action_meaning(),
        total_steps=0,
        wall_s=0.0,
        seed=seed,
        n_envs=1,
        hyper_parameters={},
    )
    write_checkpoint(path, meta, random_mlp(seed, sizes, ("tanh", "identity"), **of_network), b"")
    return path
