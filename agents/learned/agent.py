"""Agent that plays a trained policy with continuous actions."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta
from sysgym.agents.learned.sets.network import check_sizes
from sysgym.agents.learned.training.algorithms import get_algorithm
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]


class LearnedAgent:
    """Agent that plays the mean action of a checkpoint's policy, without exploration.

    Args:
        checkpoint: The checkpoint.
        trust: Whether code in the checkpoint may run.

    Attributes:
        name: Name of the algorithm.
        env_kwargs: Arguments that the environment must be created with for this policy.
        meta: Metadata of the checkpoint.

    Raises:
        SysgymError: If the action scale is invalid, the policy cannot be played, or it contains code and
            ``trust`` is not set.
    """

    def __init__(self, checkpoint: Checkpoint, *, trust: bool = False) -> None:
        self.meta = checkpoint.meta
        self.name = self.meta.agent
        self.env_kwargs = dict(self.meta.env_kwargs)
        self._path = checkpoint.path
        self._scale = ActionScale.of(self.meta.action_scale, checkpoint.path)
        self._action_for: Callable[[Array], Array] = np.asarray
        self._policy: Callable[[Any], NDArray[Any]] = checkpoint.policy or _torch_policy(checkpoint, trust)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check that the environment matches the policy's training environment.

        Raises:
            SysgymError: If it does not match.
        """
        index = getattr(env.unwrapped, "observation_index", None)
        if index != self.meta.observation_index:
            raise other_observation(self._path, self.meta, env, index or [])
        preset, own = self.env_kwargs.get("preset"), getattr(env.unwrapped, "preset", None)
        if preset is not None and own is not None and own.name != preset:
            raise SysgymError(
                f'{self._path}: trained with the preset "{preset}", and this environment has "{own.name}",'
                f" whose actions mean something else; create the environment with preset={preset!r}"
            )
        if isinstance(env.action_space, gym.spaces.Box):
            check_sizes(self._policy, len(index or []), env.action_space.shape[0], self._path)
        self._speak_to(env)

    def act(self, observation: Any) -> Array:
        """Return the action for the policy's rates."""
        return self._action_for(self._scale.rates(self._policy(observation)))

    def _speak_to(self, env: gym.Env[Any, Any]) -> None:
        # Policies output native values; the environment converts them to its own actions.
        self._action_for = getattr(env.unwrapped, "action_for", np.asarray)


def other_observation(
    path: Path, meta: CheckpointMeta, env: gym.Env[Any, Any], index: list[str]
) -> SysgymError:
    """Return the error for an environment whose observation differs from that of a policy.

    Args:
        path: The checkpoint.
        meta: Metadata of the checkpoint.
        env: The environment.
        index: Names of the values of the environment's observation.
    """
    got, expected = first_difference(index, meta.observation_index)
    trained = f"trained on {meta.scenario_name}, whose observation differs: {expected}"
    if env.spec is not None and env.spec.id != meta.env_id:
        return SysgymError(
            f"{path}: {trained} where this environment has {got};"
            f" the policy plays {meta.env_id}, this environment is {env.spec.id}"
        )
    made = ", ".join(f"{name}={value!r}" for name, value in meta.env_kwargs.items() if name != "reward")
    advice = f"; create the environment as in training, with {made}" if made else ""
    return SysgymError(f"{path}: {trained} where this environment has {got}{advice}")


def first_difference(got: list[str], expected: list[str]) -> tuple[str, str]:
    """Return the first names that differ between two observations, or the sizes if there are none."""
    for a, b in zip(got, expected, strict=False):
        if a != b:
            return a, b
    return f"{len(got)} values", f"{len(expected)} values"


def _torch_policy(checkpoint: Checkpoint, trust: bool) -> Callable[[Any], NDArray[Any]]:
    """Return the policy evaluated in torch, for networks that are not supported in NumPy."""
    algorithm = get_algorithm(checkpoint.meta.agent)
    if checkpoint.learner:
        algorithm.load_class()  # the extra may be missing
        from sysgym.agents.learned.training.learner import torch_model

        return _mean_action_of(torch_model(checkpoint, trust=trust))
    if not checkpoint.pickled:
        raise SysgymError(f"{checkpoint.path}: contains no policy")
    if not trust:
        raise SysgymError(
            f"{checkpoint.path}: its policy is a pickle (model.zip, of an older version), and reading a"
            " pickle runs any code in it; if you trust its author, add --trust (trust=True in Python)"
        )
    try:
        model = algorithm.load_class().load(BytesIO(checkpoint.pickled), device="cpu")
    except Exception as error:  # a pickle can raise anything
        raise SysgymError(f"{checkpoint.path}: its model.zip cannot be read ({error})") from error
    return _mean_action_of(model)


def _mean_action_of(model: Any) -> Callable[[Any], NDArray[Any]]:
    def mean_action(observation: Any) -> NDArray[Any]:
        action: NDArray[Any] = model.predict(observation, deterministic=True)[0]
        return action

    return mean_action
