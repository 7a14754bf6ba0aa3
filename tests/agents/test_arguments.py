"""Arguments of agents: a wrong type or value is an error in words, whichever the agent is."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent
from sysgym.agents.arguments import check_types, in_range
from sysgym.errors import SysgymError
from sysgym.registration import ENVIRONMENTS

if TYPE_CHECKING:
    from decimal import Decimal

REGISTERED = sysgym.__version__
HEURISTICS = [name for name in list_agents() if not agent_info(name).learned]
WRONG: Mapping[Any, tuple[Any, ...]] = {
    bool: (1, "x", None),
    int: ("x", 1.5, math.nan, True, None),
    float: ("x", math.nan, math.inf, -math.inf, 10**400, True, None),
    str: ("no such name", 3, True, None),
    int | None: ("x", 1.5, math.nan, True),
    float | None: ("x", math.nan, math.inf, -math.inf, 10**400, True),
}
"""Values that an argument never has, by its annotation."""

EXTREME: Mapping[Any, tuple[Any, ...]] = {int: (0, -1, -(10**9)), float: (0.0, -1.0, -1e9, 1e9)}
EXTREME = {**EXTREME, int | None: EXTREME[int], float | None: EXTREME[float]}
"""Values that some arguments may have."""

STEPS = 8
"""Decisions that an agent takes with an extreme value."""


def declared(name: str) -> dict[str, Any]:
    """Return the annotations of an agent's constructor."""
    parameters = inspect.signature(agent_info(name).factory(), eval_str=True).parameters
    return {key: parameter.annotation for key, parameter in parameters.items()}


ARGUMENTS = [(name, key, kind) for name in HEURISTICS for key, kind in declared(name).items()]


@pytest.fixture(scope="module")
def worlds() -> Iterator[Callable[[str], list[gym.Env[Any, Any]]]]:
    """Returns the environments of a family with their first scenarios, or all of them."""
    made: dict[str, gym.Env[Any, Any]] = {}

    def of(family: str) -> list[gym.Env[Any, Any]]:
        for env_id in ENVIRONMENTS:
            if env_id not in made:
                made[env_id] = gym.make(env_id, disable_env_checker=True)
        families = {env_id: env.unwrapped.scenario.family for env_id, env in made.items()}  # type: ignore[attr-defined]
        return [env for env_id, env in made.items() if family in ("", families[env_id])]

    yield of
    for env in made.values():
        env.close()


@pytest.mark.parametrize(("name", "key", "kind"), ARGUMENTS)
def test_a_value_of_a_wrong_type_is_an_error_in_words(name: str, key: str, kind: Any) -> None:
    for value in WRONG[kind]:
        with pytest.raises(SysgymError, match=r"expected|is named") as raised:
            make_agent(name, **{key: value})
        assert "cannot be made" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "key", "kind"), [argument for argument in ARGUMENTS if argument[2] in EXTREME]
)
def test_an_extreme_value_is_an_error_in_words_or_plays(
    name: str, key: str, kind: Any, worlds: Callable[[str], list[gym.Env[Any, Any]]]
) -> None:
    for value in EXTREME[kind]:
        agent = made_or_refused(name, key, value)
        if agent is not None:
            assert any([plays(agent, env) for env in worlds(agent_info(name).family)])


def made_or_refused(name: str, key: str, value: Any) -> Any:
    """Return an agent, None if it refuses the value."""
    try:
        return make_agent(name, **{key: value})
    except SysgymError as error:
        message = str(error)
    assert f"{key}: expected" in message
    return None


def plays(agent: Any, env: gym.Env[Any, Any]) -> bool:
    """Return whether an agent plays an environment, after some steps if it does."""
    observation, _ = env.reset(seed=0)
    try:
        agent.begin(env)
    except SysgymError:
        return False
    for _ in range(STEPS):
        observation, _, terminated, truncated, _ = env.step(agent.act(observation))
        if terminated or truncated:
            break
    return True


def test_arguments_are_checked_by_their_annotations() -> None:
    def factory(
        count: int = 1,
        share: float = math.inf,
        either: int | str | None = None,
        names: list[str] | None = None,
        anything: Any = None,
        **others: Any,
    ) -> None: ...

    fine = {"count": np.int64(3), "share": np.float32(0.5), "either": "x", "names": 3, "anything": "x"}
    check_types("mine", factory, {**fine, "more": "x"})
    check_types("mine", factory, {"share": math.inf})  # its own default
    check_types("mine", factory, {"share": 2})
    with pytest.raises(SysgymError, match=r"^mine: count: expected a whole number, got 1\.0$"):
        check_types("mine", factory, {"count": 1.0})
    with pytest.raises(SysgymError, match=r"either: expected a whole number or a text or None, got 1\.5"):
        check_types("mine", factory, {"either": 1.5})


def test_annotations_that_cannot_be_evaluated_are_not_checked() -> None:
    def factory(count: int = 1, price: Decimal | None = None) -> None: ...

    check_types("mine", factory, {"count": "x"})


def test_a_range_says_what_it_expects() -> None:
    assert in_range("late", "cap", 0.25, least=0.0, most=1.0) == 0.25
    with pytest.raises(SysgymError, match=r"^tacos: runs: expected a whole number, got 1\.5$"):
        in_range("tacos", "runs", 1.5, least=1)
    assert in_range("topk", "k", 1, least=1) == 1
    for value in (-3.0, 1.5, math.nan):
        with pytest.raises(SysgymError, match=r"^late: cap: expected 0 to 1, got"):
            in_range("late", "cap", value, least=0.0, most=1.0)
    for value in (0.0, 1.0):
        with pytest.raises(SysgymError, match="expected above 0 and below 1, got"):
            in_range("late", "cap", value, above=0.0, below=1.0)
    with pytest.raises(SysgymError, match="expected a finite number, got inf"):
        in_range("nurd", "alpha", math.inf)
