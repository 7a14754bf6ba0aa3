"""Environments in which a user's program has trained a model, and the arguments that a checkpoint stores."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.agent import first_difference
from sysgym.agents.learned.boxes import index_of
from sysgym.agents.learned.problems import MASK, Problem
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios import Scenario, get_family, scenario_from_resolved
from sysgym.scenarios.errors import SysgymError

_OF_EPISODES = ("scenario", "overrides", "split", "reward", "transport", "backend", "render_mode")
"""Arguments of environments that do not change the meaning of observations and actions."""

_SHARES = (0.0, 0.1, 0.5, 1.0)
"""Native actions at which action scales are compared, as shares of the range between the bounds."""

_TOLERANCE = 1e-5


def environment_of(model: Any, env: gym.Env[Any, Any] | None) -> gym.Env[Any, Any]:
    """Return the environment whose arguments the checkpoint of a model stores: the given one, or the model's.

    Args:
        model: The model.
        env: An environment as in training; None: the model's first environment.

    Raises:
        SysgymError: If ``env`` is None and the model has no environment in this process; if the model's
            environments and the given one differ in the meaning of observations or actions; if they do not
            belong to sysgym; or if a wrapper changes observations or actions.
    """
    own = _own_environments(model)
    singles = [one for one in own if isinstance(one, gym.Env)]
    chosen = env
    if chosen is None:
        if not singles:
            raise SysgymError(
                "the model has no single environment in this process; pass one with the arguments of the"
                " training: save_policy(model, path, env)"
            )
        chosen = singles[0]
    scenarios = [_scenario_of(one).resolved() for one in singles]
    given = _scenario_of(chosen).resolved()
    traits = _traits(chosen.unwrapped)
    for one in own:
        for what, trained, got in _differences(_traits(getattr(one, "unwrapped", one)), traits):
            raise SysgymError(
                _mixed(what, trained, got) if env is None else _not_of_training(what, trained, got)
            )
    for one in (chosen, *singles):
        _check_spaces(model, one)
    if scenarios and given not in scenarios:
        where, trained, got = next(_keys_that_differ(scenarios[0], given))
        raise SysgymError(_not_of_training(f"scenario's {where}", repr(trained), repr(got)))
    return chosen


def kept_scenario(env: gym.Env[Any, Any]) -> Scenario:
    """Return the scenario of an environment, with the environment's own id.

    Raises:
        SysgymError: If the environment is not registered in the scenario's family.
    """
    scenario, world = _scenario_of(env), env.unwrapped
    family = get_family(scenario.family)
    entry = f"{type(world).__module__}:{type(world).__qualname__}"
    own = None if world.spec is None else world.spec.id
    if family.environment(own or "") is None:
        own = next((one.env_id for one in family.environments if one.entry_point == entry), None)
    if own is None:
        name = entry if world.spec is None else world.spec.id
        raise SysgymError(
            f"{name} is not an environment of the family {family.name}, and the scenario {scenario.name} is"
            f" for {scenario.env_id}: a checkpoint can name only one of"
            f" {', '.join(one.env_id for one in family.environments)}; register the environment with"
            " sysgym.registration.register_environment"
        )
    if own == scenario.env_id:
        return scenario
    return scenario_from_resolved({**scenario.resolved(), "env_id": own})


def check_kept(env: gym.Env[Any, Any], problem: Problem, path: Any) -> None:
    """Check that the environments of a learning problem are like the environment of the training.

    Args:
        env: The environment of the training.
        problem: The learning problem whose arguments the checkpoint stores.
        path: The checkpoint.

    Raises:
        SysgymError: If observations or actions have another meaning, or an argument cannot be stored.
    """
    world: Any = env.unwrapped
    kind = type(world).__name__
    for name, value in _other_arguments(env, problem):
        raise SysgymError(
            f"{kind}: a checkpoint cannot keep the argument {name} = {value!r:.80}; leave it at its default,"
            " or write an agent for this policy (docs/adding-an-agent.md)"
        )
    index, expected = index_of(env), problem.observation_index()
    if index != expected:
        trained, kept = first_difference(index, expected)
        raise SysgymError(
            f"{kind}: the observation of the training has {trained} where that of an environment made with"
            f" {dict(problem.env_kwargs)} has {kept}, so a checkpoint cannot be played; write an agent for"
            " this policy (docs/adding-an-agent.md)"
        )
    meaning = problem.action_meaning()
    if "low" not in meaning or not hasattr(world, "action_for"):
        return
    scale = ActionScale.of(meaning, path)
    bounds = scale.low, scale.high
    for native, action in zip(_levels(bounds), _actions(world, bounds), strict=True):
        is_same = is_native(world.action_space, scale)
        wanted = float(native if is_same else scale.outputs(np.array([native]))[0])
        if not np.allclose(action, wanted, atol=_TOLERANCE):
            raise SysgymError(
                f"{kind}: the native action {native:g} is {action:g} in the training and {wanted:g} on"
                f" the scale {meaning}, so a checkpoint would act differently; use a scale of the environment"
            )


def _own_environments(model: Any) -> list[Any]:
    """Return the environments of a model with their wrappers; traits only, if in other processes."""
    envs = model.get_env()
    if envs is None:
        return []
    base = envs.unwrapped
    for name in ("envs", "worlds"):  # attributes of DummyVecEnv and of ParallelToVectorEnv
        if found := getattr(base, name, None):
            return list(found)
    return [_Remote(base, number) for number in range(base.num_envs)]


class _Remote:
    """Traits of an environment in another process; absent attributes are None.

    Args:
        envs: The vector environment.
        number: Index of the environment.
    """

    def __init__(self, envs: Any, number: int) -> None:
        self._envs, self._number = envs, number
        self.observation_index, self.native_bounds = (
            self._get("observation_index"),
            self._get("native_bounds"),
        )
        self.action_space = envs.action_space

    def action_for(self, native: NDArray[np.float32]) -> Any:
        """Return the action for a native one."""
        return self._envs.env_method("action_for", native, indices=[self._number])[0]

    def _get(self, name: str) -> Any:
        # A request for an absent attribute would end the process of the environment.
        try:
            return self._envs.get_attr(name, [self._number])[0] if self._envs.has_attr(name) else None
        except (AttributeError, NotImplementedError):  # vector environments of other packages
            return None


def _scenario_of(env: gym.Env[Any, Any]) -> Scenario:
    world = env.unwrapped
    scenario = getattr(world, "scenario", None)
    if not isinstance(scenario, Scenario):
        raise SysgymError(
            f"{type(world).__name__} is not an environment of sysgym, so no scenario can play it"
        )
    return scenario


def _check_spaces(model: Any, env: gym.Env[Any, Any]) -> None:
    """Raise SysgymError unless the model's observations and actions are those of the environment itself."""
    _scenario_of(env)
    own = env.unwrapped.observation_space
    if isinstance(own, gym.spaces.Dict):
        hint = "; sysgym train maskable_ppo trains such a policy" if MASK in own.spaces else ""
        raise SysgymError(f"the observation of {env.unwrapped} is no vector{hint}")
    between = gym.ObservationWrapper | gym.ActionWrapper
    changed = [type(one).__name__ for one in _wrappers(env) if isinstance(one, between)]
    if model.get_vec_normalize_env() is not None:
        changed.append("VecNormalize")
    if _has_other_observer(env.unwrapped):
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


