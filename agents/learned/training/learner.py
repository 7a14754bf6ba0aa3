"""Complete state of a stable-baselines3 learner as arrays and numbers, without pickles. Requires torch.

The state covers networks, optimisers, counters, environments and all random generators. Resumed training is
bit-identical to training without interruption.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.save_util import recursive_getattr
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from sysgym.agents.learned.arrays import read_tree, write_tree
from sysgym.agents.learned.checkpoint import Checkpoint
from sysgym.agents.learned.learning import problem_of
from sysgym.agents.learned.training.algorithms import get_algorithm
from sysgym.scenarios import scenario_from_resolved
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import write_atomically

_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_current_progress_remaining")
_CLASSES = {"activation_fn": torch.nn.Module, "features_extractor_class": BaseFeaturesExtractor}
"""Keys of ``policy_kwargs`` that name a class needed for playing, and the required base class. Other modules
of torch take numbers of layers, which the author of an untrusted checkpoint could choose."""
_OPTIMIZER_KEYS = ("optimizer_class", "optimizer_kwargs")
"""Keys of ``policy_kwargs`` that are used in training only."""
_PACKAGES = ("torch.nn.", "stable_baselines3.", "sb3_contrib.")
"""Packages whose classes a checkpoint may name without trust; other classes are the author's own code."""
_REPLAYED = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
REPLAY_BUFFERS_KEPT = 2
"""Number of replay buffers that are kept, because they are large: for the two newest checkpoints."""

Tree = dict[str, Any]


def parameters_of(model: Any) -> Tree:
    """Return the networks and optimisers of a learner."""
    names = model._get_torch_save_params()[1]
    return {
        "parameters": _as_arrays(model.get_parameters()),
        "variables": {name: _as_arrays(recursive_getattr(model, name).data) for name in names},
    }


def state_of(model: Any) -> Tree:
    """Return the state of a learner between two rollouts, without its replay buffer.

    Args:
        model: Model of stable-baselines3, on environments of :mod:`.problems`.
    """
    return {
        **parameters_of(model),
        "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
        "observations": model._last_obs.copy(),
        "episode_starts": model._last_episode_starts.copy(),
        "environments": model.env.state(),
        "noise": {path: _as_arrays(noise) for path, noise in _noise_of(model).items()},
        "random": _random_state(model),
    }


def restore(model: Any, state: Mapping[str, Any]) -> None:
    """Restore the state of a learner.

    Raises:
        Exception: Any exception, if the state belongs to another learner.
    """
    model.set_parameters({name: _as_tensors(one) for name, one in state["parameters"].items()}, device="cpu")
    for name in model._get_torch_save_params()[1]:
        recursive_getattr(model, name).data.copy_(_as_tensors(state["variables"][name]))
    for name, value in state["counters"].items():
        if name in _COUNTERS:
            setattr(model, name, _counter(name, value))
    _check_observations(state["observations"], model.observation_space, model.n_envs)
    starts = state["episode_starts"]
    if not isinstance(starts, np.ndarray) or starts.shape != (model.n_envs,) or starts.dtype.kind != "b":
        raise ValueError(f"episode_starts: expected {model.n_envs} of true and false")
    model.env.set_state(state["environments"])
    model._last_obs = state["observations"].copy()
    model._last_episode_starts = state["episode_starts"].copy()
    restore_chance(model, state)


def _counter(name: str, value: Any) -> int | float:
    if name == "_current_progress_remaining" and type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and value >= 0:
        return value
    raise ValueError(f"{name}: {str(value)[:40]!r} is no count")


def _check_observations(found: Any, space: Any, n_envs: int) -> None:
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(found, dict) or found.keys() != space.spaces.keys():
            raise ValueError("observations: of another environment")
        for name, one in space.spaces.items():
            _check_observations(found[name], one, n_envs)
        return
    shape = (n_envs, *space.shape)
    if not isinstance(found, np.ndarray) or found.shape != shape or found.dtype.kind not in "biuf":
        raise ValueError(f"observations: expected numbers of the shape {shape}")


