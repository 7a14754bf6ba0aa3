"""Checkpoints of policies trained with stable-baselines3 by a user's program."""

from __future__ import annotations

import json
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import CheckpointMeta, write_checkpoint
from sysgym.agents.learned.learning import learning_of
from sysgym.agents.learned.own_environments import check_kept, environment_of, is_native, kept_scenario
from sysgym.agents.learned.policy import LARGEST_DIFFERENCE, Mlp, actor_modules, mlp_of_modules
from sysgym.agents.learned.training.algorithms import ALGORITHMS
from sysgym.agents.learned.training.run import trained_with
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios.errors import SysgymError


def save_policy(model: Any, path: str | PathLike[str], env: gym.Env[Any, Any] | None = None) -> Path:
    """Write the policy of a stable-baselines3 model as a checkpoint of sysgym.

    The model may have been trained by any program on an environment of sysgym whose observation is a vector.
    The checkpoint holds numbers only, is played without torch, and can be used as a contender:
    ``sysgym bench quick --contender mine=ppo@mine.zip``. Training cannot be resumed from it.

    The checkpoint stores the environment's id, its scenario, and the arguments that determine the meaning of
    observations and actions: ``preset``, ``features``, ``history`` and ``action_scale``. It does not store
    the transport: a policy trained above ``dctcp`` is played above it as ``dctcp:ppo@mine.zip``.

    Args:
        model: The model, such as a ``PPO``; its policy has to be a plain network.
        path: File to write, ``.zip``.
        env: An environment as in training, which is compared with the model's environments; None: the first
            of these. It is required if the model was loaded without an environment, or trained in other
            processes.

    Returns:
        The path.

    Raises:
        SysgymError: If sysgym could not play the policy as the model does: the environment does not belong to
            sysgym or differs from that of the training, a checkpoint cannot store its arguments, a wrapper
            changes observations or actions, or the policy is not a plain network.
    """
    path = Path(path)
    if path.suffix != ".zip":
        raise SysgymError(f"{path}: expected a name that ends in .zip")
    env = environment_of(model, env)
    scenario = kept_scenario(env)
    problem = learning_of(scenario.family).problem_like(env.unwrapped, scenario)
    check_kept(env, problem, path)
    meaning = problem.action_meaning()
    meta = CheckpointMeta(
        agent=_name_of(model),
        env_id=scenario.env_id,
        scenario=scenario.resolved(),
        env_kwargs=dict(problem.env_kwargs),
        observation_index=problem.observation_index(),
        action_scale=meaning,
        total_steps=int(model.num_timesteps),
        wall_s=0.0,
        seed=int(model.seed or 0),
        n_envs=int(model.n_envs),
        hyper_parameters={},
        versions=trained_with(),
    )
    try:
        CheckpointMeta.from_json(json.dumps(asdict(meta)))
    except ValueError as error:  # for example, a history longer than the limit for checkpoints
        raise SysgymError(f"{path}: a checkpoint cannot hold this policy: {error}") from error
    scale = ActionScale.of(meaning, path) if "low" in meaning else None
    write_checkpoint(path, meta, _network(model, scale), b"")
    return path


def _name_of(model: Any) -> str:
    """Return the name of the model's algorithm."""
    for known in type(model).__mro__:
        for name, algorithm in ALGORITHMS.items():
            if (known.__module__.partition(".")[0], known.__name__) == (
                algorithm.module,
                algorithm.class_name,
            ):
                return name
    raise SysgymError(
        f"{type(model).__name__}: expected an algorithm that sysgym knows: {', '.join(ALGORITHMS)}"
    )


def _network(model: Any, scale: ActionScale | None) -> Mlp:
    """Return the network whose actions are those of the model.

    Args:
        model: The model.
        scale: Scale of continuous actions; None if actions are discrete.

    Raises:
        SysgymError: If the policy is not a plain network.
    """
    modules = actor_modules(model.policy)
    network = None if modules is None else mlp_of_modules(modules)
    if network is not None:
        # Outputs of an actor are in [-1, 1], those of a policy with a distribution in the unit of actions.
        if scale is not None and is_native(model.action_space, scale) and not hasattr(model.policy, "actor"):
            network = _unscaled(network, scale)
        observations = np.random.default_rng(0).random((16, *model.observation_space.shape), np.float32)
        expected, _ = model.predict(observations, deterministic=True)
        outputs = network(observations)
        if scale is None:
            same = np.array_equal(outputs.argmax(axis=1), expected)
        else:
            rates = expected if is_native(model.action_space, scale) else scale.rates(expected)
            most = LARGEST_DIFFERENCE * (scale.high - scale.low)
            same = np.allclose(scale.rates(outputs), rates, atol=most)
        if same:
            return network
    raise SysgymError(
        f"the policy of this {type(model).__name__} is not a plain network of linear, tanh and ReLU layers"
        " from the observation to the action"
    )


def _unscaled(network: Mlp, scale: ActionScale) -> Mlp:
    """Return a network with its outputs scaled linearly from [low, high] to [-1, 1]."""
    factor = np.float32(2.0 / (scale.high - scale.low))
    weights: tuple[NDArray[np.float32], ...] = (*network.weights[:-1], network.weights[-1] * factor)
    last = (network.biases[-1] - np.float32(scale.low)) * factor - np.float32(1.0)
    return Mlp(weights, (*network.biases[:-1], last), network.activations)