def _has_other_observer(world: Any) -> bool:
    """Return whether an environment's observation is not its default one."""
    observers = getattr(type(world), "OBSERVERS", {})
    return "default" in observers and world.observer is not observers["default"]


def _traits(world: Any) -> dict[str, Any]:
    """Return the known properties that two environments must share for one policy to play both."""
    found: dict[str, Any] = {}
    if isinstance(world, gym.Env):
        found["environment"] = type(world).__name__
    if (index := getattr(world, "observation_index", None)) is not None:
        found["observation"] = index
    if (preset := getattr(world, "preset", None)) is not None:
        found["preset"] = preset.name
    if (bounds := getattr(world, "native_bounds", None)) is not None:
        found["bounds of native actions"] = bounds
        # Spaces of a parallel environment are methods; actions of its agents have one value each.
        found["scale of actions"] = _actions(world, bounds)
    return found


def _levels(bounds: tuple[float, float]) -> list[np.float32]:
    return [np.float32(bounds[0] + share * (bounds[1] - bounds[0])) for share in _SHARES]


def _actions(world: Any, bounds: tuple[float, float]) -> list[float]:
    """Return the first component of the action for each of the compared native actions."""
    shape = getattr(world.action_space, "shape", None) or (1,)
    return [float(world.action_for(np.full(shape, native))[0]) for native in _levels(bounds)]


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the traits in which two environments differ, with both values, for messages."""
    for what in [name for name in one if name in other]:
        if what == "scale of actions":
            if not np.allclose(one[what], other[what], atol=_TOLERANCE):
                yield f"action for {_SHARES[1]:.0%} of the native range", *_shown(one[what], other[what])
        elif one[what] != other[what]:
            observed = what == "observation"
            yield what, *(first_difference(one[what], other[what]) if observed else (one[what], other[what]))


def _shown(one: list[float], other: list[float]) -> tuple[str, str]:
    return f"{one[1]:.3g}", f"{other[1]:.3g}"


def _mixed(what: str, one: Any, other: Any) -> str:
    """Return the message for a model whose own environments differ."""
    return (
        f"the environments of the model differ in the {what}: {other} and {one}; a checkpoint holds one"
        " kind: train in environments with the same arguments"
    )


def _not_of_training(what: str, trained: Any, got: Any) -> str:
    """Return the message for a given environment that differs from the model's environments."""
    return (
        f"env: the {what} is {got} in the given environment and {trained} in the training; omit env, or pass"
        " an environment with the arguments of the training"
    )


def _keys_that_differ(one: Any, other: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted keys in which two resolved scenarios differ, with both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in {**one, **other}:
            yield from _keys_that_differ(one.get(key), other.get(key), f"{at}.{key}" if at else str(key))
    elif one != other:
        yield at, one, other


def _other_arguments(env: gym.Env[Any, Any], problem: Problem) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of the environment that neither the problem nor the scenario stores."""
    world: Any = env.unwrapped
    if world.spec is None:
        return
    scenario = _scenario_of(env)
    own = get_family(scenario.family).agent_arguments(world.spec.id)
    known = {*_OF_EPISODES, *problem.env_kwargs, "observation"}
    known |= {"action_scale"} if hasattr(world, "action_for") else set()
    parameters = inspect.signature(type(world).__init__).parameters
    for name, value in world.spec.kwargs.items():
        default = parameters[name].default if name in parameters else None
        if name not in known and repr(value) not in (repr(default), repr(own.get(name, default))):
            yield name, value


def is_native(space: gym.Space[Any], scale: ActionScale) -> bool:
    """Return whether actions are native values, such as rates, rather than scaled to [-1, 1]."""
    assert isinstance(space, gym.spaces.Box)
    return bool(np.isclose(space.low, scale.low).all() and np.isclose(space.high, scale.high).all())