def restore_chance(model: Any, state: Mapping[str, Any]) -> None:
    """Restore all random generators, and the exploration noise drawn from them."""
    found = state["random"]
    kind, numbers, gauss = found["python"]
    random.setstate((kind, tuple(numbers.tolist()), gauss))
    np.random.set_state(found["numpy"])
    torch.set_rng_state(torch.from_numpy(found["torch"].copy()))
    model.action_space.np_random.bit_generator.state = found["actions"]
    for path, noise in state["noise"].items():
        distribution = recursive_getattr(model, path).action_dist
        distribution.exploration_mat, distribution.exploration_matrices = map(_as_tensors, noise)


def _random_state(model: Any) -> Tree:
    kind, numbers, gauss = random.getstate()
    return {
        "python": [kind, np.array(numbers, np.int64), gauss],
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state().numpy(),
        "actions": model.action_space.np_random.bit_generator.state,
    }


def _noise_of(model: Any) -> dict[str, Any]:
    """Return the exploration noise that is drawn once per rollout, by the path of its owner."""
    owners = {path: recursive_getattr(model, path, None) for path in ("policy", "policy.actor")}
    distributions: dict[str, Any] = {
        path: getattr(owner, "action_dist", None) for path, owner in owners.items()
    }
    return {
        path: [distribution.exploration_mat, distribution.exploration_matrices]
        for path, distribution in distributions.items()
        if hasattr(distribution, "exploration_mat")
    }


def replay_buffer_bytes(model: Any) -> bytes | None:
    """Return the replay buffer of a learner as an npz file; None for a learner without one."""
    buffer = getattr(model, "replay_buffer", None)
    if buffer is None:
        return None
    # The next observation may be stored in the following row.
    rows = buffer.buffer_size if buffer.full else min(buffer.pos + 1, buffer.buffer_size)
    arrays = {name: getattr(buffer, name)[:rows] for name in _REPLAYED if hasattr(buffer, name)}
    return write_tree({"arrays": arrays, "pos": buffer.pos, "full": buffer.full})


def restore_replay_buffer(model: Any, data: bytes) -> None:
    """Restore the replay buffer of a learner.

    Raises:
        Exception: Any exception, if the buffer belongs to another learner.
    """
    found, buffer = read_tree(data), model.replay_buffer
    for name, rows in found["arrays"].items():
        if name not in _REPLAYED:
            raise ValueError(f"a replay buffer has no {name}")
        getattr(buffer, name)[: len(rows)] = rows
    if not 0 <= found["pos"] < buffer.buffer_size:
        raise ValueError("a replay buffer of another size")
    buffer.pos, buffer.full = int(found["pos"]), bool(found["full"])


def replay_buffer_path(checkpoint: Path) -> Path:
    """Return the path of the replay buffer of a checkpoint."""
    return checkpoint.with_suffix(".replay.npz")


def save_replay_buffer(model: Any, checkpoint: Path) -> None:
    """Write the replay buffer of an off-policy learner beside its checkpoint."""
    data = replay_buffer_bytes(model)
    if data is not None:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(replay_buffer_path(checkpoint), data)


def drop_old_replay_buffers(folder: Path) -> None:
    """Delete the replay buffers of a run except the newest :data:`REPLAY_BUFFERS_KEPT`."""
    found = sorted(folder.glob("step_*.replay.npz"), key=lambda path: int(path.name[5:].partition(".")[0]))
    for path in found[:-REPLAY_BUFFERS_KEPT]:
        path.unlink()


