"""Checkpoints of policies that a program of one's own has trained with stable-baselines3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import CheckpointMeta, write_checkpoint
from sysgym.agents.learned.learning import problem_of
from sysgym.agents.learned.policy import LARGEST_DIFFERENCE, Mlp, actor_modules, mlp_of_modules
from sysgym.agents.learned.problems import MASK
from sysgym.agents.learned.training.algorithms import ALGORITHMS
from sysgym.agents.learned.training.run import trained_with
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios import Scenario
from sysgym.scenarios.errors import SysgymError

_KEPT = ("features", "history", "reward")
"""Arguments of environments that checkpoints store."""


def save_policy(model: Any, path: str | PathLike[str], env: gym.Env[Any, Any] | None = None) -> Path:
    """Write the policy of a stable-baselines3 model as a checkpoint of sysgym.

    The model may have been trained by any program on an environment of sysgym whose observation is a vector.
    The checkpoint holds numbers only, is played without torch, and is a contender like any other:
    ``sysgym bench quick --contender mine=ppo@mine.zip``. Training cannot be resumed from it.

    A transport is no part of it: what was trained above ``dctcp`` plays so as ``dctcp:ppo@mine.zip``.

    Args:
        model: The model, such as a ``PPO``; its policy is a plain network.
        path: File to write, ``.zip``.
        env: An environment as in training; None: the first one of the model.

    Returns:
        The path.

    Raises:
        SysgymError: If sysgym could not play the policy as the model does: the environment is none of
            sysgym's, observations or actions are changed on the way, or the policy is no plain network.
    """
    path = Path(path)
    if path.suffix != ".zip":
        raise SysgymError(f"{path}: expected a name that ends in .zip")
    env = _first_env(model) if env is None else env
    world: Any = env.unwrapped
    scenario = getattr(world, "scenario", None)
    if not isinstance(scenario, Scenario):
        raise SysgymError(f"{type(world).__name__} is no environment of sysgym, so no scenario can play it")
    kwargs: Mapping[str, Any] = {} if env.spec is None else env.spec.kwargs
    _check_spaces(model, env, kwargs)
    own = {name: kwargs[name] for name in _KEPT if isinstance(kwargs.get(name), str | int | list | tuple)}
    own = {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}
    # Rates in their own unit are like those of a linear scale, once the network's last layer is scaled.
    problem = problem_of(scenario, {"history": 1, **own}, _scale_of(scenario, kwargs))
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
    scale = ActionScale.of(meaning, path) if "low" in meaning else None
    write_checkpoint(path, meta, _network(model, scale), b"")
    return path


def _scale_of(scenario: Scenario, kwargs: Mapping[str, Any]) -> str:
    """Return the action scale of the training problem that has the environment's actions."""
    chosen = kwargs.get("action_scale", "linear")
    try:
        problem_of(scenario, {}, "linear")
    except SysgymError:
        return "log"  # training's default, which stands for an environment without a choice
    return "log" if chosen == "log" else "linear"


def _first_env(model: Any) -> gym.Env[Any, Any]:
    envs = getattr(model.get_env(), "envs", None)
    if not envs:
        raise SysgymError(
            "the model has no environment in this process; pass one as in training:"
            " save_policy(model, path, env)"
        )
    first: gym.Env[Any, Any] = envs[0]
    return first


def _check_spaces(model: Any, env: gym.Env[Any, Any], kwargs: Mapping[str, Any]) -> None:
    """Raise SysgymError unless the policy sees what the environment shows, and acts in it directly."""
    own = env.unwrapped.observation_space
    if isinstance(own, gym.spaces.Dict):
        hint = "; sysgym train maskable_ppo trains such a policy" if MASK in own.spaces else ""
        raise SysgymError(f"the observation of {env.unwrapped} is no vector{hint}")
    between = gym.ObservationWrapper | gym.ActionWrapper
    changed = [type(one).__name__ for one in _wrappers(env) if isinstance(one, between)]
    if model.get_vec_normalize_env() is not None:
        changed.append("VecNormalize")
    if kwargs.get("observation", "default") != "default":
        changed.append("the argument observation")
    spaces = own, env.unwrapped.action_space
    if changed or (model.observation_space, model.action_space) != spaces:
        by = f" ({', '.join(changed)})" if changed else ""
        raise SysgymError(
            f"the model sees other observations, or has other actions, than the environment itself{by}; train"
            " without, or use the environment's arguments features, history and action_scale"
        )


def _wrappers(env: gym.Env[Any, Any]) -> Iterator[gym.Wrapper[Any, Any, Any, Any]]:
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


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
        scale: Scale of continuous actions; None: they are discrete.

    Raises:
        SysgymError: If there is none.
    """
    modules = actor_modules(model.policy)
    network = None if modules is None else mlp_of_modules(modules)
    if network is not None:
        # An actor ends in [-1, 1], a policy with a distribution in the unit of the actions.
        if scale is not None and _is_native(model, scale) and not hasattr(model.policy, "actor"):
            network = _unscaled(network, scale)
        observations = np.random.default_rng(0).random((16, *model.observation_space.shape), np.float32)
        expected, _ = model.predict(observations, deterministic=True)
        outputs = network(observations)
        if scale is None:
            same = np.array_equal(outputs.argmax(axis=1), expected)
        else:
            rates = expected if _is_native(model, scale) else scale.rates(expected)
            most = LARGEST_DIFFERENCE * (scale.high - scale.low)
            same = np.allclose(scale.rates(outputs), rates, atol=most)
        if same:
            return network
    raise SysgymError(
        f"the policy of this {type(model).__name__} is no plain network of linear, tanh and ReLU layers from"
        " the observation to the action"
    )


def _is_native(model: Any, scale: ActionScale) -> bool:
    """Return whether the model's actions are those of the environment, not scaled to [-1, 1]."""
    space = model.action_space
    return bool(np.isclose(space.low, scale.low).all() and np.isclose(space.high, scale.high).all())


def _unscaled(network: Mlp, scale: ActionScale) -> Mlp:
    """Return a network whose outputs are those of another, from [low, high] to [-1, 1]."""
    factor = np.float32(2.0 / (scale.high - scale.low))
    weights: tuple[NDArray[np.float32], ...] = (*network.weights[:-1], network.weights[-1] * factor)
    last = (network.biases[-1] - np.float32(scale.low)) * factor - np.float32(1.0)
    return Mlp(weights, (*network.biases[:-1], last), network.activations)