def torch_model(checkpoint: Checkpoint, *, trust: bool = False) -> Any:
    """Return the stable-baselines3 model of a checkpoint for playing, built from its arrays.

    Args:
        checkpoint: Checkpoint with the state of a learner.
        trust: Whether classes named in the checkpoint may be imported from any package.

    Raises:
        SysgymError: If settings name a class from another package than torch, stable-baselines3 and
            sb3-contrib without ``trust``, or do not fit the arrays.
    """
    meta = checkpoint.meta
    algorithm = get_algorithm(meta.agent)
    try:
        settings = algorithm.arguments(meta.hyper_parameters)
        policy_settings = {
            key: _class(value, _CLASSES[key], trust) if key in _CLASSES else value
            for key, value in settings["policy_kwargs"].items()
            if key not in _OPTIMIZER_KEYS
        }
        problem = problem_of(
            scenario_from_resolved(meta.scenario), meta.env_kwargs, "log", over_hosts=algorithm.over_hosts
        )
        if algorithm.over_sets and problem.set_shape is not None:
            policy_settings["set_shape"] = asdict(problem.set_shape)
        chosen = {name: settings[name] for name in ("use_sde",) if name in settings}
        parameters = read_tree(checkpoint.learner)["parameters"]["policy"]
        _check_layers(policy_settings, len(parameters))
        with closing(problem.envs(1, 0)) as envs:
            model = _empty_model(algorithm, envs, policy_settings, chosen)
        model.policy.load_state_dict(_as_tensors(parameters), assign=True)
        model.policy.set_training_mode(False)
    except SysgymError as error:
        raise SysgymError(f"{checkpoint.path}: {error}") from error
    except Exception as error:  # untrusted settings can be wrong in any way
        reason = str(error).partition("\n")[0]
        raise SysgymError(
            f"{checkpoint.path}: its policy cannot be built from its settings and arrays ({reason})"
        ) from error
    return model


def _check_layers(policy_settings: Tree, n_arrays: int) -> None:
    """Reject settings with more layers than arrays, because creating each layer takes time."""
    n_layers, pending = 0, [policy_settings.get("net_arch")]
    while pending:
        found = pending.pop()
        if isinstance(found, dict | list):
            pending += found.values() if isinstance(found, dict) else found
        else:
            n_layers += found is not None
    n_critics = policy_settings.get("n_critics", 0)
    if n_layers > n_arrays or not isinstance(n_critics, int) or n_critics > n_arrays:
        raise ValueError(f"more layers or critics than the {n_arrays} arrays that it has")


def _empty_model(algorithm: Any, envs: Any, policy_settings: Tree, chosen: Tree) -> Any:
    """Return a learner for playing without memory for its network, because the size is untrusted."""
    kind, policy = algorithm.load_class(), algorithm.load_policy()
    policy = kind.policy_aliases[policy] if isinstance(policy, str) else policy
    # A policy without parameters would report the CPU as its device.
    nowhere = {"device": torch.device("meta"), "to": lambda self, *_: self}
    shapes = type(policy.__name__, (policy,), nowhere)
    model = kind(
        shapes,
        None,
        device="cpu",
        policy_kwargs=policy_settings,
        _init_setup_model=False,
        **chosen,
    )
    model.observation_space, model.action_space = envs.observation_space, envs.action_space
    model.n_envs = model.buffer_size = 1
    model.env = envs
    with torch.device("meta"):
        model._setup_model()
    model.env = None
    for name in nowhere:
        delattr(shapes, name)
    return model


def _class(name: Any, kind: type, trust: bool) -> Any:
    """Return the class that is named in a checkpoint, imported only with trust."""
    module, _, attribute = str(name).rpartition(".")
    if not f"{module}.".startswith(_PACKAGES) and not trust:
        raise SysgymError(
            f"its policy is made with {name}, which is code of its author; if you trust the author, add"
            " --trust (trust=True in Python) to import it"
        )
    found = getattr(import_module(module) if trust else sys.modules.get(module), attribute, None)
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise SysgymError(f"there is no {kind.__name__} named {name} here, which its policy is made with")
    return found


def _as_arrays(value: Any) -> Any:
    """Return a torch state with tensors replaced by arrays."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, Mapping):
        return {key: _as_arrays(one) for key, one in value.items()}
    return [_as_arrays(one) for one in value] if isinstance(value, list | tuple) else value


def _as_tensors(value: Any) -> Any:
    """Return a torch state with arrays replaced by tensors; optimisers use integer keys."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, dict):
        return {int(key) if key.isdigit() else key: _as_tensors(one) for key, one in value.items()}
    return [_as_tensors(one) for one in value] if isinstance(value, list) else value
